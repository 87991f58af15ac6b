//! Rules that many keys share, and those of the top level.

use crate::config::byte_size::ByteSize;
use crate::config::findings::Findings;
use crate::config::kind::Auto;
use crate::config::launch::Launch;
use crate::config::raw::RawRun;
use crate::config::resolved::{BatchConfig, ModelConfig};
use crate::config::section::Field;

use super::grid::Grid;

/// The largest count that every number of a run stays exact and addressable below.
pub(super) const MAX_COUNT: f64 = 9_007_199_254_740_992.0;

/// The value, if it is at least 1.
pub(super) fn at_least_one<T>(
    field: &Field<T>,
    value: Option<usize>,
    findings: &mut Findings,
) -> Option<usize> {
    let value = value?;
    if value == 0 {
        findings.broken(&field.place, value, "it must be at least 1", "use 1 or more");
        return None;
    }
    Some(value)
}

/// The value, if it is 0 or more.
pub(super) fn not_negative<T>(field: &Field<T>, value: Option<f64>, findings: &mut Findings) -> Option<f64> {
    let value = value?;
    if value < 0.0 {
        findings.broken(&field.place, value, "it must not be negative", "use 0 or more");
        return None;
    }
    Some(value)
}

/// The value, if it lies in `0..1`, as `example` does.
pub(super) fn below_one<T>(
    field: &Field<T>,
    value: Option<f64>,
    example: f64,
    findings: &mut Findings,
) -> Option<f64> {
    let value = value?;
    if !(0.0..1.0).contains(&value) {
        let repair = format!("use a value such as {example}");
        findings.broken(&field.place, value, "it must be at least 0 and below 1", repair);
        return None;
    }
    Some(value)
}

/// `gradient_clipping`; `"auto"` is the default.
pub(super) fn gradient_clipping(field: &Field<Auto<f64>>, findings: &mut Findings) -> Option<f64> {
    let value = field.or(Auto::Auto)?.value().unwrap_or(1.0);
    not_negative(field, Some(value), findings)
}

/// `threads`; `"auto"` gives every core of the host to one rank.
pub(super) fn threads(
    field: &Field<Auto<usize>>,
    grid: Option<&Grid>,
    launch: Launch,
    findings: &mut Findings,
) -> Option<usize> {
    match field.or(Auto::Auto)? {
        Auto::Value(threads) => at_least_one(field, Some(threads), findings),
        Auto::Auto => grid.map(|grid| (launch.cores / grid.num_ranks()).max(1)),
    }
}

/// `memory` of a rank.
pub(super) fn memory(field: &Field<ByteSize>, findings: &mut Findings) -> Option<Option<u64>> {
    if !field.is_written() {
        return Some(None);
    }
    let ByteSize(bytes) = field.given()?;
    if bytes == 0 {
        findings.broken(&field.place, bytes, "a rank holds something", "use a size such as \"80GiB\"");
        return None;
    }
    Some(Some(bytes))
}

/// `steps`; the number of tokens of the whole run must be countable.
pub(super) fn steps(
    raw: &RawRun,
    batch: Option<&BatchConfig>,
    model: Option<&ModelConfig>,
    findings: &mut Findings,
) -> Option<u64> {
    let steps = raw.steps.required(findings, "a run has an end", "add the number of optimizer steps")?;
    if steps == 0 {
        findings.broken(&raw.steps.place, steps, "a run has at least one step", "use 1 or more");
        return None;
    }
    if let (Some(batch), Some(model)) = (batch, model) {
        let tokens = steps as f64 * batch.train_batch_size as f64 * model.seq_length() as f64;
        if tokens > MAX_COUNT {
            let rule = format!(
                "with {} sequences of {} tokens a step that is more than 2^53 tokens, which cannot be counted exactly",
                batch.train_batch_size,
                model.seq_length()
            );
            findings.broken(&raw.steps.place, steps, rule, "use fewer");
            return None;
        }
    }
    Some(steps)
}

/// The widest activation of a micro-batch must be addressable.
pub(super) fn micro_batch_fits(
    raw: &RawRun,
    batch: &BatchConfig,
    model: &ModelConfig,
    findings: &mut Findings,
) -> bool {
    let width = model.facts().activations.widest_per_token();
    let (num_sequences, seq_length) = (batch.micro_batch_size, model.seq_length());
    let elements = num_sequences as f64 * seq_length as f64 * width as f64;
    if elements > MAX_COUNT {
        let rule = format!(
            "a micro-batch of {} sequences x {} tokens x {width} values is more than 2^53 elements",
            num_sequences, seq_length
        );
        // Told at the larger of the two: the other may be as it should.
        let (batch_place, in_micro_batches) =
            (&raw.train_batch_size.place, &raw.train_micro_batch_size_per_gpu);
        if seq_length >= num_sequences {
            findings.broken(&raw.model.seq_length.place, seq_length, rule, "use shorter or fewer sequences");
        } else if in_micro_batches.given().and_then(Auto::value).is_some() {
            findings.broken(&in_micro_batches.place, num_sequences, rule, "use fewer or shorter sequences");
        } else {
            findings.broken(batch_place, batch.train_batch_size, rule, "use fewer or shorter sequences");
        }
    }
    elements <= MAX_COUNT
}
