//! Cells to actions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::cells::rows;
use super::error::{CsvError, CsvRule, CsvSite};
use super::{complete, feasible};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::order::{ComputeKind, ComputeOrder, StageAction};

/// Characters of a cell that an error repeats; of a longer cell it repeats both ends.
const SHOWN_CHARACTERS: usize = 40;

/// Characters of either end.
const SHOWN_AT_ENDS: usize = 12;

/// What PyTorch's other forms have in a cell beside compute.
const OTHER_FORMS: [&str; 7] = ["SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE", "OVERLAP_F_B", "("];

impl ComputeOrder {
    /// Reads PyTorch's compute-only pipelining CSV: a row per rank, a cell per action, empty cells for idle steps.
    ///
    /// The placement is read off the rows. A file without any backward is an evaluation. Time and space grow with the
    /// length of the text, whatever numbers it claims.
    ///
    /// A byte order mark, either line end and blank lines after the last row are read as spreadsheet programs write them.
    /// A blank line between rows is an error: lines number the ranks.
    ///
    /// ```
    /// use pipezero_schedule::{ComputeOrder, generate};
    ///
    /// let order = ComputeOrder::from_csv("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n")?;
    /// assert_eq!(order, generate::one_f_one_b(2, 2)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CsvError`] with row, column, cell, rule and repair: what is not an action, a stage on two ranks, a missing or
    /// repeated action, a gap in the numbering, half a backward, half a backward beside a full one, and an order that
    /// cannot run: an action before what it needs, or ranks that wait for each other in a circle.
    pub fn from_csv(text: &str) -> Result<Self, CsvError> {
        // Numbers have no gaps, so none reaches this one; checked before any table is as long as a number says.
        let num_actions = rows(text).flatten().filter(|(_, cell)| !cell.is_empty()).count();
        let mut actions: Vec<Vec<StageAction>> = Vec::new();
        let mut placed = Vec::new();
        for (index, cells) in rows(text).enumerate() {
            let mut row = Vec::new();
            for (place, cell) in cells {
                let fail = |rule| CsvError { site: CsvSite::Cell { place, text: shown(cell) }, rule };
                if let Some(action) = action(cell, num_actions).map_err(fail)? {
                    row.push(action);
                    placed.push((action, place));
                }
            }
            if row.is_empty() {
                let rule = CsvRule::IdleRank(PipelineRank(index as u32));
                return Err(CsvError { site: CsvSite::Row(index + 1), rule });
            }
            actions.push(row);
        }
        if actions.is_empty() {
            return Err(CsvError { site: CsvSite::File, rule: CsvRule::Empty });
        }
        let (placement, num_micro_batches) = complete::check(placed)?;
        let order = Self { placement, num_micro_batches, rows: actions };
        feasible::check(&order, text)?;
        Ok(order)
    }
}

/// Whether a cell is this action.
pub(super) fn is(cell: &str, wanted: StageAction) -> bool {
    action(cell, usize::MAX).is_ok_and(|action| action == Some(wanted))
}

/// The action of a cell, or none if it is idle.
fn action(cell: &str, num_actions: usize) -> Result<Option<StageAction>, CsvRule> {
    if cell.is_empty() {
        return Ok(None);
    }
    let not_an_action = || {
        let is_other = OTHER_FORMS.iter().any(|word| cell.contains(word));
        if is_other { CsvRule::NotComputeOnly } else { CsvRule::NotAnAction }
    };
    let (stage, rest) = number(cell).ok_or_else(not_an_action)?;
    let kind = match rest.chars().next() {
        Some('F') => ComputeKind::Forward,
        Some('B') => ComputeKind::Backward,
        Some('I') => ComputeKind::BackwardInput,
        Some('W') => ComputeKind::BackwardWeight,
        _ => return Err(not_an_action()),
    };
    let Some((micro_batch, "")) = number(&rest[1..]) else { return Err(not_an_action()) };
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

/// A cell as an error repeats it: so that it can be searched for, and nothing in it commands a terminal.
fn shown(cell: &str) -> String {
    let characters: Vec<char> = cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if characters.len() <= SHOWN_CHARACTERS {
        return characters.into_iter().collect();
    }
    let (head, tail) = (&characters[..SHOWN_AT_ENDS], &characters[characters.len() - SHOWN_AT_ENDS..]);
    let [head, tail] = [head, tail].map(|end| end.iter().collect::<String>());
    format!("{head}...{tail} ({} characters)", characters.len())
}
