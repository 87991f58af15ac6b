//! Programs that connect to the port of a job and do not know its secret: the job ends as it would without them, and they hear nothing of it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pipezero_files::host::JobSecret;

use super::super::error::ControlChannelError;
use super::super::frame::{self, Hello};
use super::super::greeting;
use super::over_tcp::{listener, member};
use crate::world::{ControlChannel, Member};

/// How long a job waits for its processes, and a test for anything.
const LONGEST: Duration = Duration::from_secs(20);
/// How long a process waits that comes during an attack: less than an unknown program may take to greet.
const SOON: Duration = Duration::from_secs(4);
/// Bytes that a program hears at most that does not know the secret: a random number, and that its proof is wrong.
const HEARD_MAX: usize = 33;

fn secret(text: &str) -> Option<JobSecret> {
    JobSecret::new(text.as_bytes().to_vec())
}

fn of_job(rank: usize) -> Member {
    Member { secret: secret("of the job"), ..member(3, rank..rank + 1) }
}

/// What an attack knows of the job.
struct Attacked {
    address: SocketAddr,
    /// Told once the attack is under way; then the last processes connect.
    is_under_way: Sender<()>,
    /// Disconnected once the job has ended.
    job_runs: Receiver<()>,
}

/// What a program does with the port of a job. It may go on until the job has ended.
type Attack<'a> = dyn Fn(&Attacked) -> io::Result<()> + Sync + 'a;

/// Runs a job of three processes, with an attack that begins before two of them connect and another once all are connected. Returns what the
/// processes have added up.
fn sums_of_job_under(attack: &Attack<'_>) -> [u64; 3] {
    let (listener, address) = listener();
    let (is_under_way, starts) = channel();
    let (has_begun, begins) = channel();
    let (at_start_runs, job_runs) = channel();
    let at_start = Attacked { address, is_under_way, job_runs };
    let (in_mid_run_runs, job_runs) = channel();
    let in_mid_run = Attacked { address, is_under_way: channel().0, job_runs };
    let body = |channel: &ControlChannel, rank: usize, has_begun: Option<Sender<()>>| {
        let mut words = [1 << rank];
        channel.add_words(&mut words).unwrap();
        has_begun.into_iter().for_each(|begun| begun.send(()).unwrap());
        for _ in 0..100 {
            channel.add_words(&mut words).unwrap();
        }
        assert!(!channel.has_lost_a_process() && !channel.is_stopped());
        words[0]
    };
    thread::scope(|scope| {
        // An attack ends with an error where nobody listens any more.
        scope.spawn(move || drop(attack(&at_start)));
        scope.spawn(move || {
            begins.recv_timeout(LONGEST).unwrap();
            drop(attack(&in_mid_run));
        });
        let body = &body;
        let first = scope.spawn(move || {
            let first = ControlChannel::host(listener, || 0, of_job(0)).unwrap();
            body(&first, 0, Some(has_begun))
        });
        starts.recv_timeout(LONGEST).expect("the attack is under way");
        let others = [1, 2].map(|rank| {
            let member = Member { start_timeout: SOON, ..of_job(rank) };
            scope.spawn(move || body(&ControlChannel::join(address, member).unwrap(), rank, None))
        });
        let [second, third] = others.map(|other| other.join().unwrap());
        let sums = [first.join().unwrap(), second, third];
        drop((at_start_runs, in_mid_run_runs));
        sums
    })
}

impl Attacked {
    /// A connection, and with it the attack is under way.
    fn connected(&self) -> io::Result<TcpStream> {
        let stream = self.connected_quietly()?;
        let _ = self.is_under_way.send(());
        Ok(stream)
    }

    fn connected_quietly(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
        stream.set_read_timeout(Some(LONGEST))?;
        Ok(stream)
    }
}

/// Says this, and hears what there is to hear.
fn say(to: &Attacked, said: &[u8]) -> io::Result<()> {
    let mut stream = to.connected()?;
    stream.write_all(said)?;
    hear_nothing(&mut stream);
    Ok(())
}

fn hear_nothing(stream: &mut TcpStream) {
    let mut heard = Vec::new();
    // It fails where the other end has not read all.
    let _ = stream.read_to_end(&mut heard);
    assert!(heard.len() <= HEARD_MAX, "an unknown program hears {heard:?}");
}

/// Greets with a secret, and then asks for the place of rank 1, or of a rank that does not fit.
fn ask_for_a_place(to: &Attacked, secret: Option<JobSecret>) -> io::Result<()> {
    for hello in hellos() {
        let mut stream = to.connected()?;
        let greeted = greeting::greet(&mut stream, secret.as_ref());
        assert!(greeted.is_err(), "it is greeted with {secret:?}");
        // Whatever it was told.
        let _ = frame::write(&mut stream, &hello);
        hear_nothing(&mut stream);
    }
    Ok(())
}

fn hellos() -> [Hello; 2] {
    ["pipezero 1.2", "another program"].map(|program| Hello {
        greeting: Hello::GREETING,
        program: program.to_owned(),
        world_size: 3,
        ranks: 1..2,
    })
}

fn hello_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &hellos()[0]).unwrap();
    bytes
}

/// A connection that keeps what is written to it.
struct Recorded {
    stream: TcpStream,
    written: Vec<u8>,
}

impl Read for Recorded {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.read(to)
    }
}

impl Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let num = self.stream.write(bytes)?;
        self.written.extend(&bytes[..num]);
        Ok(num)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All that a process of the job has sent to be admitted.
