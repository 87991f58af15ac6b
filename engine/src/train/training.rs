//! The loop over steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::batches::Batches;
use super::error::TrainingError;
use super::evaluate::evaluate;
use super::metrics::{EvalLine, StepLine};
use super::progress::Progress;
use super::run_dir::{MetricsFile, RunDir};
use super::summary::{StepSeconds, Summary};
use super::tracer::Tracer;
use crate::measure::trace::TracedSteps;
use crate::plan::Plan;
use crate::run::engine::{Engine, EngineError, StepReport};

/// Receives every line of the metrics while the run goes on.
pub trait Observer {
    /// A step has ended.
    fn step(&mut self, line: &StepLine);
    /// An evaluation has ended.
    fn evaluation(&mut self, line: &EvalLine);
}

/// A training run that is ready to start: ranks allocated, text read.
pub struct Training {
    engine: Engine,
    batches: Batches,
    traced: Option<TracedSteps>,
}

impl Training {
    /// Reads the text, if the model reads any, and starts the ranks.
    ///
    /// # Errors
    /// When the text cannot be read or is too short, or the ranks cannot be started.
    pub fn new(plan: Plan) -> Result<Self, TrainingError> {
        let batches = Batches::of(&plan)?;
        let engine = Engine::new(plan, Arc::clone(&batches.training))?;
        Ok(Self { engine, batches, traced: None })
    }

    /// Records these steps and writes them to the run directory.
    pub fn traced(self, steps: TracedSteps) -> Self {
        Self { traced: Some(steps), ..self }
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }

    /// Runs until the last step or until `interrupted` is set, then evaluates, saves the weights and the summary.
    ///
    /// # Errors
    /// When a rank stops or a file cannot be written.
    pub fn run(
        mut self,
        directory: &RunDir,
        interrupted: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<Summary, TrainingError> {
        let mut metrics = directory.metrics()?;
        let (steps, every) = (self.plan().run().steps, self.plan().run().evaluation.every);
        let mut progress = Progress::default();
        let mut tracer = self.traced.take().map(|steps| Tracer::new(steps, directory));
        while progress.num_steps() < steps && !interrupted.load(Ordering::Relaxed) {
            let report = match self.step(tracer.as_mut(), progress.num_steps() + 1) {
                Err(
                    error @ (TrainingError::Engine(EngineError::LossScale { .. }) | TrainingError::Trace(_)),
                ) => {
                    // The weights of the step before are intact.
                    self.engine.save(&directory.file(RunDir::WEIGHTS))?;
                    return Err(error);
                }
                report => report?,
            };
            let epoch = self.batches.training.epoch(report.step);
            let line = StepLine::new(&report, epoch, self.plan().step_flops());
            metrics.add(&line)?;
            observer.step(&line);
            progress.add(&line, report);
            let step = progress.num_steps();
            if every > 0 && step.is_multiple_of(every) && step < steps {
                self.evaluate(step, &mut metrics, observer)?;
            }
        }
        // First, so that no later error loses the weights.
        self.engine.save(&directory.file(RunDir::WEIGHTS))?;
        let validation_loss = self.evaluate(progress.num_steps(), &mut metrics, observer)?;
        let summary = self.summary(&progress, validation_loss);
        let text =
            serde_json::to_string_pretty(&summary).expect("a summary has string keys and finite depth");
        directory.write(RunDir::SUMMARY, &text)?;
        if let Some(tracer) = &mut tracer {
            tracer.finish(self.plan(), directory)?;
        }
        Ok(summary)
    }

    /// One step, recorded and written if it is to be traced.
    fn step(&mut self, tracer: Option<&mut Tracer>, step: u64) -> Result<StepReport, TrainingError> {
        let Some(tracer) = tracer.filter(|tracer| tracer.wants(step)) else {
            return Ok(self.engine.train_batch()?);
        };
        let report = self.engine.train_batch_recorded()?;
        tracer.add(self.plan(), &report)?;
        Ok(report)
    }

    /// The validation loss, if there is validation text.
    fn evaluate(
        &mut self,
        step: u64,
        metrics: &mut MetricsFile,
        observer: &mut dyn Observer,
    ) -> Result<Option<f64>, TrainingError> {
        let Some(source) = &self.batches.validation else { return Ok(None) };
        let num_batches = self.engine.plan().run().evaluation.batches;
        let line = EvalLine::new(step, &evaluate(&mut self.engine, source, num_batches)?);
        metrics.add(&line)?;
        observer.evaluation(&line);
        Ok(line.validation_loss)
    }

    fn summary(&self, progress: &Progress, validation_loss: Option<f64>) -> Summary {
        let run = self.plan().run();
        Summary {
            steps: progress.num_steps(),
            skipped_steps: progress.num_skipped,
            skipped_steps_at_end: progress.num_skipped_in_a_row,
            interrupted: progress.num_steps() < run.steps,
            training_loss: progress.last.as_ref().and_then(|report| report.loss),
            validation_loss,
            baselines: self.batches.baselines,
            tokens_per_s: progress.median_tokens_per_s(),
            step_s: StepSeconds::of(&progress.step_s),
            bubble_share: self.plan().bubble_share(),
            idle_share: progress.mean_idle_share(),
            exposed_comm_share: progress.mean_exposed_comm_share(),
            loss_scale: progress.last.as_ref().and_then(|report| report.loss_scale),
            ranks: progress.last.as_ref().map_or_else(Vec::new, |report| self.engine.measured(report)),
            planned: self.plan().forecast(),
        }
    }
}
