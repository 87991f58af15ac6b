//! The engines of a task in this process, which may be one of several of a job: what connects their ranks, whether there is room for all of them, and
//! their turns, which those take that meet on a rank.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::connect::{ToConnect, connect};
use super::options::RunOptions;
use super::planned::{Engines, Planned, PlannedTeacher};
use super::ready::{Ready, is_finished};
use super::words::{device_of, say_what_changed, say_what_runs};
use crate::cli::agreement::{agreed, is_said_elsewhere, left_to_others, said_once};
use crate::cli::failure::Failure;
use crate::cli::output::note;
use crate::cli::progress::Progress;
use crate::cli::signals::end_after_the_step;
use crate::cli::task_plans::{heading, text_of_teacher};
use crate::cli::terminal;
use crate::config::{JobRanks, RunFile};
use crate::host::Launched;
use crate::plan::{Plan, Purpose};
use crate::run::engine::{Together, check_together};
use crate::run::world::World;
use crate::train::{
    EndedRun, InTurnError, RunInTurn, Teacher, Training, TrainingError, check_disk_space_together,
    train_at_once,
};

/// This process's part in the job, if it is one of several.
pub(super) struct Job<'a> {
    pub(super) launched: Option<&'a Launched>,
    /// Whether it is the one of rank 0, which writes.
    pub(super) is_first: bool,
}

/// An engine that is to be trained, with what connects its ranks.
pub(super) struct Waiting {
    engine: Planned,
    ready: Ready,
    world: Arc<dyn World>,
}

/// Engines whose ranks are connected and have not started.
pub(super) struct AllWaiting {
    /// Those that have steps left.
    pub(super) trained: Vec<Waiting>,
    teacher: Option<(PlannedTeacher, Arc<dyn World>)>,
    ranks: JobRanks,
}

/// An engine whose ranks have started.
pub(super) struct Started {
    pub(super) name: String,
    file: RunFile,
    options: RunOptions,
    /// Its ranks of the job.
    ranks: Range<usize>,
    pub(super) training: Training,
    ready: Ready,
}

