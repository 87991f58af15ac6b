//! The engines of a task of a master file, trained in turn, and the one that a student learns from.
//!
//! Each is what it is alone: its plan, its options, its run directory. What is added is that all of them are planned, and held against
//! what this host has, before the first of them allocates anything; that their steps alternate; and that each line and table says whose
//! it is.

use std::path::{Path, PathBuf};

use super::args::TrainArgs;
use super::job::Job;
use super::options::RunOptions;
use super::several_report::{reports, table};
use super::words::{place_of, skipped_too_many, this_start};
use crate::cli::failure::Failure;
use crate::cli::figures::counted;
use crate::cli::log;
use crate::cli::nccl_variable::set_variable;
use crate::cli::notices::Notices;
use crate::cli::output::{keep, keep_in, note, print};
use crate::cli::task_plans::{EnginePlan, task_plans};
use crate::cli::terminal;
use crate::config::{Launch, MasterFile, MasterProblem, Part, RunFile, Task};
use crate::host::Launched;
use crate::plan::Plan;
use crate::train::{EndedRun, RankLog, RunDir};

/// An engine that is trained, before its ranks start.
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) file: RunFile,
    pub(super) plan: Plan,
    pub(super) notices: Notices,
    pub(super) options: RunOptions,
}

/// The engine of a task that computes logits for a student, before its ranks start.
pub(super) struct PlannedTeacher {
    pub(super) name: String,
    pub(super) student: String,
    pub(super) plan: Plan,
    pub(super) notices: Notices,
    pub(super) weights: PathBuf,
}

/// The engines of a task.
pub(super) struct Engines {
    pub(super) trained: Vec<Planned>,
    pub(super) teacher: Option<PlannedTeacher>,
}

impl Engines {
    fn plans(&self) -> impl Iterator<Item = &Plan> {
        let trained = self.trained.iter().map(|engine| &engine.plan);
        trained.chain(self.teacher.iter().map(|teacher| &teacher.plan))
    }
}

pub(super) fn run(
    args: &TrainArgs,
    master: MasterFile,
    launched: Option<&Launched>,
    is_first: bool,
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
    let job = Job { launched, is_first };
    let waiting = job.waiting(engines)?;
    if waiting.trained.is_empty() {
        return Ok(());
    }
    let started = job.start(waiting, &out)?;
    if let Some(launched) = launched {
        keep_in(RankLog::open(&out, launched.rank, args.resume));
        for engine in &started {
            keep(&format!("engine {}: {}", engine.name, place_of(engine.training.plan(), launched)));
        }
    }
    let ended = job.trained(started)?;
    print(reports(&ended, terminal::width()))?;
    print(table(&ended, terminal::width()))?;
    say_what_is_left(&ended, &out, args.trace);
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

/// All engines, each planned as if it were alone.
fn planned(master: &MasterFile, task: &Task, options: Vec<RunOptions>) -> Result<Engines, Failure> {
    let mut waiting = options.iter();
    let plans = task_plans(master, task, Launch::this_host(), |engine, distillation| {
        let options = waiting.next().expect("engines that are trained come first, each with its options");
        options.planned(&engine.file, distillation)
    })?;
    let mut engines = Engines { trained: Vec::new(), teacher: None };
    for (EnginePlan { engine, plan, notices, .. }, options) in plans.into_iter().zip(options) {
        let notices = Notices::new(engine.shown(), notices);
        let name = engine.name.clone();
        match task.part_of(&engine.name) {
            Some(Part::Teaches(student)) => {
                let no_weights = || task.error_at(&name, MasterProblem::NoWeights { name: name.clone() });
                let weights = options.init.clone().ok_or_else(|| Failure::Config(no_weights()))?;
                options.check_init(&plan).map_err(|failure| failure.of_engine(&name))?;
                let student = student.to_owned();
                engines.teacher = Some(PlannedTeacher { name, student, plan, notices, weights });
            }
            _ => engines.trained.push(Planned { name, file: engine.file, plan, notices, options }),
        }
    }
    Ok(engines)
}

/// Warnings, what goes on with --resume, and where the run directories are.
fn say_what_is_left(ended: &[EndedRun], out: &Path, is_traced: bool) {
    for EndedRun { name, summary, .. } in ended {
        if let Some(warning) = skipped_too_many(summary) {
            note(terminal::fitted(&format!("\nwarning: engine {name}: {warning}")));
        }
    }
    let interrupted: Vec<String> = ended
        .iter()
        .filter(|ended| ended.summary.interrupted)
        .map(|ended| format!("{} after step {}", ended.name, ended.summary.steps))
        .collect();
    if !interrupted.is_empty() {
        let text = format!("ended {}; the same command with --resume goes on", interrupted.join(", "));
        note(terminal::fitted(&text));
    }
    let folders = counted(ended.len(), "engine");
    note(format_args!("\nrun directories of {folders}: {}", out.display()));
    for EndedRun { name, .. } in ended {
        note(format_args!("  {}", out.join(name).display()));
    }
    if let Some(EndedRun { name, .. }) = ended.first().filter(|_| is_traced) {
        note(format_args!("traced; try: pipezero compare {}", out.join(name).display()));
    }
}
