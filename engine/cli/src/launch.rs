//! `pipezero launch`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

use clap::Args;
use pipezero_comm::world::{WorldError, mpi_library};
use pipezero_config::{BackendName, GivenFile, MasterFile, Part, Resources, Run, RunFile, StudentRun, Task};
use pipezero_launch::{ConnectedBy, End, Event, Job, JobError, Lost};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use super::failure::Failure;
use super::master::resolve_all;
use super::output::note;
use super::run_args::RunArgs;
use super::terminal;
use super::whole::whole;
use super::{Takes, checked_arguments};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero launch -n 4 -- train run.json
  pipezero launch -n 4 --max-restarts 3 -- train run.json --resume \\
    --set checkpoint.every=100

Each rank is a process of this host. On CPUs Open MPI connects them, whose mpirun starts them: pipezero must be built with --features mpi. On GPUs NCCL does, with a GPU for each. Each process takes its share of the cores. Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 end the run after its step, with a checkpoint: the ranks get SIGTERM; a second one ends it at once. If a rank is killed, frozen or fails, the others say which and where, and end; what does not end by itself is ended, and if `launch` itself is killed, its processes end after their step. With --max-restarts the job is then started again, and --resume goes on from the newest checkpoint. The processes share a secret, so that nobody else can take part: PIPEZERO_JOB_SECRET, or one that launch draws. For several hosts use mpirun or srun: docs/launch.md has complete commands.

Exit status: 0 if all ranks succeed, also where a signal ended the run after a step, which summary.json names; 2 for a mistake in the input; 1 if a rank fails or is lost; 143 if a signal ended the run at once.";

/// Arguments of `launch`.
#[derive(Debug, Args)]
pub(super) struct LaunchArgs {
    /// How many processes: as many as the run has ranks.
    #[arg(short = 'n', long = "processes", value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    num_processes: usize,
    /// How often all processes are started again after ranks were lost; the command must say --resume, or be `resume`.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = whole::<u32>, allow_negative_numbers = true)]
    max_restarts: u32,
    /// The command and its arguments, behind `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(args: LaunchArgs) -> Result<ExitCode, Failure> {
    let LaunchArgs { num_processes, max_restarts, command } = args;
    let (run, takes) = checked_arguments(&command)?;
    let connected_by = connection(&run, &takes, num_processes)?;
    let program = env::current_exe()?;
    let job = Job { num_processes, connected_by, max_restarts, program, arguments: command };
    let num_signals = count_signals()?;
    let end =
        job.run(&|| num_signals.load(Ordering::Relaxed), &mut |event| note(terminal::fitted(&said(&event))));
    match end.map_err(of_input)? {
        End::Done => Ok(ExitCode::SUCCESS),
        End::InputMistake => Ok(ExitCode::from(2)),
        End::Lost(lost) => {
            note(terminal::fitted(&format!("launch: {}", told(&lost))));
            Ok(ExitCode::FAILURE)
        }
        End::Interrupted => Ok(ExitCode::from(128 + SIGTERM as u8)),
    }
}

/// What connects so many processes of a run, or of the engines of a task. A mistake in the file of what is trained is said here, in the words of the command itself, before any process is started.
fn connection(run: &RunArgs, takes: &Takes, num_processes: usize) -> Result<ConnectedBy, Failure> {
    let ranks = Some(num_processes).filter(|&num_processes| num_processes > 1);
    let resources = Resources { ranks, ..Resources::this_host() };
    let of_run =
        |file: RunFile| Ok::<_, Failure>(vec![file.set(&run.set)?.resolve(resources)?.0.comm.backend]);
    let backends = match takes {
        Takes::Run => of_run(RunFile::load(&run.run)?)?,
        Takes::RunOrTask(task) => match GivenFile::load(&run.run)? {
            GivenFile::Run(file) => of_run(file)?,
            GivenFile::Master(master) => {
                let task =
                    master.task(task.as_deref()).map_err(|error| Failure::Input(error.into()))?.clone();
                let master = master.set(&run.set, &task.engines())?;
                let runs = runs_of(&master, &task, resources)?;
                let grids = runs.iter().map(|(name, run)| (name.as_str(), &run.parallel));
                task.job_ranks(&grids.collect::<Vec<_>>(), ranks)?;
                let is_trained = |(name, _): &&(String, Run)| task.trained().contains(name);
                runs.iter().filter(is_trained).map(|(_, run)| run.comm.backend).collect()
            }
        },
    };
    if backends.contains(&BackendName::Nccl) {
        return Ok(ConnectedBy::Nccl);
    }
    // Each process would say so.
    if backends.contains(&BackendName::Mpi) && mpi_library().is_none() {
        return Err(Failure::Input(WorldError::NoMpi.into()));
    }
    Ok(ConnectedBy::Mpi)
}

