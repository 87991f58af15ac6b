//! The loss of a model on some batches.

use std::sync::Arc;

use crate::run::data::BatchSource;
use crate::run::engine::{Engine, EngineError, EvalReport};

/// The mean loss over the first `num_batches` batches of a source; `begins` is called with each, from 1, before it is computed.
///
/// # Errors
/// When a rank stops.
pub fn evaluate(
    engine: &mut Engine,
    source: &Arc<dyn BatchSource>,
    num_batches: u64,
    mut begins: impl FnMut(u64),
) -> Result<EvalReport, EngineError> {
    let (mut sum, mut num_targets) = (0.0, 0);
    for batch in 1..=num_batches {
        begins(batch);
        let report = engine.eval_batch(source, batch)?;
        sum += report.loss.unwrap_or(0.0) * report.num_targets as f64;
        num_targets += report.num_targets;
    }
    Ok(EvalReport { loss: (num_targets > 0).then(|| sum / num_targets as f64), num_targets })
}
