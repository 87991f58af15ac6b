//! Tables with aligned columns: the first to the left, figures to the right.

use std::fmt;

use pipezero_partition::RankMemory;

use super::figures::bytes;
use crate::plan::Traffic;

/// A table under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns; the first is aligned to the left, all others to the right.
    pub(super) fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { header: header.into_iter().map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Adds a row, which begins with its name; missing cells stay empty.
    pub(super) fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        self.rows.push(std::iter::once(name.into()).chain(cells).collect());
    }

    /// The bytes that ranks hold, by category.
    pub(super) fn of_memory(title: &str, ranks: impl IntoIterator<Item = (String, RankMemory)>) -> Self {
        let mut table = Self::new([title].into_iter().chain(RankMemory::NAMES));
        for (name, memory) in ranks {
            table.row(name, memory.figures().map(bytes));
        }
        table
    }

    /// What ranks send in a step.
    pub(super) fn of_traffic(title: &str, ranks: impl IntoIterator<Item = (String, Traffic)>) -> Self {
        let mut table = Self::new([title, "all-gather", "reduce-scatter", "all-reduce", "send"]);
        for (name, Traffic { all_gather, reduce_scatter, all_reduce, send }) in ranks {
            let kinds = [all_gather, reduce_scatter, all_reduce, send];
            table.row(name, kinds.map(|kind| format!("{} x, {}", kind.count, bytes(kind.bytes))));
        }
        table
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max())
            .map(|width| width.unwrap_or(0))
            .collect();
        for line in lines() {
            let mut text = String::new();
            for (column, &width) in widths.iter().enumerate() {
                let cell = line.get(column).map_or("", String::as_str);
                let cell = if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
                text.push_str(&cell);
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use expect_test::expect;

    #[test]
    fn columns_line_up_whatever_their_width() {
        let mut table = Table::new(["rank", "parameters", "peak"]);
        table.row("0", ["1.5 MiB".to_owned(), "9 B".to_owned()]);
        table.row("measured", ["2 B".to_owned()]);
        expect![[r"
            rank      parameters  peak
            0            1.5 MiB   9 B
            measured         2 B
        "]]
        .assert_eq(&table.to_string());
    }
}