/// The runs of a task's engines, in its order.
fn runs_of(master: &MasterFile, task: &Task, resources: Resources) -> Result<Vec<(String, Run)>, Failure> {
    master.check_shared_ranks(task, resources.ranks)?;
    let mut students: BTreeMap<String, Run> = BTreeMap::new();
    resolve_all(master, &task.engines(), |engine| {
        let name = engine.name.clone();
        let resources = Resources { part: task.part_of_job(&name), ..resources };
        if let Some(Part::Teaches(student)) = task.part_of(&name) {
            // Without its student there is nothing to say of it.
            let run = students.get(student).ok_or(Failure::SaidElsewhere)?;
            let student = StudentRun { name: student, run };
            return Ok((name, engine.file.resolve_for_inference(resources, student)?.0));
        }
        let (run, _) = engine.file.resolve(resources)?;
        students.insert(name.clone(), run.clone());
        Ok((name, run))
    })
}

fn of_input(error: JobError) -> Failure {
    match error {
        JobError::NoProcess
        | JobError::NotResumed { .. }
        | JobError::Launched { .. }
        | JobError::Variables(_) => Failure::Input(error.into()),
        error => Failure::Other(error.into()),
    }
}

/// The number of signals so far that ask this process to end.
fn count_signals() -> Result<Arc<AtomicUsize>, Failure> {
    let count = Arc::new(AtomicUsize::new(0));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2])?;
    let counted = Arc::clone(&count);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    })?;
    Ok(count)
}

fn said(event: &Event) -> String {
    match event {
        Event::Ending { ranks } => {
            let names: Vec<String> = ranks
                .iter()
                .map(|(rank, is_frozen)| {
                    format!("rank {rank}{}", if *is_frozen { ", which is frozen" } else { "" })
                })
                .collect();
            format!("launch: others have failed, so these are ended: {}", names.join("; "))
        }
        Event::Restarting { restart, max_restarts, lost } => {
            format!("launch: {}; restart {restart} of {max_restarts}", told(lost))
        }
        Event::Unsaid { rank, error } => format!("rank {rank}: error: {error}"),
    }
}

/// `ranks 2 and 3 were killed, rank 0 ended with an error`.
fn told(lost: &Lost) -> String {
    let ranks = |ranks: &[usize], what: [&str; 2]| match ranks {
        [] => None,
        [rank] => Some(format!("rank {rank} {}", what[0])),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            Some(format!("ranks {} and {last} {}", first.join(", "), what[1]))
        }
    };
    let killed = ranks(&lost.killed, ["was killed", "were killed"]);
    let failed = ranks(&lost.failed, ["ended with an error", "ended with an error"]);
    let ended =
        ranks(&lost.ended, ["was ended, which waited for others", "were ended, which waited for others"]);
    killed.into_iter().chain(failed).chain(ended).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_name_ranks() {
        let lost = Lost { killed: vec![3], failed: vec![0, 1, 2], ended: Vec::new() };
        assert_eq!(
            said(&Event::Restarting { restart: 1, max_restarts: 3, lost }),
            "launch: rank 3 was killed, ranks 0, 1 and 2 ended with an error; restart 1 of 3"
        );
        let lost = Lost { killed: vec![2], failed: Vec::new(), ended: vec![0, 1] };
        assert_eq!(told(&lost), "rank 2 was killed, ranks 0 and 1 were ended, which waited for others");
        assert_eq!(
            said(&Event::Ending { ranks: vec![(1, true), (2, false)] }),
            "launch: others have failed, so these are ended: rank 1, which is frozen; rank 2"
        );
    }
}
