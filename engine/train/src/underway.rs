//! A training run from its first step to its end, one step at a time: the loop of one run calls it until no step is left, and that of
//! several runs calls each of them in turn.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use pipezero_plan::Plan;
use pipezero_run::checkpoint::{CheckpointError, Checkpoints, StepOfStart};
use pipezero_run::engine::{AboutRun, StepReport};

use super::checkpoints::CheckpointKeeper;
use super::device_memory::DeviceMemory;
use super::error::TrainingError;
use super::evaluate::evaluate;
use super::metrics::{EvalLine, StepLine};
use super::metrics_file::MetricsFile;
use super::observer::{Observer, Work};
use super::progress::Progress;
use super::rescue::save_after;
use super::run_dir::RunDir;
use super::since_checkpoint::about;
use super::step_flops::step_flops;
use super::summary::{StepSeconds, Summary};
use super::teacher::Teacher;
use super::tracer::Tracer;
use super::training::Training;

/// A training run that is under way, with the files that it writes. After an error it has ended.
pub struct Underway<'a> {
    training: Training,
    directory: &'a RunDir,
    keeper: CheckpointKeeper,
    /// In the process that writes it.
    metrics: Option<MetricsFile>,
    /// In the process that writes it, if steps are traced.
    tracer: Option<Tracer>,
    progress: Progress,
    /// The last evaluation.
    evaluated: Option<EvalLine>,
    /// Whether the run directory has the weights of the run's end.
    has_saved_weights: bool,
}

impl Training {
    /// Runs until the last step or until `interrupted` is set in any process, then evaluates, saves the weights and the summary. The
    /// process of rank 0 writes to `directory`, which the others do not read. The lines that the observer gets, and the summary, have the
    /// same losses, norms and counts in every process; their times, memory and traffic are of the ranks that the process knows
    /// ([`StepReport`]).
    ///
    /// # Errors
    /// When a rank stops or a file cannot be written; [`TrainingError::Saved`] if the state could be saved before the end.
    pub fn run(
        self,
        directory: &RunDir,
        interrupted: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Summary, TrainingError> {
        let mut underway = self.begin(directory, observer)?;
        while underway.step(interrupted.load(Ordering::Relaxed), observer)? {}
        underway.finish(observer)
    }

    /// Opens the files of the run: it is to be advanced by [`Underway::step`], and ended by [`Underway::finish`].
    ///
    /// # Errors
    /// As [`Training::run`].
    pub fn begin<'a>(
        mut self,
        directory: &'a RunDir,
        observer: &mut dyn Observer,
    ) -> Result<Underway<'a>, TrainingError> {
        let first = self.resumed.as_ref().map_or(0, |resumed| resumed.step);
        let from = self.resumed.as_ref().map_or_else(StepOfStart::default, |resumed| resumed.from);
        // Before metrics, checkpoints or weights change: from here on a run that is killed is known to have gone on from this step.
        let start = self.engine.shared(|| directory.begin_start(from).map_err(TrainingError::from))?;
        let about = about(self.plan(), &self.batches, self.teacher.as_ref());
        let about = AboutRun { start: Some(start), ..about };
        let unreadable = self.resumed.iter().flat_map(|resumed| &resumed.refused);
        let unreadable = unreadable.filter_map(CheckpointError::step_to_keep).collect();
        let keeper = CheckpointKeeper::new(directory, self.plan().run(), first, about, unreadable);
        let keeper = self.engine.agree(keeper)?;
        let is_traced = self.writes() && self.traced.is_some();
        let mut underway = Underway {
            training: self,
            directory,
            keeper,
            metrics: None,
            tracer: is_traced.then(|| Tracer::new(directory)),
            progress: Progress::after(first),
            evaluated: None,
            has_saved_weights: false,
        };
        let opened = underway.open_metrics(first);
        match underway.training.engine.agree(opened) {
            Ok(()) => Ok(underway),
            Err(error) => Err(underway.ended_by(error, observer)),
        }
    }
}

