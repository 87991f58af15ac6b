//! A text's cells with their places, as spreadsheet programs write them too.

use super::action::is;
use super::error::CsvPlace;
use crate::order::StageAction;

/// The rows of a text, and of each the cells with their places, trimmed.
///
/// A byte order mark, either line end, and blank lines after the last row are ignored. A blank line further up is a
/// row: lines number the ranks, and skipping one would renumber all those below it.
pub(super) fn rows(text: &str) -> impl Iterator<Item = impl Iterator<Item = (CsvPlace, &str)>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_end();
    text.lines().enumerate().map(|(row, line)| {
        let cells = line.split(',').enumerate();
        cells.map(move |(column, cell)| (CsvPlace { row: row + 1, column: column + 1 }, cell.trim()))
    })
}

/// Where an action stands first in PyTorch's compute-only CSV; `None` if it is not there.
///
/// For messages about an order that was read with [`crate::ComputeOrder::from_csv`], which keeps the order and not the
/// idle cells: reads the text again.
pub fn csv_place(text: &str, action: StageAction) -> Option<CsvPlace> {
    let mut cells = rows(text).flatten();
    cells.find(|&(_, cell)| is(cell, action)).map(|(place, _)| place)
}