impl Job<'_> {
    /// Connects the ranks of each engine.
    pub(super) fn waiting(
        &self,
        Engines { trained, teacher, ranks }: Engines,
    ) -> Result<AllWaiting, Failure> {
        let to_connect = trained.iter().map(|engine| ToConnect {
            name: &engine.name,
            plan: &engine.plan,
            own: engine.options.ready(&engine.plan, self.is_first),
        });
        let teachers =
            teacher.iter().map(|it| ToConnect { name: &it.name, plan: &it.plan, own: Ok(Ready::default()) });
        let mut connected = connect(to_connect.chain(teachers).collect(), self.launched)?;
        let of_teacher = connected.split_off(trained.len()).pop();
        let mut waiting = Vec::new();
        for (engine, (world, ready)) in trained.into_iter().zip(connected) {
            if !is_finished(&*world, &ready)? {
                waiting.push(Waiting { engine, ready, world });
            }
        }
        let teacher = teacher.zip(of_teacher.map(|(world, _)| world));
        Ok(AllWaiting { trained: waiting, teacher, ranks })
    }

    /// Whether there is room for all engines at once; a warning where checkpoints may find none.
    fn check_room(
        &self,
        AllWaiting { trained, teacher, .. }: &AllWaiting,
        out: &Path,
    ) -> Result<Option<String>, Failure> {
        let trained_now = trained.iter().map(|Waiting { engine, world, .. }| Together {
            name: &engine.name,
            plan: &engine.plan,
            purpose: Purpose::Training,
            world: &**world,
        });
        let teachers = teacher.iter().map(|(teacher, world)| Together {
            name: &teacher.name,
            plan: &teacher.plan,
            purpose: Purpose::Inference,
            world: &**world,
        });
        let plans: Vec<&Plan> = trained.iter().map(|waiting| &waiting.engine.plan).collect();
        let together: Vec<Together<'_>> = trained_now.chain(teachers).collect();
        let found = check_together(&together).map_err(Failure::from);
        let found = found.and_then(|()| Ok(check_disk_space_together(&plans, out)?));
        agreed(&*trained[0].world, self.launched, found)
    }

    /// The failure of an engine, which one process says.
    fn failed(&self, name: &str, error: impl Into<TrainingError>) -> Failure {
        said_once(error.into(), self.launched).of_engine(name)
    }

    /// Starts the ranks of all engines, once it is known that there is room for all of them.
    pub(super) fn start(&self, waiting: AllWaiting, out: &Path) -> Result<Vec<Started>, Failure> {
        let disk_warning = self.check_room(&waiting, out)?;
        let AllWaiting { trained, teacher, ranks: of_job } = waiting;
        let mut taught =
            teacher.map(|(teacher, world)| self.start_teacher(teacher, world, &of_job)).transpose()?;
        let mut started = Vec::new();
        for Waiting { engine, ready, world } in trained {
            let Planned { name, file, plan, notices, options, ranks } = engine;
            let gap = if started.is_empty() && taught.is_none() { "" } else { "\n" };
            note(format_args!("{gap}{}", heading(&of_job, &name)));
            say_what_runs(&plan);
            drop(notices);
            // A task with a teacher trains one engine.
            let training = options.start(plan, world, ready.traced.clone(), taught.take());
            let training = training.map_err(|error| self.failed(&name, error))?;
            note(terminal::fitted(&format!("computing on: {}", device_of(&training, &file))));
            started.push(Started { name, file, options, ranks, training, ready });
        }
        if let Some(warning) = disk_warning {
            note(terminal::fitted(&warning));
        }
        Ok(started)
    }

    /// Starts the ranks of a teacher.
    fn start_teacher(
        &self,
        teacher: PlannedTeacher,
        world: Arc<dyn World>,
        ranks: &JobRanks,
    ) -> Result<Teacher, Failure> {
        let PlannedTeacher { name, student, plan, notices, weights } = teacher;
        note(heading(ranks, &name));
        note(text_of_teacher(&plan, &student, terminal::width()).trim_end());
        drop(notices);
        let teacher = Teacher::start(name, plan, world, &weights);
        let teacher = teacher.map_err(|error| said_once(error, self.launched))?;
        note(terminal::fitted(&format!("computing on: {}", teacher.device_name())));
        Ok(teacher)
    }

    /// Makes the run directories, and trains until each engine has done its steps or a signal comes.
    pub(super) fn trained(&self, started: Vec<Started>) -> Result<Vec<EndedRun>, Failure> {
        let signals = started.iter().map(|engine| engine.training.plan().run().checkpoint.signal);
        let signals: Vec<_> = signals.collect();
        let mut trainings = Vec::new();
        let mut directories = Vec::new();
        note("");
        // A directory is made or replaced only after everything else worked, for all engines.
        for Started { name, file, options, ranks, mut training, ready } in started {
            let recorded = options.recorded(ready.earlier, &file, training.plan(), self.is_first);
            let recorded = training.together(recorded.map_err(TrainingError::from));
            let (directory, changed) = recorded.map_err(|error| self.failed(&name, error))?;
            if training.resumed().is_some() {
                say_what_changed(&format!("{name}: "), &changed);
            }
            directories.push(directory);
            trainings.push((name, ranks, training));
        }
        let signalled = end_after_the_step(signals);
        let mut observers: Vec<Progress> = trainings
            .iter()
            .map(|(name, _, training)| {
                let run = training.plan().run();
                Progress::of_engine(name, run.steps, run.model.learns())
            })
            .collect();
        let runs = trainings.into_iter().zip(&directories).zip(&mut observers);
        let runs = runs.map(|(((name, ranks, training), directory), observer)| RunInTurn {
            name,
            ranks,
            training,
            directory,
            observer,
        });
        let ended = train_at_once(runs.collect(), &signalled.interrupted);
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
