//! The engines of a task in this process, which may be one of several of a job: what connects their ranks, whether there is room for all of them, and
//! their turns, which those take that meet on a rank.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pipezero_comm::world::World;
use pipezero_config::RunFile;
use pipezero_plan::Plan;
use pipezero_run::engine::{EngineError, Together, check_together};
use pipezero_train::{
    EndedRun, InTurnError, RunInTurn, Training, TrainingError, check_disk_space_together, train_several,
};

use super::apart::Apart;
use super::connect::{ToConnect, connect, connect_on_ranks};
use super::options::RunOptions;
use super::place::{Job, Process};
use super::planned::{Engines, Planned};
use super::ready::{Ready, is_finished};
use super::teaching::{Teaching, WaitingTeacher};
use super::words::{device_of, say_what_runs};
use crate::agreement::{agreed, agreed_in_any_time, is_said_elsewhere, left_to_others, rank_of, said_once};
use crate::failure::Failure;
use crate::output::{ProcessOutput, note};
use crate::progress::Progress;
use crate::signals::end_after_the_step;
use crate::task_plans::heading;
use crate::terminal;

/// An engine that is to be trained, with what connects its ranks.
pub(super) struct Waiting {
    engine: Planned,
    ready: Ready,
    world: Arc<dyn World>,
}

/// Engines of this process whose ranks are connected and have not started.
pub(super) struct AllWaiting {
    /// Those that have steps left.
    pub(super) trained: Vec<Waiting>,
    teacher: Option<WaitingTeacher>,
}

/// An engine whose ranks have started.
pub(super) struct Started {
    pub(super) name: String,
    file: RunFile,
    options: RunOptions,
    /// Its ranks of the job.
    pub(super) ranks: Range<usize>,
    pub(super) training: Training,
    ready: Ready,
}

/// Engines of this process whose ranks have started.
pub(super) struct AllStarted {
    pub(super) engines: Vec<Started>,
    teacher: Option<Teaching>,
}

impl<'a> Job<'a> {
    /// Connects the ranks of each engine.
    pub(super) fn connected(
        process: Process<'a>,
        Engines { trained, teacher, ranks }: Engines,
    ) -> Result<(Self, AllWaiting), Failure> {
        let plans = trained.iter().map(|engine| &engine.plan);
        let signals = plans.clone().map(|plan| plan.run().checkpoint.signal).collect();
        let timeout = plans.map(|plan| plan.run().comm.timeout).max().unwrap_or_default();
        let to_connect = trained.iter().map(|engine| {
            let speaks = process.speaks_for(&engine.ranks);
            let own = match process.rank_in(&engine.ranks) {
                Some(_) => engine.options.ready(&engine.plan, speaks),
                None => Ok(Ready::default()),
            };
            ToConnect { name: &engine.name, plan: &engine.plan, own }
        });
        let teachers =
            teacher.iter().map(|it| ToConnect { name: &it.name, plan: &it.plan, own: Ok(Ready::default()) });
        let to_connect: Vec<ToConnect<'_>> = to_connect.chain(teachers).collect();
        let (apart, mut connected) = match process.of_processes().filter(|_| ranks.are_said()) {
            Some(launched) => {
                let (job, connected) = connect_on_ranks(to_connect, timeout, process.launched)?;
                (Some(Apart { job, rank: launched.rank, timeout }), connected)
            }
            None => (None, connect(to_connect, process.launched)?),
        };
        let of_teacher = connected.split_off(trained.len()).pop().flatten();
        // A teacher teaches the one engine that is trained.
        let student = teacher.as_ref().and(trained.first()).map(|engine| engine.plan.clone());
        let has_student_here = teacher.as_ref().and(connected.first()).map(Option::is_some);
        let mut waiting = Vec::new();
        for (engine, connected) in trained.into_iter().zip(connected) {
            // What is to be said of an engine of others is said by them.
            let output = process.output_of(&engine.ranks);
            let engine = engine.with_output(output);
            let Some((world, ready)) = connected else {
                drop(engine);
                continue;
            };
            if apart.is_some() {
                for of_engine in world.warnings() {
                    output.note(terminal::fitted(&format!("warning: {of_engine}")));
                }
            }
            if !is_finished(&*world, &ready)? {
                waiting.push(Waiting { engine, ready, world });
            }
        }
        let teacher = teacher.zip(student).map(|(engine, student)| {
            let world = of_teacher.map(|(world, _)| world);
            WaitingTeacher { engine, world, student }
        });
        let job = Self { process, ranks, apart, signals };
        let is_taught = match has_student_here {
            Some(is_here) => !job.has_finished(is_here && waiting.is_empty())?,
            None => true,
        };
        Ok((job, AllWaiting { trained: waiting, teacher: teacher.filter(|_| is_taught) }))
    }

    /// Whether the student has done all its steps, as a process knows that has some of its ranks: then nothing is to be taught.
    fn has_finished(&self, is_known: bool) -> Result<bool, Failure> {
        let mut finished = [u64::from(is_known)];
        if let Some(apart) = &self.apart {
            let asked = apart.job.add_words(&mut finished);
            asked.map_err(|error| TrainingError::from(EngineError::from(error)))?;
        }
        Ok(finished != [0])
    }

