//! The rank x step grid around a broken rule.

use alloc::string::{String, ToString};
use core::fmt::Write as _;

use crate::id::PipelineRank;
use crate::program::Program;

/// Steps shown before the place.
const STEPS_BEFORE: usize = 4;
/// Steps shown after it.
const STEPS_AFTER: usize = 2;
/// Ranks shown; those nearest to the place.
const RANKS_SHOWN: usize = 4;

/// A line per step, a column per rank, the place marked.
///
/// ```text
///          rank 0      rank 1
/// step 4   F u0 m3     F u1 m1
/// step 5   B u0 m0     B u1 m0  <-- here
/// ```
pub(super) fn excerpt(program: &Program, rank: PipelineRank, step: usize) -> String {
    let num_rows = program.rows.len();
    let first_rank = (rank.index().saturating_sub(RANKS_SHOWN / 2)).min(num_rows.saturating_sub(RANKS_SHOWN));
    let ranks = first_rank..num_rows.min(first_rank + RANKS_SHOWN);
    let steps = step.saturating_sub(STEPS_BEFORE)..=step + STEPS_AFTER;
    let cell = |rank: usize, step: usize| {
        let row = &program.rows[rank];
        match row.get(step) {
            Some(instruction) => instruction.to_string(),
            None if step == row.len() => String::from("(end)"),
            None => String::new(),
        }
    };
    let mut grid = String::new();
    let mut line = |label: &str, cells: &dyn Fn(usize) -> String, mark: &str| {
        let mut text = format!("{label:<9}");
        for rank in ranks.clone() {
            let width = steps.clone().map(|step| cell(rank, step).len()).max().unwrap_or(0).max(7) + 2;
            write!(text, "{:<width$}", cells(rank)).expect("a string takes any text");
        }
        grid.push_str(format!("{}{mark}", text.trim_end()).as_str());
        grid.push('\n');
    };
    line("", &|rank| format!("rank {rank}"), "");
    for shown in steps.clone() {
        if ranks.clone().all(|rank| program.rows[rank].len() < shown) {
            break;
        }
        let mark = if shown == step { format!("   <-- here, rank {}", rank.0) } else { String::new() };
        line(&format!("step {shown}"), &|rank| cell(rank, shown), &mark);
    }
    grid
}
