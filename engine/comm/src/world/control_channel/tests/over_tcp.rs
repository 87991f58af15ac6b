//! Processes that are threads here, over real connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use pipezero_models::Host;

use crate::CommError;
use crate::world::{ControlChannel, Member, Position};

pub(super) fn listener() -> (TcpListener, SocketAddr) {
    let listener = ControlChannel::listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(super) fn member(world_size: usize, ranks: Range<usize>) -> Member {
    let timeout = Duration::from_secs(20);
    let program = "pipezero 1.2".to_owned();
    Member { program, secret: None, world_size, ranks, timeout, start_timeout: timeout }
}

/// Runs `body` in a process for each of these ranges of ranks, the first with rank 0.
fn in_processes<R: Send>(
    ranks: &[Range<usize>],
    body: impl Fn(&ControlChannel, usize) -> R + Sync,
) -> Vec<R> {
    let (listener, address) = listener();
    let world_size = ranks.last().unwrap().end;
    let body = &body;
    thread::scope(|scope| {
        let others: Vec<_> = (1..ranks.len())
            .map(|process| {
                let member = member(world_size, ranks[process].clone());
                scope.spawn(move || body(&ControlChannel::join(address, member).unwrap(), process))
            })
            .collect();
        let first = ControlChannel::host(listener, || 5_000_000_000, member(world_size, ranks[0].clone()));
        let own = body(&first.unwrap(), 0);
        let others = others.into_iter().map(|other| other.join().unwrap());
        std::iter::once(own).chain(others).collect()
    })
}

#[test]
fn words_messages_and_clocks_of_all_processes() {
    for cuts in [&[0, 1][..], &[0, 2, 3], &[0, 1, 4, 5, 6]] {
        let ranks: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        let num_processes = ranks.len();
        in_processes(&ranks, |channel, process| {
            assert_eq!(channel.processes(), ranks);
            for round in 0..3_u64 {
                let mut words = [1, u64::MAX, round * process as u64];
                channel.add_words(&mut words).unwrap();
                let num = num_processes as u64;
                assert_eq!(words, [num, num.wrapping_neg(), round * num * (num - 1) / 2]);
                let message = vec![process as u8; 1 + process * 100_000];
                let gathered = channel.gather(message).unwrap();
                let lens: Vec<_> = gathered.iter().map(Vec::len).collect();
                let expected: Vec<_> = (0..num_processes).map(|process| 1 + process * 100_000).collect();
                assert_eq!(lens, if process == 0 { expected } else { Vec::new() });
                assert_eq!(channel.broadcast(vec![process as u8 + 7]).unwrap(), [7]);
            }
            // The first process's clock always shows the same time.
            let offset = channel.clock_offset(|| 5_000_000_123).unwrap();
            assert_eq!(offset.ahead_ns, if process == 0 { 0 } else { 123 });
        });
    }
}

#[test]
fn a_stop_reaches_all_with_where_ranks_are_and_how_they_failed() {
    let ranks = [0..1, 1..3, 3..4];
    let reports = in_processes(&ranks, |channel, process| {
        channel.add_words(&mut [0]).unwrap();
        let waited = match process {
            1 => {
                channel.positions().set(2, &Host, Position::AddingLosses);
                channel.stop();
                Ok(())
            }
            // The second process never gives its words.
            _ => channel.add_words(&mut [1]),
        };
        assert!(channel.is_stopped());
        assert_eq!(channel.was_stopped_by_another(), process != 1);
        assert!(process == 1 || waited.unwrap_err().is_stop());
        assert!(channel.add_words(&mut [1]).unwrap_err().is_stop());
        assert_eq!(channel.positions().get(2), Position::AddingLosses, "process {process}");
        channel.exchange_failures(vec![process as u8], Duration::from_secs(20))
    });
    let expected: Vec<_> = (0..).zip(ranks).map(|(process, ranks)| (ranks, Some(vec![process]))).collect();
    assert_eq!(reports, [expected.clone(), expected.clone(), expected]);
}

#[test]
fn what_needs_a_process_that_has_ended_fails_and_nothing_else_does() {
    let results = in_processes(&[0..1, 1..2, 2..4], |channel, process| {
        channel.add_words(&mut [1]).unwrap();
        if process == 2 {
            return Ok(());
        }
        let first = channel.add_words(&mut [1]);
        assert!(channel.has_ended(3) && !channel.has_ended(process));
        assert!(!channel.was_stopped_by_another());
        first
    });
    for result in &results[..2] {
        assert!(
            matches!(result, Err(CommError::Interrupted { missing, .. }) if *missing == [2, 3]),
            "{result:?}"
        );
    }
}

#[test]
fn processes_in_different_exchanges_are_told() {
    let results = in_processes(&[0..1, 1..2], |channel, process| match process {
        0 => channel.add_words(&mut [1]).unwrap_err(),
        _ => channel.add_words(&mut [1, 2]).and(channel.broadcast(Vec::new())).unwrap_err(),
    });
    for error in results {
        assert!(matches!(error, CommError::Mismatch { .. }), "{error}");
    }
}

/// They connect before the ranks do, and stay: one says nothing, others what pipezero never says.
#[test]
fn unknown_programs_keep_nobody_waiting() {
    let (listener, address) = listener();
    let unknown_programs: Vec<TcpStream> = [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 1 << 16], &[0; 9]]
        .into_iter()
        .map(|said| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(said).unwrap();
            stream
        })
        .collect();
    thread::scope(|scope| {
        let other = scope.spawn(|| ControlChannel::join(address, member(2, 1..2)).unwrap());
        let first = ControlChannel::host(listener, || 0, member(2, 0..1)).unwrap();
        assert_eq!([first.processes(), other.join().unwrap().processes()], [[0..1, 1..2], [0..1, 1..2]]);
        // All ranks are there: nobody listens any more.
        let start = Instant::now();
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            assert!(start.elapsed() < Duration::from_secs(20), "a listener is left");
            thread::yield_now();
        }
        for mut unknown in unknown_programs.into_iter().skip(1) {
            let mut heard = Vec::new();
            let _ = unknown.read_to_end(&mut heard);
            assert!(heard.is_empty(), "an unknown program is told {heard:?}");
        }
    });
}

