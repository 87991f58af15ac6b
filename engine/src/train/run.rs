//! The loop over steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::metrics::{EvalLine, StepLine};
use super::run_dir::{MetricsFile, RunDir, RunDirError};
use super::tracer::Tracer;
use super::{Baselines, StepSeconds, Summary};
use crate::measure::trace::{TraceError, TracedSteps};
use crate::plan::Plan;
use crate::run::data::{BatchLayout, BatchSource, Corpus, DataError, Zeros};
use crate::run::engine::{Engine, EngineError, EvalReport, StepReport};

/// Who is told how the run goes on.
pub trait Observer {
    /// A step has ended.
    fn step(&mut self, line: &StepLine);
    /// An evaluation has ended.
    fn evaluation(&mut self, line: &EvalLine);
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The text of the run file.
    #[error("`data.text`: {0}")]
    Data(#[from] DataError),
    /// The ranks.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A step that was to be traced.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// A run about to start: ranks allocated, text read.
pub struct Training {
    engine: Engine,
    training: Arc<dyn BatchSource>,
    validation: Option<Arc<dyn BatchSource>>,
    baselines: Option<Baselines>,
    traced: Option<TracedSteps>,
}

impl Training {
    /// Reads the text, if the model reads any, and starts the ranks.
    ///
    /// # Errors
    /// When the text cannot be read or is too short, or the ranks not be started.
    pub fn new(plan: Plan) -> Result<Self, TrainingError> {
        let run = plan.run();
        if !run.model.learns() {
            let training: Arc<dyn BatchSource> = Arc::new(Zeros);
            let engine = Engine::new(plan, Arc::clone(&training))?;
            return Ok(Self { engine, training, validation: None, baselines: None, traced: None });
        }
        let seq_length = plan.micro_batch_shape().seq_length;
        let corpus = Corpus::load(&run.data, seq_length)?;
        corpus.check_vocabulary(plan.vocab_size())?;
        let layout = batch_layout(&plan);
        let training: Arc<dyn BatchSource> = Arc::new(corpus.training_batches(layout, run.seed)?);
        let validation = corpus.validation_batches(layout, run.seed)?.map(|batches| Arc::new(batches) as _);
        let baselines = Baselines::of(&corpus);
        let engine = Engine::new(plan, Arc::clone(&training))?;
        Ok(Self { engine, training, validation, baselines, traced: None })
    }

    /// Records these steps and writes what happened in them to the run directory.
    pub fn traced(self, steps: TracedSteps) -> Self {
        Self { traced: Some(steps), ..self }
    }

    /// The plan that runs.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }

    /// What needs no model, if there is validation text.
    pub fn baselines(&self) -> Option<Baselines> {
        self.baselines
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
                    // What was learnt before it is whole.
                    self.engine.save(&directory.file(RunDir::WEIGHTS))?;
                    return Err(error);
                }
                report => report?,
            };
            let epoch = self.training.epoch(report.step);
            let line = StepLine::new(&report, epoch, self.plan().step_flops());
            metrics.add(&line)?;
            observer.step(&line);
            progress.add(&line, report);
            let step = progress.num_steps();
            if every > 0 && step.is_multiple_of(every) && step < steps {
                self.evaluate(step, &mut metrics, observer)?;
            }
        }
        // First of all, so that nothing that happens later costs the weights.
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
        let Some(source) = &self.validation else { return Ok(None) };
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
            baselines: self.baselines,
            tokens_per_s: progress.median_tokens_per_s(),
            step_s: StepSeconds::of(&progress.step_s),
            bubble_share: self.plan().bubble_share(),
            idle_share: progress.mean(progress.idle_share),
            exposed_comm_share: progress.mean(progress.exposed_comm_share),
            loss_scale: progress.last.as_ref().and_then(|report| report.loss_scale),
            ranks: progress.last.as_ref().map_or_else(Vec::new, |report| self.engine.measured(report)),
            planned: self.plan().forecast(),
        }
    }
}

/// The mean loss over the first `num_batches` batches of a source.
///
/// # Errors
/// When a rank stops.
pub fn evaluate(
    engine: &mut Engine,
    source: &Arc<dyn BatchSource>,
    num_batches: u64,
) -> Result<EvalReport, EngineError> {
    let (mut sum, mut num_targets) = (0.0, 0);
    for batch in 1..=num_batches {
        let report = engine.eval_batch(source, batch)?;
        sum += report.loss.unwrap_or(0.0) * report.num_targets as f64;
        num_targets += report.num_targets;
    }
    Ok(EvalReport { loss: (num_targets > 0).then(|| sum / num_targets as f64), num_targets })
}

/// What a plan trains on.
///
/// # Errors
/// When its texts cannot be read, are too short, or have bytes beyond its vocabulary.
pub fn training_batches(plan: &Plan) -> Result<Arc<dyn BatchSource>, TrainingError> {
    let run = plan.run();
    if !run.model.learns() {
        return Ok(Arc::new(Zeros));
    }
    let corpus = Corpus::load(&run.data, plan.micro_batch_shape().seq_length)?;
    corpus.check_vocabulary(plan.vocab_size())?;
    Ok(Arc::new(corpus.training_batches(batch_layout(plan), run.seed)?))
}

/// How a plan's batches are dealt out.
pub fn batch_layout(plan: &Plan) -> BatchLayout {
    let (batch, shape) = (plan.run().batch, plan.micro_batch_shape());
    BatchLayout {
        data_degree: plan.grid().data_degree,
        num_micro_batches: batch.num_micro_batches,
        micro_batch_size: shape.num_sequences,
        seq_length: shape.seq_length,
    }
}

/// What is kept of the steps so far.
#[derive(Debug, Default)]
struct Progress {
    tokens_per_s: Vec<f64>,
    step_s: Vec<f64>,
    num_skipped: u64,
    /// Up to the last step.
    num_skipped_in_a_row: u64,
    /// Sum over the steps.
    idle_share: f64,
    /// Sum over the steps.
    exposed_comm_share: f64,
    last: Option<StepReport>,
}

impl Progress {
    fn add(&mut self, line: &StepLine, report: StepReport) {
        self.tokens_per_s.push(line.tokens_per_s);
        self.step_s.push(line.step_s);
        self.num_skipped += u64::from(line.skipped);
        self.num_skipped_in_a_row = if line.skipped { self.num_skipped_in_a_row + 1 } else { 0 };
        self.idle_share += report.idle_share();
        self.exposed_comm_share += report.exposed_comm_share();
        self.last = Some(report);
    }

    fn num_steps(&self) -> u64 {
        self.tokens_per_s.len() as u64
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.num_steps().max(1) as f64
    }

    fn median_tokens_per_s(&self) -> f64 {
        let mut sorted = self.tokens_per_s.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}
