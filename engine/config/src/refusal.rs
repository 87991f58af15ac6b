//! A combination of ZeRO and pipeline that is refused, and the table of costs that is shown with it.

use std::fmt;

/// Why a combination is refused, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule, in words that users search for.
    pub headline: String,
    /// Why.
    pub reason: String,
    /// What to write instead; where there is a table, the one that needs the fewest bytes comes first.
    pub repairs: Vec<String>,
    /// What the combination would cost in this run, beside those that are allowed. It needs a plan, and so a run
    /// without other mistakes.
    pub table: Option<CombinationTable>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.headline, self.reason, self.repair())?;
        self.table.iter().try_for_each(|table| write!(f, "\n\n{table}"))
    }
}

impl Refusal {
    /// What to write instead, as the end of a sentence.
    pub fn repair(&self) -> String {
        format!("write {}", self.repairs.join(", or "))
    }
}

/// The costs of a refused combination and of those that may stand in for it, a row each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombinationTable {
    /// The refused one first.
    pub rows: Vec<CombinationRow>,
}

/// Bytes of the fullest rank, counted from the program that the combination would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombinationRow {
    /// The combination in words.
    pub name: String,
    /// Parameters at rest.
    pub parameters_bytes: u128,
    /// Gathered copies of parameters.
    pub gathered_bytes: u128,
    /// Gradients.
    pub gradients_bytes: u128,
    /// Optimizer state.
    pub optimizer_bytes: u128,
    /// Sent to the other data ranks in a step.
    pub sent_bytes: u128,
}

impl CombinationTable {
    /// The names of its columns.
    pub const COLUMNS: [&str; 7] =
        ["per rank", "parameters", "gathered", "gradients", "optimizer", "total", "sent per step"];
}

impl fmt::Display for CombinationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cells = vec![Self::COLUMNS.map(str::to_owned)];
        cells.extend(self.rows.iter().map(CombinationRow::cells));
        let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..Self::COLUMNS.len()).map(width).collect();
        for (i, row) in cells.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "  {:<1$}", row[0], widths[0])?;
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
        }
        Ok(())
    }
}

impl CombinationRow {
    /// What the rank holds in all.
    pub fn total_bytes(&self) -> u128 {
        let held = [self.parameters_bytes, self.gathered_bytes, self.gradients_bytes, self.optimizer_bytes];
        held.into_iter().fold(0, u128::saturating_add)
    }

    /// Its cells as text, a column each.
    pub fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            bytes(self.parameters_bytes),
            bytes(self.gathered_bytes),
            bytes(self.gradients_bytes),
            bytes(self.optimizer_bytes),
            bytes(self.total_bytes()),
            bytes(self.sent_bytes),
        ]
    }
}

/// Bytes in the largest unit that leaves at least 1.
fn bytes(count: u128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