fn recorded_greeting() -> Vec<u8> {
    let (listener, address) = listener();
    let coordinator = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        greeting::check(&mut stream, secret("of the job").as_ref()).unwrap().answer(&mut stream).unwrap();
    });
    let mut recorded = Recorded { stream: TcpStream::connect(address).unwrap(), written: Vec::new() };
    greeting::greet(&mut recorded, secret("of the job").as_ref()).unwrap();
    coordinator.join().unwrap();
    recorded.written.extend(hello_bytes());
    recorded.written
}

/// So many connections, of which the last ones stay open until the job has ended. Each sends its bytes one by one.
fn many(to: &Attacked, num: usize, said: &[u8]) -> io::Result<()> {
    const HELD_MAX: usize = 200;
    let mut open = VecDeque::new();
    for _ in 0..num {
        open.push_back((to.connected_quietly()?, said.iter()));
        if open.len() > HELD_MAX {
            open.pop_front();
        }
        drip(&mut open);
    }
    let _ = to.is_under_way.send(());
    // A byte now and then, so that no single wait for one is long.
    while to.job_runs.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
        drip(&mut open);
    }
    Ok(())
}

fn drip<'a>(open: &mut VecDeque<(TcpStream, impl Iterator<Item = &'a u8>)>) {
    open.retain_mut(|(stream, said)| said.next().is_none_or(|&byte| stream.write_all(&[byte]).is_ok()));
}

#[test]
fn a_job_ends_alike_whatever_programs_without_its_secret_do() {
    // 2^0 + 2^1 + 2^2, and three times as much after each further sum.
    let expected = [3_u64.wrapping_pow(100).wrapping_mul(7); 3];
    let recorded = recorded_greeting();
    let opening = [&b"pipezero"[..], &[7; 200]].concat();
    // Less than what the coordinator answers.
    let begun = &opening[..30];
    let attacks: [(&str, &Attack<'_>); 10] = [
        ("says nothing and stays", &|to| {
            let _open = to.connected()?;
            to.job_runs.recv_timeout(LONGEST).unwrap_err();
            Ok(())
        }),
        ("says nothing and closes", &|to| to.connected().map(drop)),
        ("speaks another protocol", &|to| say(to, b"GET / HTTP/1.0\r\n\r\n")),
        ("garbage", &|to| say(to, &[0xff; 1 << 16])),
        ("garbage behind the opening", &|to| say(to, &opening)),
        ("a wrong secret", &|to| ask_for_a_place(to, secret("of another job"))),
        ("no secret", &|to| ask_for_a_place(to, None)),
        ("asks for a place at once", &|to| say(to, &hello_bytes())),
        ("a recorded greeting", &|to| say(to, &recorded)),
        ("1,000 connections, whose bytes come slowly", &|to| many(to, 1000, begun)),
    ];
    for (what, attack) in attacks {
        assert_eq!(sums_of_job_under(attack), expected, "{what}");
    }
}

#[test]
fn a_connection_has_so_long_to_greet_in_all_and_no_longer() {
    let (listener, address) = listener();
    let soon = Duration::from_millis(300);
    let member = |rank| Member { timeout: soon, ..of_job(rank) };
    thread::scope(|scope| {
        let first = scope.spawn(move || ControlChannel::host(listener, || 0, member(0)).unwrap().processes());
        let mut slow = TcpStream::connect(address).unwrap();
        slow.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let start = Instant::now();
        // Bytes come all the time, and never enough of them.
        let is_cut = |slow: &mut TcpStream| match slow.read(&mut [0; 99]) {
            Ok(0) => true,
            Ok(_) => panic!("it is answered"),
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        };
        let mut said = b"pipezero".iter().chain(&[7; 20]);
        while !is_cut(&mut slow) {
            said.next().into_iter().for_each(|&byte| slow.write_all(&[byte]).unwrap());
            assert!(start.elapsed() < LONGEST, "it is not cut");
        }
        assert!(start.elapsed() >= soon, "it is cut after {:?}", start.elapsed());
        let others = [1, 2].map(|rank| {
            scope.spawn(move || ControlChannel::join(address, member(rank)).unwrap().processes())
        });
        let all = first.join().unwrap();
        assert!(others.into_iter().all(|other| other.join().unwrap() == all));
    });
}

#[test]
fn a_process_with_another_secret_is_told_so_and_the_job_waits_for_the_right_one() {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let first = scope.spawn(|| ControlChannel::host(listener, || 0, of_job(0)).unwrap().processes());
        let third = scope.spawn(|| ControlChannel::join(address, of_job(2)).unwrap().processes());
        for wrong in [None, secret("of another job")] {
            let error = ControlChannel::join(address, Member { secret: wrong, ..of_job(1) }).unwrap_err();
            assert!(matches!(error, ControlChannelError::OtherSecret { .. }), "{error}");
            let expected =
                format!("the process that listens on {address} has another job secret than this one: ");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
        let second = ControlChannel::join(address, of_job(1)).unwrap().processes();
        assert_eq!([first.join().unwrap(), third.join().unwrap()], [(); 2].map(|()| second.clone()));
    });
}

#[test]
fn who_waits_in_vain_hears_how_many_connections_did_not_prove_the_secret() {
    let (listener, address) = listener();
    let soon = Member { start_timeout: Duration::from_millis(500), ..of_job(0) };
    thread::scope(|scope| {
        let first = scope.spawn(|| ControlChannel::host(listener, || 0, soon).map(drop));
        let other = Member { secret: secret("of another job"), ..of_job(1) };
        assert!(matches!(ControlChannel::join(address, other), Err(ControlChannelError::OtherSecret { .. })));
        let error = first.join().unwrap().unwrap_err().to_string();
        let expected = ", missing 1, 2: see whether their processes have started, and have the same PIPEZERO_JOB_SECRET: rank 0 has dropped 1 \
                        connection of programs that did not prove it";
        assert!(error.contains(expected), "{error}");
    });
}
