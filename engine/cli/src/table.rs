//! Tables with aligned columns: the first to the left, figures to the right.

use std::fmt;
use std::ops::Range;

use pipezero_partition::{Category, RankMemory};
use pipezero_plan::Traffic;

use super::figures::bytes;

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
        let ranks: Vec<_> = ranks.into_iter().collect();
        let columns = MemoryColumns::of(ranks.iter().map(|(_, memory)| memory));
        let mut table = Self::new([title].into_iter().chain(columns.names()));
        for (name, memory) in ranks {
            table.row(name, columns.figures(&memory).map(bytes));
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

/// The columns of a table of memory: that of checkpoints only where there is a copy.
pub(super) struct MemoryColumns {
    has_checkpoint: bool,
}

impl MemoryColumns {
    /// The columns of the memory of these ranks.
    pub(super) fn of<'a>(mut ranks: impl Iterator<Item = &'a RankMemory>) -> Self {
        Self { has_checkpoint: ranks.any(|memory| memory.checkpoint > 0) }
    }

    /// What stands above them.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.shown(RankMemory::NAMES).collect()
    }

    /// What stands in them.
    pub(super) fn figures(&self, memory: &RankMemory) -> impl Iterator<Item = u64> + use<> {
        self.shown(memory.figures())
    }

    fn shown<T>(&self, all: [T; RankMemory::NAMES.len()]) -> impl Iterator<Item = T> + use<T> {
        let has_checkpoint = self.has_checkpoint;
        let is_shown = move |name: &str| has_checkpoint || name != Category::Checkpoint.name();
        all.into_iter().zip(RankMemory::NAMES).filter(move |(_, name)| is_shown(name)).map(|(cell, _)| cell)
    }
}

/// `{table:100}` fits into 100 columns as far as two columns of the table do: those that would go beyond follow below, each part beside
/// the first column.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max())
            .map(|width| width.unwrap_or(0))
            .collect();
        for (index, part) in parts(&widths, f.width().unwrap_or(usize::MAX)).into_iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            for line in lines() {
                let cell = |column: usize| line.get(column).map_or("", String::as_str);
                let mut text = format!("{:<width$}", cell(0), width = widths[0]);
                for column in part.clone() {
                    text.push_str(&format!("  {:>width$}", cell(column), width = widths[column]));
                }
                writeln!(f, "{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

/// Which columns stand beside the first, part by part, in so many characters.
fn parts(widths: &[usize], available: usize) -> Vec<Range<usize>> {
    let Some(name_width) = widths.first() else { return Vec::new() };
    let mut parts = Vec::new();
    let (mut begin, mut used) = (1, *name_width);
    for (column, width) in widths.iter().enumerate().skip(1) {
        if used + 2 + width > available && column > begin {
            parts.push(begin..column);
            (begin, used) = (column, *name_width);
        }
        used += 2 + width;
    }
    parts.push(begin..widths.len());
    parts
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

    #[test]
    fn columns_beyond_the_width_follow_below_beside_the_names() {
        let mut table = Table::new(["rank", "a", "bb", "ccc", "dddd"]);
        table.row("first", ["1", "2", "3", "4"].map(str::to_owned));
        expect![[r"
            rank   a  bb
            first  1   2

            rank   ccc  dddd
            first    3     4
        "]]
        .assert_eq(&format!("{table:16}"));
        // A column that is wider than the screen stands alone.
        assert_eq!(format!("{table:1}").lines().count(), 4 * 2 + 3);
        assert_eq!(format!("{table:24}"), table.to_string());
        assert_eq!(Table::default().to_string(), "");
    }
}