    /// Whether there is room for all engines at once; a warning where checkpoints may find none.
    fn check_room(
        &self,
        AllWaiting { trained, teacher }: &AllWaiting,
        out: &Path,
    ) -> Result<Option<String>, Failure> {
        let trained_now = trained.iter().map(|Waiting { engine, world, .. }| Together {
            name: &engine.name,
            plan: &engine.plan,
            world: &**world,
        });
        let teachers = teacher.iter().filter_map(WaitingTeacher::together);
        let logits = teacher.as_ref().and_then(|teacher| teacher.logits(self.apart.as_ref()));
        let plans: Vec<&Plan> = trained.iter().map(|waiting| &waiting.engine.plan).collect();
        let together: Vec<Together<'_>> = trained_now.chain(teachers).collect();
        let found = check_together(&together, logits).map_err(Failure::from);
        let found = found.and_then(|()| Ok(check_disk_space_together(&plans, out)?));
        let of_all = self.apart.as_ref().map_or_else(|| &trained[0].world, |apart| &apart.job);
        agreed(&**of_all, self.process.launched, found)
    }

    /// The failure of an engine with these ranks, which one process says.
    fn failed(&self, name: &str, ranks: &Range<usize>, error: impl Into<TrainingError>) -> Failure {
        said_once(error.into(), self.process.rank_of_several(ranks)).of_engine(name)
    }

    /// Starts the ranks of all engines, once it is known that there is room for all of them; done once those of all processes have started.
    pub(super) fn start(&self, waiting: AllWaiting, out: &Path) -> Result<AllStarted, Failure> {
        let disk_warning = self.check_room(&waiting, out)?;
        // A student and its teacher say to each other that they have started.
        let job = self.apart.as_ref().filter(|_| waiting.teacher.is_none());
        let job = job.map(|apart| Arc::clone(&apart.job));
        let started = self.start_here(waiting, disk_warning);
        match job {
            Some(job) => agreed_in_any_time(&*job, self.process.launched, started),
            None => started,
        }
    }

    fn start_here(&self, waiting: AllWaiting, disk_warning: Option<String>) -> Result<AllStarted, Failure> {
        let AllWaiting { trained, teacher } = waiting;
        let student = teacher.as_ref().map(|teacher| (teacher.student.clone(), teacher.engine.ranks.clone()));
        let teacher = teacher.map(|teacher| teacher.start(self));
        let mut taught = teacher.transpose()?;
        let mut started = Vec::new();
        for Waiting { engine, ready, world } in trained {
            let Planned { name, file, plan, notices, options, ranks } = engine;
            let output = self.process.output_of(&ranks);
            let gap = if started.is_empty() && taught.is_none() { "" } else { "\n" };
            output.note(format_args!("{gap}{}", heading(&self.ranks, &name)));
            say_what_runs(output, &plan);
            drop(notices);
            // A task with a teacher trains one engine.
            let training = options.start(plan, world, ready.traced.clone(), taught.take(), output);
            let training = training.map_err(|error| self.failed(&name, &ranks, error))?;
            output.note(terminal::fitted(&format!("computing on: {}", device_of(&training, &file))));
            started.push(Started { name, file, options, ranks, training, ready });
        }
        if let Some(warning) = disk_warning {
            let speaks = started.iter().any(|engine: &Started| self.process.speaks_for(&engine.ranks));
            ProcessOutput::new(speaks).note(terminal::fitted(&warning));
        }
        // It has a student in other processes alone.
        let teacher =
            taught.zip(student).map(|(teacher, (student, ranks))| Teaching { teacher, student, ranks });
        Ok(AllStarted { engines: started, teacher })
    }

    /// Makes the run directories, and trains until each engine has done its steps or a signal comes.
    pub(super) fn trained(&self, started: AllStarted) -> Result<Vec<EndedRun>, Failure> {
        let AllStarted { engines: started, teacher } = started;
        let mut trainings = Vec::new();
        let mut directories = Vec::new();
        note("");
        // A directory is made or replaced only after everything else worked, for all engines.
        for Started { name, file, options, ranks, mut training, ready } in started {
            let speaks = self.process.speaks_for(&ranks);
            let recorded = options.recorded(ready.earlier, &file, training.plan(), speaks);
            let directory = options.directory(&mut training, recorded, self.process.output_of(&ranks));
            let directory = directory.map_err(|error| self.failed(&name, &ranks, error))?;
            directories.push(directory);
            trainings.push((name, ranks, training));
        }
        let signalled = end_after_the_step(self.signals.iter().copied());
        if let (Some(teaching), Some(apart)) = (teacher, &self.apart) {
            let is_interrupted = || signalled.interrupted.load(Ordering::Relaxed);
            return teaching.until_the_student_ends(apart, &is_interrupted);
        }
        let mut observers: Vec<Progress> = trainings
            .iter()
            .map(|(name, ranks, training)| {
                let run = training.plan().run();
                let num_done = training.resumed().map_or(0, |resumed| resumed.step);
                let output = self.process.output_of(ranks);
                Progress::of_engine(name, output, num_done, run.steps, run.model.learns())
            })
            .collect();
        let own: Vec<(String, Range<usize>)> =
            trainings.iter().map(|(name, ranks, _)| (name.clone(), ranks.clone())).collect();
        let runs = trainings.into_iter().zip(&directories).zip(&mut observers);
        let runs = runs.map(|(((name, ranks, training), directory), observer)| RunInTurn {
            name,
            ranks,
            training,
            directory,
            observer,
        });
        let is_interrupted = || {
            signalled.interrupted.load(Ordering::Relaxed)
                || self.apart.as_ref().is_some_and(Apart::has_failed)
        };
        let ended = train_several(runs.collect(), &is_interrupted);
        signalled.end();
        match &self.apart {
            None => ended.map_err(|error| self.ended_by(error)),
            Some(apart) => apart.end(ended, &own),
        }
    }

    /// What ends all engines, which one process says.
    fn ended_by(&self, error: InTurnError) -> Failure {
        match is_said_elsewhere(&error.error, rank_of(self.process.launched)) {
            true => left_to_others(&error),
            false => error.into(),
        }
    }
}