impl Underway<'_> {
    fn open_metrics(&mut self, first: u64) -> Result<(), TrainingError> {
        // A run that was killed after its last step evaluates once more.
        let has_all_steps = first == self.plan().run().steps;
        if self.training.writes() {
            self.metrics = Some(self.directory.metrics_until(first, has_all_steps)?);
        }
        Ok(())
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        self.training.plan()
    }

    /// Steps done, those of an earlier start of the run included.
    pub fn num_steps(&self) -> u64 {
        self.progress.num_steps()
    }

    /// Does the next step, with the evaluation and the checkpoint that are due after it. `false` if none is left, or the run is
    /// `interrupted` in any process: then it is to be finished.
    ///
    /// # Errors
    /// As [`Training::run`].
    pub fn step(&mut self, interrupted: bool, observer: &mut dyn Observer) -> Result<bool, TrainingError> {
        let stepped = self.next_step(interrupted, observer);
        stepped.map_err(|error| self.ended_by(error, observer))
    }

    /// Saves what the run leaves: the state if it ends before its last step, the weights, an evaluation, the summary. Its ranks end.
    ///
    /// # Errors
    /// As [`Training::run`].
    pub fn finish(mut self, observer: &mut dyn Observer) -> Result<Summary, TrainingError> {
        let ended = self.end(observer);
        ended.map_err(|error| self.ended_by(error, observer))
    }

    /// Saves what can be saved of a run that an error has ended; the error that says where.
    fn ended_by(&mut self, error: TrainingError, observer: &mut dyn Observer) -> TrainingError {
        let engine = &mut self.training.engine;
        if error.leaves_weights() {
            observer.begins(Work::Saving);
            // Lines that could not be written may be by now; if not, the folder to which the state is rescued has them.
            let lines = self.metrics.as_mut().map_or("", |metrics| {
                let _ = metrics.sync();
                metrics.unwritten()
            });
            let rescue = self.training.rescue.as_deref();
            return save_after(error, engine, &mut self.keeper, self.directory, rescue, lines);
        }
        let step = engine.position().step;
        TrainingError::Lost {
            error: Box::new(error),
            step,
            has_weights: self.has_saved_weights,
            checkpoint: newest_checkpoint(self.directory.path(), step).max(self.keeper.newest()),
            path: self.directory.path().to_owned(),
        }
    }

    fn next_step(&mut self, interrupted: bool, observer: &mut dyn Observer) -> Result<bool, TrainingError> {
        let steps = self.plan().run().steps;
        let interrupted = interrupted || self.training.teacher.as_ref().is_some_and(Teacher::is_interrupted);
        if self.num_steps() >= steps || self.training.engine.in_any_process(interrupted)? {
            return Ok(false);
        }
        let every = self.plan().run().evaluation.every;
        let (report, line) = self.train_and_write(self.num_steps() + 1)?;
        self.training.memory.measure();
        let of_metrics = self.metrics.as_mut().map_or_else(Vec::new, MetricsFile::take_warnings);
        for warning in self.directory.take_warnings().into_iter().chain(of_metrics) {
            observer.warning(&warning);
        }
        observer.step(&line);
        self.progress.add(&line, report);
        let step = self.num_steps();
        if every > 0 && step.is_multiple_of(every) && step < steps {
            self.evaluate(observer)?;
        }
        let engine = &mut self.training.engine;
        self.keeper.poll(engine, observer)?;
        if self.keeper.is_due(step, engine)? {
            self.sync_metrics()?;
            self.keeper.start(step, &mut self.training.engine, observer)?;
        }
        Ok(true)
    }

    /// Puts the lines of all steps on disk, before a checkpoint of them is written.
    fn sync_metrics(&mut self) -> Result<(), TrainingError> {
        let synced = self.metrics.as_mut().map_or(Ok(()), MetricsFile::sync);
        self.training.engine.agree(synced.map_err(TrainingError::from))
    }

    fn end(&mut self, observer: &mut dyn Observer) -> Result<Summary, TrainingError> {
        if let Some(teacher) = &mut self.training.teacher {
            teacher.end();
        }
        let step = self.num_steps();
        let (has_all_steps, asks) =
            (step >= self.plan().run().steps, self.plan().run().checkpoint.is_asked_for());
        self.sync_metrics()?;
        let engine = &mut self.training.engine;
        if !has_all_steps {
            self.keeper.start_of_interrupted(step, engine, observer)?;
        } else if asks {
            self.keeper.start(step, engine, observer)?;
        }
        // The checkpoint first: weights without one are those of a run that cannot be gone on with. Both before the evaluation, whose errors so
        // lose nothing.
        engine.agree(self.directory.check_is_held().map_err(TrainingError::from))?;
        self.keeper.finish(engine, observer)?;
        // Those of a run that was interrupted before its first step would be in the way of a new start.
        if step > 0 {
            observer.begins(Work::Saving);
            engine.agree(self.directory.note_weights(None).map_err(TrainingError::from))?;
            engine.save(&self.directory.file(RunDir::WEIGHTS))?;
            engine.agree(self.directory.note_weights(Some(step)).map_err(TrainingError::from))?;
            self.has_saved_weights = true;
        }
        self.training.memory.measure();
        let validation_loss = self.evaluate(observer)?;
        let engine = &mut self.training.engine;
        let devices = engine.gather(DeviceMemory::of_devices(&engine.devices()))?.concat();
        let summary = self.summary(validation_loss, devices);
        let written = if self.training.writes() { self.write(&summary) } else { Ok(()) };
        self.training.engine.agree(written)?;
        Ok(summary)
    }

    /// Writes what a run leaves at its end.
    fn write(&mut self, summary: &Summary) -> Result<(), TrainingError> {
        let text = serde_json::to_string_pretty(summary).expect("a summary has string keys and finite depth");
        self.directory.write(RunDir::SUMMARY, &text)?;
        let tracer = self.tracer.as_mut();
        tracer.map_or(Ok(()), |tracer| tracer.finish(self.training.plan(), self.directory))
    }

    /// One step, recorded if it is to be traced, and written by the process that has the files.
    fn train_and_write(&mut self, step: u64) -> Result<(StepReport, StepLine), TrainingError> {
        let Training { engine, batches, traced, teacher, .. } = &mut self.training;
        if let Some(teacher) = teacher {
            teacher.compute(step)?;
        }
        let is_traced = traced.as_ref().is_some_and(|steps| steps.contains(step));
        let report = if is_traced { engine.train_batch_recorded()? } else { engine.train_batch()? };
        let wall_s = self.progress.step_ended();
        let epoch = batches.training.epoch(report.step);
        let flops = step_flops(engine.plan(), &*batches.training, report.step);
        let line = StepLine::new(&report, epoch, wall_s, flops, engine.peak_flops_per_s());
        let tracer = self.tracer.as_mut().filter(|_| is_traced);
        let traced =
            tracer.map_or(Ok(()), |tracer| tracer.add(engine.plan(), &report).map_err(TrainingError::from));
        // A folder that was removed or renamed can still be written, and nobody would see it.
        let written = self
            .metrics
            .as_mut()
            .map_or(Ok(()), |metrics| self.directory.check_is_held().and_then(|()| metrics.add(&line)));
        engine.agree(traced.and(written.map_err(TrainingError::from)))?;
        Ok((report, line))
    }

    /// The validation loss after the last step that was done, if there is validation text; of a step after which it was evaluated that of then.
    fn evaluate(&mut self, observer: &mut dyn Observer) -> Result<Option<f64>, TrainingError> {
        let step = self.num_steps();
        if let Some(line) = self.evaluated.as_ref().filter(|line| line.step == step) {
            return Ok(line.validation_loss);
        }
        let Training { engine, batches, memory, .. } = &mut self.training;
        let Some(source) = &batches.validation else { return Ok(None) };
        let num_batches = engine.plan().run().evaluation.batches;
        let begins = |batch| observer.begins(Work::Evaluation { batch, num_batches });
        let line = EvalLine::new(step, &evaluate(engine, source, num_batches, begins)?);
        memory.measure();
        let written = self.metrics.as_mut().map_or(Ok(()), |metrics| metrics.add(&line));
        engine.agree(written.map_err(TrainingError::from))?;
        observer.evaluation(&line);
        let validation_loss = line.validation_loss;
        self.evaluated = Some(line);
        Ok(validation_loss)
    }

    fn summary(&self, validation_loss: Option<f64>, devices: Vec<DeviceMemory>) -> Summary {
        let (progress, training) = (&self.progress, &self.training);
        let plan = training.plan();
        Summary {
            steps: progress.num_steps(),
            skipped_steps: progress.num_skipped,
            skipped_steps_at_end: progress.num_skipped_in_a_row,
            ranks_per_node: training.engine.ranks_per_node(),
            interrupted: progress.num_steps() < plan.run().steps,
            training_loss: progress.last.as_ref().and_then(|report| report.loss),
            training_loss_parts: progress.last.as_ref().map_or_else(Vec::new, |of| of.loss_parts.clone()),
            validation_loss,
            validation_loss_parts: self
                .evaluated
                .as_ref()
                .map_or_else(Vec::new, |line| line.loss_parts.clone()),
            baselines: training.batches.baselines,
            tokens_per_s: progress.median_tokens_per_s(),
            step_s: StepSeconds::of(&progress.step_s),
            bubble_share: plan.bubble_share(),
            idle_share: progress.mean_idle_share(),
            exposed_comm_share: progress.mean_exposed_comm_share(),
            loss_scale: progress.last.as_ref().and_then(|report| report.loss_scale),
            ranks: progress.last.as_ref().map_or_else(Vec::new, StepReport::measured),
            planned: plan.forecast(),
            loaded_weights: training.loaded_weights().cloned(),
            process: training.memory.memory(),
            devices,
        }
    }
}

/// The step of the newest checkpoint up to one: it may have been finished since the run last saw to it.
fn newest_checkpoint(directory: &Path, step: u64) -> Option<u64> {
    let found = Checkpoints::of_run(directory).newest_before(step.saturating_add(1), &mut Vec::new());
    Some(found.ok()??.manifest().position.step)
}
