//! Compute orders from CSV.

use alloc::string::String;
use alloc::vec::Vec;

use super::action::action;
use super::cells::rows;
use super::error::{CsvError, CsvRule, CsvSite};
use super::{complete, feasible};
use crate::id::PipelineRank;
use crate::order::{ComputeOrder, StageAction};

/// Characters of a cell that an error quotes; of a longer cell it quotes both ends.
const SHOWN_CHARACTERS: usize = 40;

/// Characters of either end.
const SHOWN_AT_ENDS: usize = 12;

impl ComputeOrder {
    /// Reads PyTorch's compute-only pipelining CSV: a row per rank, a cell per action, empty cells for idle steps.
    ///
    /// The placement is read off the rows. A file without any backward is an evaluation. Time and space grow with the
    /// length of the text, not with the numbers in it.
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
    /// cannot run: an action before what it needs, or ranks that wait for each other in a cycle.
    pub fn from_csv(text: &str) -> Result<Self, CsvError> {
        // Numbers have no gaps, so all are below this one; checked before any table is sized by them.
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

/// A cell as an error quotes it: searchable, and without control characters.
fn shown(cell: &str) -> String {
    let characters: Vec<char> = cell.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if characters.len() <= SHOWN_CHARACTERS {
        return characters.into_iter().collect();
    }
    let (head, tail) = (&characters[..SHOWN_AT_ENDS], &characters[characters.len() - SHOWN_AT_ENDS..]);
    let [head, tail] = [head, tail].map(|end| end.iter().collect::<String>());
    format!("{head}...{tail} ({} characters)", characters.len())
}
