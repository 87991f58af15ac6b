//! Everything that an engine gives.

use std::path::Path;
use std::sync::Arc;

use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, StepReport};

/// What an engine finds out: steps, an evaluation, logits; and it saves its weights.
#[derive(Debug)]
pub struct Outputs {
    /// The report of every step of the run.
    pub steps: Vec<StepReport>,
    evaluation: Option<u64>,
    logits: Vec<u32>,
}

impl Outputs {
    /// Runs the engine's steps, the second and every other after it recorded, and evaluates between them.
    ///
    /// # Panics
    /// If a rank stops.
    pub fn of(mut engine: Engine, source: &Arc<dyn BatchSource>, path: &Path) -> Self {
        Self::of_borrowed(&mut engine, source, path)
    }

    /// As [`Outputs::of`], of an engine that is looked at afterwards.
    ///
    /// # Panics
    /// If a rank stops.
    pub fn of_borrowed(engine: &mut Engine, source: &Arc<dyn BatchSource>, path: &Path) -> Self {
        let (mut steps, mut evaluation, mut logits) = (Vec::new(), None, Vec::new());
        for step in 1..=engine.plan().run().steps {
            let report = if step % 2 == 0 { engine.train_batch_recorded() } else { engine.train_batch() };
            steps.push(report.expect("a step"));
            let evaluated = engine.eval_batch(source, 8 + step).expect("an evaluation");
            evaluation = evaluated.loss.map(f64::to_bits);
            logits = engine.logits(&[3, 1, 4]).expect("logits");
        }
        engine.save(path).expect("weights are saved");
        Self { steps, evaluation, logits: logits.into_iter().map(f32::to_bits).collect() }
    }

    /// Losses and norms of the steps, the loss of the last evaluation and the last logits, bit for bit.
    pub fn bits(&self) -> (Vec<[u64; 2]>, Option<u64>, &[u32]) {
        let of_step = |step: &StepReport| [step.loss.unwrap_or(0.0), step.gradient_norm].map(f64::to_bits);
        (self.steps.iter().map(of_step).collect(), self.evaluation, &self.logits)
    }
}
