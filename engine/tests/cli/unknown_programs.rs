//! Programs that do not belong to a job: they find no port of its ranks and no trace of its secret, connections to its ports change nothing, and other users
//! may read of a run's files what the umask lets them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::command::{Home, Printed};
use crate::mpi::launch;
use crate::processes::{ranks_of, signal, until};

/// Bytes that an unknown program hears at most: a random number, and that its proof is wrong.
const HEARD_MAX: usize = 33;

/// Connects to a port again and again, with garbage, a greeting that it cannot end, or nothing, and keeps the connections.
fn attack(port: u16, has_ended: &AtomicBool) -> usize {
    let greeting = [&b"pipezero"[..], &[7; 64]].concat();
    let sayings: [&[u8]; 3] = [b"GET / HTTP/1.0\r\n\r\n", &greeting, b""];
    let mut open = Vec::new();
    while !has_ended.load(Ordering::Acquire) {
        if open.len() < 200
            && let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        {
            let _ = stream.write_all(sayings[open.len() % sayings.len()]);
            open.push(stream);
        }
        thread::yield_now();
    }
    for stream in &mut open {
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() <= HEARD_MAX, "an unknown program hears {heard:?}");
    }
    open.len()
}

#[test]
fn a_job_whose_port_is_attacked_trains_to_the_same_bits_and_logs_who_was_dropped() {
    let home = Home::new();
    home.run("train run.json --out threads --set comm.backend=threads").success();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut job = launch(&home, &format!("-- train run.json --out processes --set comm.port={port}"));
    job.env("PIPEZERO_LOG", "warn");
    let has_ended = AtomicBool::new(false);
    let printed = thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(port, &has_ended));
        let ended = job.spawn().unwrap().wait_with_output().unwrap();
        has_ended.store(true, Ordering::Release);
        assert!(attacker.join().unwrap() > 0, "the port was not found");
        Printed::new(ended, &home.path(""))
    });
    assert_eq!(printed.status, Some(0), "{}", printed.stderr);
    let weights = |name: &str| fs::read(home.path(&format!("{name}/weights.safetensors"))).unwrap();
    assert!(weights("threads") == weights("processes"));
    let num_logged = printed.stderr.matches("dropped a connection").count();
    assert!((1..=10).contains(&num_logged), "{}", printed.stderr);
    assert!(printed.stderr.contains("127.0.0.1:"), "{}", printed.stderr);
}

/// The addresses on which a process listens, as the system writes them.
fn listens_on(pid: &str) -> Vec<String> {
    let sockets: BTreeSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()?.into_os_string().into_string().ok())
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let of_file = |file: &str| -> Vec<String> {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        let listener = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_own = fields.get(3) == Some(&"0A") && sockets.contains(*fields.get(9)?);
            is_own.then(|| fields[1].to_owned())
        };
        table.lines().filter_map(listener).collect()
    };
    ["tcp", "tcp6"].iter().flat_map(|file| of_file(file)).collect()
}

fn variable(pid: &str, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    variables.find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

/// Panics if a file of a folder has this text.
fn is_in_no_file(folder: &Path, text: &str) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            is_in_no_file(&entry.path(), text);
        } else if let Ok(bytes) = fs::read(entry.path()) {
            let is_there = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!is_there, "{}", entry.path().display());
        }
    }
}

#[test]
fn ranks_of_launch_listen_on_no_network_and_show_nobody_their_secret() {
    let home = Home::new();
    let line = "-- train run.json --out out --set steps=100000 --set evaluation=null";
    let mut job = launch(&home, line).spawn().unwrap();
    let log = home.path("out/logs/rank-00000.log");
    until("the job trains", || fs::read_to_string(&log).ok()?.contains("  loss ").then_some(()));
    let ranks = ranks_of(&job, "OMPI_COMM_WORLD_RANK");
    assert_eq!(ranks.len(), 4);
    let ports: Vec<_> = ranks.iter().map(|(rank, pid)| (*rank, listens_on(pid))).collect();
    let secrets: Vec<_> =
        ranks.iter().map(|(_, pid)| variable(pid, "PIPEZERO_JOB_SECRET").unwrap()).collect();
    let starter = fs::read_to_string(format!("/proc/{}/stat", ranks[0].1)).unwrap();
    let starter = starter.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert!(!listens_on(&starter).is_empty(), "mpirun listens, which this test would see");
    let command_lines: Vec<Vec<u8>> = ranks
        .iter()
        .map(|(_, pid)| pid.clone())
        .chain([starter, job.id().to_string()])
        .map(|pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap())
        .collect();
    signal("TERM", &job.id().to_string());
    until("the job ends", || job.try_wait().unwrap());
    assert_eq!(ports, (0..4).map(|rank| (rank, Vec::new())).collect::<Vec<_>>());
    let [secret, others @ ..] = &secrets[..] else { panic!("there are ranks") };
    assert!(secret.len() == 64 && others.iter().all(|other| other == secret), "all have one");
    for line in command_lines {
        assert!(!line.windows(secret.len()).any(|part| part == secret.as_bytes()), "{line:?}");
    }
    is_in_no_file(&home.path(""), secret);
}

/// The modes of all files and folders below one, without what the kind of file adds.
fn modes(folder: &Path, all: &mut BTreeSet<u32>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        all.insert(entry.metadata().unwrap().permissions().mode() & 0o777);
        if entry.file_type().unwrap().is_dir() {
            modes(&entry.path(), all);
        }
    }
}

#[test]
fn what_a_run_writes_follows_the_umask() {
    let home = Home::new();
    for (umask, expected) in [("077", [0o600, 0o700]), ("027", [0o640, 0o750])] {
        let plain = launch(&home, &format!("-- train run.json --out {umask} --set checkpoint.every=1"));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(plain.get_program());
        command
            .args(plain.get_args())
            .envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ended = command.current_dir(home.path("")).output().unwrap();
        Printed::new(ended, &home.path("")).success();
        let mut found = BTreeSet::new();
        modes(&home.path(umask), &mut found);
        assert!(home.path(&format!("{umask}/logs/rank-00003.log")).exists());
        assert_eq!(found, BTreeSet::from(expected), "{umask}");
    }
}
