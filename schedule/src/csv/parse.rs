//! Cells to actions.

use alloc::string::String;
use alloc::vec::Vec;

use super::complete;
use super::error::{CsvError, CsvPlace, CsvRule};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::order::{ComputeKind, ComputeOrder, StageAction};

/// Characters of a cell that an error repeats.
const SHOWN_CHARACTERS: usize = 24;

/// What PyTorch's other forms have in a cell beside compute.
const OTHER_FORMS: [&str; 8] =
    ["SEND_", "RECV_", "UNSHARD", "RESHARD", "REDUCE_GRAD", "OVERLAP_F_B", "(", "REDUCE"];

impl ComputeOrder {
    /// Reads PyTorch's compute-only pipelining CSV: a line per rank, a cell per action, empty cells for idle steps.
    ///
    /// The placement is read off the lines. A file without any backward is an evaluation. Whether the order can run is
    /// not asked here; [`fn@crate::lower`] and [`crate::CheckedProgram`] find out. Time and space grow with the length of
    /// the text, whatever numbers it claims.
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
    /// repeated action, a gap in the numbering, half a backward, or half a backward beside a full one.
    pub fn from_csv(text: &str) -> Result<Self, CsvError> {
        // Numbers have no gaps, so none reaches this one; checked before any table is as long as a number says.
        let num_actions =
            text.lines().flat_map(|line| line.split(',')).filter(|of| !of.trim().is_empty()).count();
        let mut rows: Vec<Vec<StageAction>> = Vec::new();
        let mut placed = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut row = Vec::new();
            for (column, cell) in line.split(',').enumerate() {
                let place = CsvPlace { row: index + 1, column: column + 1 };
                let fail = |rule| CsvError { place, cell: shown(cell.trim()), rule };
                if let Some(action) = action(cell.trim(), num_actions).map_err(fail)? {
                    row.push(action);
                    placed.push((action, place));
                }
            }
            if row.is_empty() {
                let rule = CsvRule::IdleRank(PipelineRank(index as u32));
                return Err(CsvError {
                    place: CsvPlace { row: index + 1, column: 1 },
                    cell: String::new(),
                    rule,
                });
            }
            rows.push(row);
        }
        if rows.is_empty() {
            let place = CsvPlace { row: 1, column: 1 };
            return Err(CsvError { place, cell: String::new(), rule: CsvRule::Empty });
        }
        let (placement, num_micro_batches) = complete::check(placed, rows.len())?;
        Ok(Self { placement, num_micro_batches, rows })
    }
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

/// A cell as an error repeats it.
fn shown(cell: &str) -> String {
    let mut shown: String = cell.chars().take(SHOWN_CHARACTERS).collect();
    if shown.len() < cell.len() {
        shown.push_str("...");
    }
    shown
}
