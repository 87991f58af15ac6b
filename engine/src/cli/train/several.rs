//! The engines of a task of a master file, trained in this process in turn, and the one that a student learns from.
//!
//! Each is what it is alone: its plan, its options, its run directory. What is added is that all of them are planned, and held against
//! what this host has, before the first of them allocates anything; that their steps alternate; and that each line and table says whose
//! it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::TrainArgs;
use super::options::RunOptions;
use super::ready::Ready;
use super::several_report::{reports, table};
use super::words::{device_of, say_what_changed, say_what_runs, skipped_too_many};
use crate::cli::failure::Failure;
use crate::cli::figures::counted;
use crate::cli::master::check_lone_process;
use crate::cli::notices::Notices;
use crate::cli::output::{note, print};
use crate::cli::progress::Progress;
use crate::cli::signals::end_after_the_step;
use crate::cli::task_plans::{EnginePlan, task_plans, text_of_teacher};
use crate::cli::terminal;
use crate::config::{Launch, MasterFile, MasterProblem, Part, RunFile, Task};
use crate::host::Launched;
use crate::plan::{Plan, Purpose};
use crate::run::engine::{Together, check_together};
use crate::run::world::{World, world_of};
use crate::train::{
    EndedRun, RunDir, RunInTurn, Teacher, Training, TrainingError, check_disk_space_together, train_in_turn,
};

/// An engine that is trained, before its ranks start.
struct Planned {
    name: String,
    file: RunFile,
    plan: Plan,
    notices: Notices,
    options: RunOptions,
}

/// The engine of a task that computes logits for a student, before its ranks start.
struct PlannedTeacher {
    name: String,
    student: String,
    plan: Plan,
    notices: Notices,
    weights: PathBuf,
}

/// The engines of a task.
struct Engines {
    trained: Vec<Planned>,
    teacher: Option<PlannedTeacher>,
}

/// An engine whose ranks have started.
struct Started {
    name: String,
    file: RunFile,
    options: RunOptions,
    training: Training,
    ready: Ready,
}

pub(super) fn run(args: &TrainArgs, master: MasterFile, launched: Option<&Launched>) -> Result<(), Failure> {
    check_lone_process(&master, launched)?;
    let task = master.task(args.task.as_deref()).map_err(|error| Failure::Input(error.into()))?.clone();
    let options = args.of_engines(&task)?;
    let master = master.set(&args.run.set, &task.engines())?;
    let out = args.out();
    check_folder(&out)?;
    let Engines { trained: engines, teacher } = planned(&master, &task, options)?;
    let mut waiting = Vec::new();
    for engine in engines {
        let ready =
            engine.options.ready(&engine.plan, true).map_err(|failure| failure.of_engine(&engine.name))?;
        if !ready.is_finished {
            waiting.push((engine, ready));
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    let started = start(waiting, teacher, &out)?;
    let ended = trained(started)?;
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

/// The world of each engine, those that are trained first.
type Worlds = Vec<Arc<dyn World>>;

/// Checks that there is room for all engines at once; their worlds, and a warning where checkpoints may not have it.
fn worlds(
    waiting: &[(Planned, Ready)],
    teacher: Option<&PlannedTeacher>,
    out: &Path,
) -> Result<(Worlds, Option<String>), Failure> {
    let trained = waiting.iter().map(|(engine, _)| (&engine.name, &engine.plan, Purpose::Training));
    let teachers = teacher.into_iter().map(|teacher| (&teacher.name, &teacher.plan, Purpose::Inference));
    let engines: Vec<_> = trained.chain(teachers).collect();
    let mut worlds = Worlds::new();
    for (name, plan, _) in &engines {
        worlds.push(world_of(plan).map_err(|error| Failure::from(error).of_engine(name))?);
    }
    let together: Vec<Together<'_>> = engines
        .iter()
        .zip(&worlds)
        .map(|(&(name, plan, purpose), world)| Together { name, plan, purpose, world: &**world })
        .collect();
    check_together(&together)?;
    let plans: Vec<&Plan> = waiting.iter().map(|(engine, _)| &engine.plan).collect();
    let disk_warning = check_disk_space_together(&plans, out)?;
    Ok((worlds, disk_warning))
}

/// Starts the ranks of all engines, once it is known that there is room for all of them.
fn start(
    waiting: Vec<(Planned, Ready)>,
    teacher: Option<PlannedTeacher>,
    out: &Path,
) -> Result<Vec<Started>, Failure> {
    let (mut worlds, disk_warning) = worlds(&waiting, teacher.as_ref(), out)?;
    let world = worlds.split_off(waiting.len()).pop();
    let mut taught = match teacher.zip(world) {
        Some((teacher, world)) => Some(start_teacher(teacher, world)?),
        None => None,
    };
    let mut started = Vec::new();
    for ((engine, ready), world) in waiting.into_iter().zip(worlds) {
        let Planned { name, file, plan, notices, options } = engine;
        let gap = if started.is_empty() && taught.is_none() { "" } else { "\n" };
        note(format_args!("{gap}engine {name}"));
        say_what_runs(&plan);
        drop(notices);
        // A task with a teacher trains one engine.
        let training = options.start(plan, world, ready.traced.clone(), taught.take());
        let training = training.map_err(|error| Failure::from(error).of_engine(&name))?;
        note(terminal::fitted(&format!("computing on: {}", device_of(&training, &file))));
        started.push(Started { name, file, options, training, ready });
    }
    if let Some(warning) = disk_warning {
        note(terminal::fitted(&warning));
    }
    Ok(started)
}

/// Starts the ranks of a teacher.
fn start_teacher(teacher: PlannedTeacher, world: Arc<dyn World>) -> Result<Teacher, Failure> {
    let PlannedTeacher { name, student, plan, notices, weights } = teacher;
    note(format_args!("engine {name}"));
    note(text_of_teacher(&plan, &student, terminal::width()).trim_end());
    drop(notices);
    let teacher = Teacher::start(name, plan, world, &weights)?;
    note(terminal::fitted(&format!("computing on: {}", teacher.device_name())));
    Ok(teacher)
}

/// Makes the run directories, and trains until each engine has done its steps or a signal comes.
fn trained(started: Vec<Started>) -> Result<Vec<EndedRun>, Failure> {
    let signals = started.iter().map(|engine| engine.training.plan().run().checkpoint.signal);
    let signals: Vec<_> = signals.collect();
    let mut trainings = Vec::new();
    let mut directories = Vec::new();
    note("");
    // A directory is made or replaced only after everything else worked, for all engines.
    for Started { name, file, options, training, ready } in started {
        let recorded = options.recorded(ready.earlier, &file, training.plan(), true);
        let recorded = recorded.map_err(|error| Failure::from(TrainingError::from(error)).of_engine(&name));
        let (directory, changed) = recorded?;
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
    Ok(ended?)
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