#[test]
fn processes_that_do_not_fit_together_are_named() {
    let other_program = Member { program: "pipezero 1.1".to_owned(), ..member(2, 1..2) };
    for (other, expected) in [
        (
            other_program,
            "the process of rank 1 runs pipezero 1.1, that of rank 0 runs pipezero 1.2: start the same program on every host",
        ),
        (
            member(3, 1..2),
            "the process of rank 1 is one of 3 ranks, that of rank 0 one of 2: give every process the same number",
        ),
        (member(2, 1..3), "a process has ranks 1..3 of 2: they count from 0"),
        (
            member(2, 0..1),
            "two processes are rank 0: give each process a rank of its own, and each job a port of its own",
        ),
    ] {
        let (listener, address) = listener();
        let [own, other] = thread::scope(|scope| {
            let own = scope.spawn(|| ControlChannel::host(listener, || 0, member(2, 0..1)));
            let other = scope.spawn(|| ControlChannel::join(address, other));
            [own, other].map(|process| process.join().unwrap().map(drop))
        });
        let told = [own, other].map(|result| result.unwrap_err().to_string());
        assert!(told.iter().any(|told| told == expected), "{told:?}");
    }
}

#[test]
fn who_is_missing_is_named_in_time() {
    let soon = |of: Member| Member { start_timeout: Duration::from_millis(300), ..of };
    let (first, _) = listener();
    let error = ControlChannel::host(first, || 0, soon(member(4, 0..2))).unwrap_err().to_string();
    assert!(error.contains("for all ranks to connect, missing 2, 3: "), "{error}");

    let (taken, address) = listener();
    let error = ControlChannel::listen(address).unwrap_err().to_string();
    assert!(error.starts_with(&format!("rank 0 cannot listen on {address}: ")), "{error}");
    drop(taken);
    let error = ControlChannel::join(address, soon(member(4, 2..4))).unwrap_err().to_string();
    assert!(error.starts_with(&format!("the process of rank 0 does not answer on {address} (")), "{error}");
}
