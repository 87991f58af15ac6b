//! Rules of the top level, and what many keys share.

use pipezero_files::json::shorten;

use crate::byte_size::ByteSize;
use crate::kind::Auto;
use crate::raw::RawRun;
use crate::resolved::{BatchConfig, ModelConfig, ParallelConfig};
use crate::resources::Resources;
use crate::section::Field;
use crate::whole_number::MAX_COUNT;

use super::model_size::{self, Repairs};

/// Bases are read with the file: one that `--set` names comes too late.
pub(super) fn extends(field: &Field<String>) {
    if let Some(named) = field.given() {
        let rule = "a file and its bases are merged before `--set` changes them";
        field.broken::<()>(format!("\"{}\"", shorten(&named)), rule, "write it in the file");
    }
}

/// The rule that a time breaks which the user wrote and which is not 0, but becomes 0.
pub(super) const LESS_THAN_A_NANOSECOND: &str =
    "times are rounded to whole nanoseconds, and this one would be rounded to 0";

/// `Some(None)` is absent or `"auto"`; else at least one; `None` is a mistake that is reported.
pub(super) fn count_or_auto(field: &Field<Auto<usize>>) -> Option<Option<usize>> {
    match field.or(Auto::Auto)? {
        Auto::Value(value) => field.at_least_one(Some(value)).map(Some),
        Auto::Auto => Some(None),
    }
}

/// `threads`; `"auto"` gives every core of the process to one of its ranks, of which a launcher's processes have one each: where engines of a task have ranks of
/// their own, those of all engines compute at once.
pub(super) fn threads(
    field: &Field<Auto<usize>>,
    grid: Option<&ParallelConfig>,
    resources: Resources,
) -> Option<usize> {
    match field.or(Auto::Auto)? {
        Auto::Value(threads) => field.at_least_one(Some(threads)),
        Auto::Auto => grid.map(|grid| {
            let of_job = resources.part.map_or(0, |part| part.num_ranks);
            let num_local = if resources.ranks.is_some() { 1 } else { grid.num_ranks().max(of_job) };
            field.became((resources.cores / num_local).max(1))
        }),
    }
}

/// `memory` of a rank.
pub(super) fn memory(field: &Field<ByteSize>) -> Option<Option<u64>> {
    if !field.is_written() {
        return Some(None);
    }
    let bytes = field.given().map(|ByteSize(bytes)| bytes);
    let repair = "use a size such as \"80GiB\"";
    field.keep(bytes, |bytes| bytes > 0, "a rank needs some memory", repair).map(Some)
}

/// `steps`; the number of tokens of the whole run must be countable.
pub(super) fn steps(raw: &RawRun, batch: Option<&BatchConfig>, model: Option<&ModelConfig>) -> Option<u64> {
    let steps = raw
        .steps
        .required("it says when the run ends", "add the number of optimizer steps, such as \"steps\": 1000");
    let steps = raw.steps.keep(steps, |steps| steps > 0, "a run has at least one step", "use 1 or more")?;
    if let (Some(batch), Some(model)) = (batch, model) {
        let (num_sequences, seq_length) = (batch.train_batch_size, model.seq_length());
        if steps as f64 * num_sequences as f64 * seq_length as f64 > MAX_COUNT {
            let rule = format!(
                "with {num_sequences} sequences of {seq_length} tokens a step that is more than 2^53 tokens, which cannot be \
                 counted exactly"
            );
            return raw.steps.broken(steps, rule, "use fewer");
        }
    }
    Some(steps)
}

/// What to do about sequences that are too long or too many.
pub(super) const SHORTER: Repairs<'static> = Repairs {
    of_key: "use shorter or fewer sequences",
    of_folder: "add a smaller `model.seq_length`, or use fewer sequences",
};

/// The widest activation of a micro-batch must be addressable.
pub(super) fn micro_batch_fits(raw: &RawRun, batch: &BatchConfig, model: &ModelConfig) -> Option<()> {
    let width = model.facts().activations.widest_per_token();
    let (num_sequences, seq_length) = (batch.micro_batch_size, model.seq_length());
    if num_sequences as f64 * seq_length as f64 * width as f64 <= MAX_COUNT {
        return Some(());
    }
    let rule = format!(
        "the largest activation of a micro-batch, {num_sequences} sequences x {seq_length} tokens x {width} values, would have \
         more than 2^53 elements, too many to count exactly"
    );
    // Reported at the larger of the two: the other may be as it should.
    if seq_length >= num_sequences {
        return model_size::broken(&raw.model, &raw.model.seq_length, seq_length, rule, SHORTER);
    }
    let repair = "use fewer or shorter sequences";
    let micro = &raw.train_micro_batch_size_per_gpu;
    match micro.given().and_then(Auto::value) {
        Some(_) => micro.broken(num_sequences, rule, repair),
        None => raw.train_batch_size.broken(batch.train_batch_size, rule, repair),
    }
}
