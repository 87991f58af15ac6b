//! The action of a cell.

use super::error::CsvRule;
use crate::id::{MicroBatch, Stage};
use crate::order::{ComputeKind, StageAction};

/// What PyTorch's other forms have in a cell beside compute.
const OTHER_FORMS: [&str; 7] = ["SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE", "OVERLAP_F_B", "("];

/// Whether a cell is this action.
pub(super) fn is(cell: &str, wanted: StageAction) -> bool {
    action(cell, usize::MAX).is_ok_and(|action| action == Some(wanted))
}

/// The action of a cell, or none if it is idle.
pub(super) fn action(cell: &str, num_actions: usize) -> Result<Option<StageAction>, CsvRule> {
    if cell.is_empty() {
        return Ok(None);
    }
    let not_an_action = || {
        let is_other = OTHER_FORMS.iter().any(|word| cell.contains(word));
        if is_other { CsvRule::NotComputeOnly } else { CsvRule::NotAnAction }
    };
    let (stage, rest) = number(cell).ok_or_else(not_an_action)?;
    let of_kind = |kind: ComputeKind| Some((kind, rest.strip_prefix(kind.letter())?));
    let (kind, rest) = ComputeKind::ALL.into_iter().find_map(of_kind).ok_or_else(not_an_action)?;
    let Some((micro_batch, "")) = number(rest) else { return Err(not_an_action()) };
    let small = |number: u64| match u32::try_from(number) {
        Ok(small) if number < num_actions as u64 => Ok(small),
        _ => Err(CsvRule::NumberTooLarge { number, num_actions }),
    };
    Ok(Some(StageAction { kind, stage: Stage(small(stage)?), micro_batch: MicroBatch(small(micro_batch)?) }))
}

/// The digits that a text begins with, as a number (the largest, if it is larger), and what follows them.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty()).then(|| (digits.parse().unwrap_or(u64::MAX), rest))
}
