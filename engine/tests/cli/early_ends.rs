//! Jobs that a signal ends while they start, whether it is sent to `launch`, to `mpirun` or to a rank.

use std::fs;
use std::time::{Duration, Instant};

use crate::command::Home;
use crate::mpi::launch;
use crate::processes::{signal, until};

/// The signal comes at most so long after its process has begun.
const LATEST: Duration = Duration::from_millis(200);
/// How long all processes of the job may then take to end.
const LONGEST: Duration = Duration::from_secs(10);

/// A process as the system lists it.
struct Listed {
    pid: String,
    name: String,
    /// Its environment.
    variables: Vec<u8>,
}

impl Listed {
    fn has(&self, text: &str) -> bool {
        self.variables.windows(text.len()).any(|part| part == text.as_bytes())
    }
}

/// The processes of a job: those that keep temporary files in this folder, and have not ended.
fn processes_of(temporary: &str) -> Vec<Listed> {
    let listed = |pid: String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let is_alive = !rest.trim_start().starts_with('Z');
        is_alive.then(|| Listed { pid, name: name.to_owned(), variables })
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let pids = pids.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.filter_map(listed).filter(|process| process.has(temporary)).collect()
}

/// Which process is sent the signal.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Launch,
    Mpirun,
    Rank,
}

/// Starts a job that would train for hours, and sends it a signal so long after its process has begun. How it ended, if all of it did in time.
fn ended_after(home: &Home, signal_name: &str, victim: Victim, moment: Duration) -> Result<(), String> {
    let mut job =
        launch(home, "-- train run.json --out out --overwrite --set steps=1000000 --set evaluation=null");
    let temporary = job.get_envs().find(|(name, _)| *name == "TMPDIR").unwrap().1.unwrap();
    let temporary = temporary.to_str().unwrap().to_owned();
    let mut job = job.spawn().unwrap();
    let pid = until("the process begins", || {
        let own = job.id().to_string();
        let is_it = |process: &Listed| match victim {
            Victim::Launch => process.pid == own,
            Victim::Mpirun => process.name == "mpirun",
            Victim::Rank => process.name == "pipezero" && process.has("OMPI_COMM_WORLD_RANK=2\0"),
        };
        processes_of(&temporary).into_iter().find(is_it).map(|process| process.pid)
    });
    let begun = Instant::now();
    until("the moment comes", || (begun.elapsed() >= moment).then_some(()));
    signal(signal_name, &pid);
    let sent = Instant::now();
    // Its output is read by nobody: none of it is long.
    while job.try_wait().unwrap().is_none() || !processes_of(&temporary).is_empty() {
        if sent.elapsed() > LONGEST {
            let left = processes_of(&temporary);
            let names: Vec<&str> = left.iter().map(|process| &*process.name).collect();
            left.iter().for_each(|process| signal("KILL", &process.pid));
            let _ = job.kill();
            let _ = job.wait();
            return Err(format!("SIG{signal_name} to {victim:?} after {moment:?}: {names:?} are left"));
        }
    }
    Ok(())
}

#[test]
fn a_job_that_is_ended_as_it_begins_is_over_within_ten_seconds() {
    let num = if crate::sample::in_full() { 200 } else { 20 };
    let home = Home::new();
    let mut random = 1_u64;
    let mut longest = Duration::ZERO;
    for index in 0..num {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = LATEST.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64);
        let name = ["TERM", "INT", "KILL"][index % 3];
        let victim = [Victim::Launch, Victim::Mpirun, Victim::Rank][index / 3 % 3];
        let start = Instant::now();
        ended_after(&home, name, victim, moment).unwrap();
        longest = longest.max(start.elapsed());
    }
    println!("{num} starts, the longest of {longest:.1?}");
}
