//! The loss of a model on some batches.

use std::sync::Arc;

use pipezero_run::data::BatchSource;
use pipezero_run::engine::{Engine, EngineError, EngineKind, EvalReport, LossPart};

/// The mean loss over the first `num_batches` batches of a source; `begins` is called with each, from 1, before it is computed.
///
/// # Errors
/// When a rank stops.
pub fn evaluate<K: EngineKind>(
    engine: &mut Engine<K>,
    source: &Arc<dyn BatchSource>,
    num_batches: u64,
    mut begins: impl FnMut(u64),
) -> Result<EvalReport, EngineError> {
    let mut loss = Mean::default();
    let names = engine.plan().loss_parts().iter().copied();
    let mut parts: Vec<(&str, Mean)> = names.map(|name| (name, Mean::default())).collect();
    for batch in 1..=num_batches {
        begins(batch);
        let report = engine.eval_batch(source, batch)?;
        loss.add(report.loss, report.num_targets);
        for ((_, sum), part) in parts.iter_mut().zip(&report.loss_parts) {
            sum.add(part.mean, part.num_targets);
        }
    }
    let of_part = |(name, of): (_, Mean)| LossPart { name, mean: of.value(), num_targets: of.num_targets };
    Ok(EvalReport {
        loss: loss.value(),
        loss_parts: parts.into_iter().map(of_part).collect(),
        num_targets: loss.num_targets,
    })
}

/// A mean over the targets of several batches.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    num_targets: u64,
}

impl Mean {
    /// Adds the mean over so many targets. Without one the whole is not known either, unless there are no targets.
    fn add(&mut self, mean: Option<f64>, num_targets: u64) {
        if num_targets > 0 {
            self.sum += mean.unwrap_or(f64::NAN) * num_targets as f64;
            self.num_targets += num_targets;
        }
    }

    fn value(self) -> Option<f64> {
        let mean = self.sum / self.num_targets as f64;
        mean.is_finite().then_some(mean)
    }
}
