//! The engines of a task of a master file, trained in turn or at the same time, and the one that a student learns from.
//!
//! Each is what it is alone: its plan, its options, its run directory. What is added is that all of them are planned, and held against
//! what this host has, before the first of them allocates anything; that their steps alternate where they share ranks; and that each line and table says whose
//! it is.

use std::path::Path;

use pipezero_config::MasterFile;
use pipezero_files::host::LaunchedProcess;
use pipezero_train::{EndedRun, RankLog, RunDir};

use super::args::TrainArgs;
use super::place::{Job, Process};
use super::planned::planned;
use super::several_report::{reports, table};
use super::words::{place_of, skipped_too_many, this_start};
use crate::failure::Failure;
use crate::figures::counted;
use crate::log;
use crate::nccl_variable::set_variable;
use crate::output::{ProcessOutput, keep, keep_in};
use crate::terminal;

pub(super) fn run(
    args: &TrainArgs,
    master: MasterFile,
    launched: Option<&LaunchedProcess>,
) -> Result<(), Failure> {
    if launched.is_some() {
        log::hold();
        keep(&this_start());
    }
    let task = master.task(args.task.as_deref()).map_err(|error| Failure::Input(error.into()))?.clone();
    let options = args.of_engines(&task)?;
    let master = master.set(&args.run.set, &task.engines())?;
    let out = args.out();
    check_folder(&out)?;
    let engines = planned(&master, &task, options)?;
    for plan in engines.plans() {
        set_variable(plan.run().comm.backend, &args.run.run)?;
    }
    let (job, waiting) = Job::connected(Process { launched }, engines)?;
    if waiting.trained.is_empty() && job.apart.is_none() {
        return Ok(());
    }
    let started = job.start(waiting, &out)?;
    if let Some(launched) = launched {
        keep_in(RankLog::open(&out, launched.rank, args.resume));
        for engine in &started.engines {
            let rank = job.process.rank_in(&engine.ranks).unwrap_or_default();
            keep(&format!("engine {}: {}", engine.name, place_of(engine.training.plan(), rank)));
        }
    }
    let ended = job.trained(started)?;
    // The first process of each engine prints its tables.
    let is_spoken_for = |ended: &&EndedRun| job.process.speaks_for(&job.ranks.of(&ended.name));
    let is_any = ended.iter().any(|ended| is_spoken_for(&ended));
    let ended: Vec<EndedRun> = match is_any {
        true => ended.into_iter().filter(|ended| is_spoken_for(&ended)).collect(),
        false => ended,
    };
    if ended.is_empty() {
        return Ok(());
    }
    let output = ProcessOutput::new(is_any);
    output.print(reports(&ended, terminal::width()))?;
    output.print(table(&ended, terminal::width()))?;
    say_what_is_left(output, &ended, &out, args.trace);
    Ok(())
}

/// Refuses to write run directories into one.
fn check_folder(out: &Path) -> Result<(), Failure> {
    if !out.join(RunDir::METRICS).exists() {
        return Ok(());
    }
    let error = format!(
        "{} is the run directory of a run: --out of a master file names the folder in which each engine has its run directory",
        out.display()
    );
    Err(Failure::Other(error.into()))
}

/// Warnings, what goes on with --resume, and where the run directories are.
fn say_what_is_left(output: ProcessOutput, ended: &[EndedRun], out: &Path, is_traced: bool) {
    for EndedRun { name, summary, .. } in ended {
        if let Some(warning) = skipped_too_many(summary) {
            output.note(terminal::fitted(&format!("\nwarning: engine {name}: {warning}")));
        }
    }
    let interrupted: Vec<String> = ended
        .iter()
        .filter(|ended| ended.summary.interrupted)
        .map(|ended| format!("{} after step {}", ended.name, ended.summary.steps))
        .collect();
    if !interrupted.is_empty() {
        let text = format!("ended {}; the same command with --resume goes on", interrupted.join(", "));
        output.note(terminal::fitted(&text));
    }
    let folders = counted(ended.len(), "engine");
    output.note(format_args!("\nrun directories of {folders}: {}", out.display()));
    for EndedRun { name, .. } in ended {
        output.note(format_args!("  {}", out.join(name).display()));
    }
    if let Some(EndedRun { name, .. }) = ended.first().filter(|_| is_traced) {
        output.note(format_args!("traced; try: pipezero compare {}", out.join(name).display()));
    }
}
