//! The positions of a picture, in hundredths of a pixel.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::row::Row;

/// Pixels from hundredths.
pub(super) fn hundredths(of: u64) -> String {
    let (whole, rest) = (of / 100, of % 100);
    if rest == 0 { format!("{whole}") } else { format!("{whole}.{rest:02}") }
}

/// More ranks than this are drawn smaller.
const RANKS_LARGE_MAX: usize = 16;

/// What is drawn over time is at least so wide, and at most: browsers open no pictures without end.
const WIDTH_MIN: u64 = 105_000;
const WIDTH_MAX: u64 = 2_000_000;

/// The width of a number of so many digits with a margin.
pub(super) fn label_width(num_digits: usize) -> u64 {
    600 * num_digits as u64 + 200
}

/// The width at which a bar of this duration has space for so many digits; the least where no bar has any.
pub(super) fn width(bar: Option<(u64, usize)>, makespan: u64) -> u64 {
    let Some((duration, num_digits)) = bar else { return WIDTH_MIN };
    let needed = u128::from(label_width(num_digits) + 1) * u128::from(makespan) / u128::from(duration.max(1));
    u64::try_from(needed).unwrap_or(u64::MAX).clamp(WIDTH_MIN, WIDTH_MAX)
}

/// The places of a picture.
pub(super) struct Layout {
    /// Left edge and width of what is drawn over time.
    pub(super) left: u64,
    pub(super) width: u64,
    /// Upper edge of the first rank.
    pub(super) top: u64,
    /// Of the whole picture.
    pub(super) height: u64,
    rows: Vec<Row>,
    num_ranks: usize,
    /// Whether ranks are drawn smaller: thin rows are then too low for their names.
    pub(super) is_small: bool,
    has_memory: bool,
    makespan: u64,
}

impl Layout {
    pub(super) fn new(num_ranks: usize, rows: &[Row], has_memory: bool, makespan: u64, width: u64) -> Self {
        let mut layout = Self {
            left: 13_000,
            width,
            top: 9400,
            height: 0,
            rows: rows.to_vec(),
            num_ranks,
            is_small: num_ranks > RANKS_LARGE_MAX,
            has_memory,
            makespan: makespan.max(1),
        };
        // Space for the note at the bottom.
        layout.height = layout.bottom() + 2400;
        layout
    }

    /// Where a time is.
    pub(super) fn x(&self, time: u64) -> u64 {
        let (time, makespan) = (u128::from(time.min(self.makespan)), u128::from(self.makespan));
        self.left + (time * u128::from(self.width) / makespan) as u64
    }

    pub(super) fn row_height(&self, row: Row) -> u64 {
        match (row, self.is_small) {
            (Row::Compute, false) => 2000,
            (Row::Compute, true) => 1200,
            (_, false) => 800,
            (_, true) => 300,
        }
    }

    /// From the upper edge of a rank to that of one of its rows.
    pub(super) fn row_offset(&self, number: usize) -> u64 {
        self.rows[..number].iter().map(|&row| self.row_height(row) + self.gap()).sum()
    }

    pub(super) fn memory_offset(&self) -> u64 {
        self.row_offset(self.rows.len())
    }

    pub(super) fn memory_height(&self) -> u64 {
        if self.is_small { 1200 } else { 4000 }
    }

    /// Upper edge of a rank.
    pub(super) fn rank_top(&self, rank: usize) -> u64 {
        let memory = if self.has_memory { self.memory_height() + self.gap() } else { 0 };
        let between = if self.is_small { 300 } else { 1000 };
        self.top + rank as u64 * (self.memory_offset() + memory + between)
    }

    /// Lower edge of the last rank.
    pub(super) fn bottom(&self) -> u64 {
        self.rank_top(self.num_ranks)
    }

    fn gap(&self) -> u64 {
        if self.is_small { 50 } else { 150 }
    }
}
