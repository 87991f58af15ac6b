//! `zero_optimization.vocabulary_slices` and `activation_checkpointing.head_logits`.

use pipezero_models::HeadLogits;
use pipezero_models::shared::{block_tokens, num_blocks};

use super::counted::counted;
use crate::kind::Auto;
use crate::raw::RawRun;
use crate::resolved::{ModelConfig, ScheduleConfig, VocabularyConfig};
use crate::words::HeadLogitsWord;

pub(super) fn resolve(
    raw: &RawRun,
    model: Option<&ModelConfig>,
    schedule: Option<&ScheduleConfig>,
) -> Option<VocabularyConfig> {
    let num_slices = num_slices(raw, model);
    let head_logits = head_logits(raw, model, schedule);
    let (num_slices, head_logits) = (num_slices?, head_logits?);
    Some(VocabularyConfig { num_slices, head_logits, is_of_caller: false })
}

/// `None` inside leaves it to the plan.
fn num_slices(raw: &RawRun, model: Option<&ModelConfig>) -> Option<Option<usize>> {
    let field = &raw.zero_optimization.vocabulary_slices;
    let num_slices = match field.or(Auto::Auto)? {
        Auto::Auto => return Some(None),
        Auto::Value(num_slices) => field.at_least_one(Some(num_slices))?,
    };
    let Some(gpt) = model?.gpt() else {
        field.site.hint(NO_VOCABULARY);
        return Some(None);
    };
    let num_blocks = num_blocks(gpt.vocab_size);
    if num_slices <= num_blocks {
        return Some(Some(num_slices));
    }
    let rule = format!(
        "slices are cut between blocks of {} tokens, and `model.vocab_size` {} has {}",
        block_tokens(gpt.vocab_size),
        gpt.vocab_size,
        counted(num_blocks, "block")
    );
    field.broken(num_slices, rule, format!("use at most {num_blocks}, or \"auto\""))
}

/// `None` inside leaves it to the plan.
fn head_logits(
    raw: &RawRun,
    model: Option<&ModelConfig>,
    schedule: Option<&ScheduleConfig>,
) -> Option<Option<HeadLogits>> {
    let field = &raw.activation_checkpointing.head_logits;
    let head_logits = match field.or(HeadLogitsWord::Auto)? {
        HeadLogitsWord::Auto => None,
        HeadLogitsWord::Keep => Some(HeadLogits::Keep),
        HeadLogitsWord::Recompute => Some(HeadLogits::Recompute),
    };
    if field.is_written() && model.is_some_and(|model| model.gpt().is_none()) {
        field.site.hint(NO_VOCABULARY);
    }
    if head_logits == Some(HeadLogits::Recompute) && schedule.is_some_and(ScheduleConfig::splits_backwards) {
        let rule = "`parallel.schedule` runs weight gradients apart from input gradients, and the head's would wait with all \
             logits' gradients: as much as keeping them";
        let repair = "use \"keep\", or a schedule with whole backwards, such as \"1f1b\"";
        return field.broken("\"recompute\"", rule, repair);
    }
    Some(head_logits)
}

const NO_VOCABULARY: &str = "no effect here: family \"timed\" has no vocabulary";
