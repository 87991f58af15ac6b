//! The engines of a task of a master file, trained in this process in turn.
//!
//! Each is what it is alone: its plan, its options, its run directory. What is added is that all of them are planned, and held against
//! what this host has, before the first of them allocates anything; that their steps alternate; and that each line and table says whose
//! it is.

use std::path::Path;
use std::sync::Arc;

use super::args::TrainArgs;
use super::connect::{ToConnect, connect};
use super::options::RunOptions;
use super::ready::{Ready, is_finished};
use super::several_report::{reports, table};
use super::words::{device_of, place_of, say_what_changed, say_what_runs, skipped_too_many, this_start};
use crate::cli::agreement::{agreed, is_said_elsewhere, left_to_others, said_once};
use crate::cli::failure::Failure;
use crate::cli::figures::counted;
use crate::cli::log;
use crate::cli::master::resolve_all;
use crate::cli::nccl_variable::set_variable;
use crate::cli::notices::Notices;
use crate::cli::output::{keep, keep_in, note, print};
use crate::cli::progress::Progress;
use crate::cli::signals::end_after_the_step;
use crate::cli::terminal;
use crate::config::{MasterFile, RunFile};
use crate::host::Launched;
use crate::plan::{Plan, Purpose};
use crate::run::engine::{Together, check_together};
use crate::run::world::World;
use crate::train::{
    EndedRun, InTurnError, RankLog, RunDir, RunInTurn, Training, TrainingError, check_disk_space_together,
    train_in_turn,
};

/// An engine before its ranks start.
struct Planned {
    name: String,
    file: RunFile,
    plan: Plan,
    notices: Notices,
    options: RunOptions,
}

/// An engine whose ranks have started.
struct Started {
    name: String,
    file: RunFile,
    options: RunOptions,
    training: Training,
    ready: Ready,
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
    let master = master.set(&args.run.set, task.engines())?;
    let out = args.out();
    check_folder(&out)?;
    let engines = planned(&master, task.engines(), options)?;
    for engine in &engines {
        set_variable(engine.plan.run().comm.backend, &args.run.run)?;
    }
    let job = Job { launched, is_first };
    let waiting = job.waiting(engines)?;
    if waiting.is_empty() {
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
fn planned(master: &MasterFile, names: &[String], options: Vec<RunOptions>) -> Result<Vec<Planned>, Failure> {
    let mut options = options.into_iter();
    resolve_all(master, names, |engine| {
        let options = options.next().expect("each engine has its options");
        let (plan, notices) = options.planned(&engine.file)?;
        let notices = Notices::new(engine.shown(), engine.notices_in_place(notices));
        Ok(Planned { name: engine.name.clone(), file: engine.file.clone(), plan, notices, options })
    })
}

/// This process's part in the job, if it is one of several.
struct Job<'a> {
    launched: Option<&'a Launched>,
    /// Whether it is the one of rank 0, which writes.
    is_first: bool,
}

/// An engine that is to be trained, with what connects its ranks.
struct Waiting {
    engine: Planned,
    ready: Ready,
    world: Arc<dyn World>,
}

impl Job<'_> {
    /// Connects the ranks of each engine; those that have steps left.
    fn waiting(&self, engines: Vec<Planned>) -> Result<Vec<Waiting>, Failure> {
        let to_connect = engines.iter().map(|engine| ToConnect {
            name: &engine.name,
            plan: &engine.plan,
            own: engine.options.ready(&engine.plan, self.is_first),
        });
        let connected = connect(to_connect.collect(), self.launched)?;
        let mut waiting = Vec::new();
        for (engine, (world, ready)) in engines.into_iter().zip(connected) {
            if !is_finished(&*world, &ready)? {
                waiting.push(Waiting { engine, ready, world });
            }
        }
        Ok(waiting)
    }

    /// Whether there is room for all engines at once; a warning where checkpoints may find none.
    fn check_room(&self, waiting: &[Waiting], out: &Path) -> Result<Option<String>, Failure> {
        let together = waiting.iter().map(|Waiting { engine, world, .. }| Together {
            name: &engine.name,
            plan: &engine.plan,
            purpose: Purpose::Training,
            world: &**world,
        });
        let plans: Vec<&Plan> = waiting.iter().map(|waiting| &waiting.engine.plan).collect();
        let found = check_together(&together.collect::<Vec<_>>()).map_err(Failure::from);
        let found = found.and_then(|()| Ok(check_disk_space_together(&plans, out)?));
        agreed(&*waiting[0].world, self.launched, found)
    }

    /// The failure of an engine, which one process says.
    fn failed(&self, name: &str, error: impl Into<TrainingError>) -> Failure {
        said_once(error.into(), self.launched).of_engine(name)
    }

    /// Starts the ranks of all engines, once it is known that there is room for all of them.
    fn start(&self, waiting: Vec<Waiting>, out: &Path) -> Result<Vec<Started>, Failure> {
        let disk_warning = self.check_room(&waiting, out)?;
        let mut started = Vec::new();
        for Waiting { engine, ready, world } in waiting {
            let Planned { name, file, plan, notices, options } = engine;
            let gap = if started.is_empty() { "" } else { "\n" };
            note(format_args!("{gap}engine {name}"));
            say_what_runs(&plan);
            drop(notices);
            let training = options.start(plan, world, ready.traced.clone());
            let training = training.map_err(|error| self.failed(&name, error))?;
            note(terminal::fitted(&format!("computing on: {}", device_of(&training, &file))));
            started.push(Started { name, file, options, training, ready });
        }
        if let Some(warning) = disk_warning {
            note(terminal::fitted(&warning));
        }
        Ok(started)
    }

    /// Makes the run directories, and trains until each engine has done its steps or a signal comes.
    fn trained(&self, started: Vec<Started>) -> Result<Vec<EndedRun>, Failure> {
        let signals = started.iter().map(|engine| engine.training.plan().run().checkpoint.signal);
        let signals: Vec<_> = signals.collect();
        let mut trainings = Vec::new();
        let mut directories = Vec::new();
        note("");
        // A directory is made or replaced only after everything else worked, for all engines.
        for Started { name, file, options, mut training, ready } in started {
            let recorded = options.recorded(ready.earlier, &file, training.plan(), self.is_first);
            let recorded = training.together(recorded.map_err(TrainingError::from));
            let (directory, changed) = recorded.map_err(|error| self.failed(&name, error))?;
            if training.resumed().is_some() {
                say_what_changed(&format!("{name}: "), &changed);
            }
            directories.push(directory);
            trainings.push((name, training));
        }
        let signalled = end_after_the_step(signals);
        let mut observers: Vec<Progress> = trainings
            .iter()
            .map(|(name, training)| {
                let run = training.plan().run();
                Progress::of_engine(name, run.steps, run.model.learns())
            })
            .collect();
        let runs = trainings.into_iter().zip(&directories).zip(&mut observers);
        let runs = runs.map(|(((name, training), directory), observer)| RunInTurn {
            name,
            training,
            directory,
            observer,
        });
        let ended = train_in_turn(runs.collect(), &signalled.interrupted);
        signalled.end();
        ended.map_err(|error| self.ended_by(error))
    }

    /// What ends all engines, which one process says.
    fn ended_by(&self, error: InTurnError) -> Failure {
        match is_said_elsewhere(&error.error, self.launched) {
            true => left_to_others(&error),
            false => error.into(),
        }
    }
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
