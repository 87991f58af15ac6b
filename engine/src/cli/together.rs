//! The memory of several plans whose ranks run at once.

use pipezero_partition::Purpose;
use serde::Serialize;

use super::figures::bytes;
use super::table::Table;
use super::terminal;
use crate::plan::Plan;

/// Bytes that engines need at once.
#[derive(Debug, Serialize)]
pub(super) struct BytesTogether {
    /// Of all engines' ranks of each number.
    ranks: Vec<u64>,
    /// Of all ranks.
    all: u64,
}

/// What each engine's rank of this number needs; 0 where it has none.
fn of_rank(plans: &[(String, Plan)], rank: usize) -> Vec<u64> {
    let needed = |plan: &Plan| match rank < plan.grid().world_size() {
        true => plan.needed_bytes(Purpose::Training, [rank]),
        false => 0,
    };
    plans.iter().map(|(_, plan)| needed(plan)).collect()
}

fn num_ranks(plans: &[(String, Plan)]) -> usize {
    plans.iter().map(|(_, plan)| plan.grid().world_size()).max().unwrap_or(0)
}

fn sum(figures: &[u64]) -> u64 {
    figures.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// What these engines need together.
pub(super) fn bytes_together(plans: &[(String, Plan)]) -> BytesTogether {
    let ranks = (0..num_ranks(plans)).map(|rank| sum(&of_rank(plans, rank))).collect();
    let of_all: Vec<u64> = plans.iter().map(|(_, plan)| plan.needs().world_bytes).collect();
    BytesTogether { ranks, all: sum(&of_all) }
}

/// The same with each engine's share; neighbouring ranks with the same figures are one row.
pub(super) fn memory_together(plans: &[(String, Plan)], width: usize) -> String {
    let names = plans.iter().map(|(name, _)| name.as_str());
    let mut table = Table::new(["peak memory together"].into_iter().chain(names).chain(["together"]));
    let figures: Vec<Vec<u64>> = (0..num_ranks(plans)).map(|rank| of_rank(plans, rank)).collect();
    let cells = |of: &[u64]| {
        let share = |&share: &u64| if share == 0 { "-".to_owned() } else { bytes(share) };
        of.iter().map(share).chain([bytes(sum(of))]).collect::<Vec<_>>()
    };
    let mut first = 0;
    for alike in figures.chunk_by(|one, next| one == next) {
        let last = first + alike.len() - 1;
        let name =
            if first == last { format!("rank {first}") } else { format!("each of ranks {first}-{last}") };
        table.row(name, cells(&alike[0]));
        first = last + 1;
    }
    let of_all: Vec<u64> = plans.iter().map(|(_, plan)| plan.needs().world_bytes).collect();
    table.row("all ranks", cells(&of_all));
    let what = "of a rank: what a GPU holds of all engines if each of their ranks has one; of all ranks: what a host holds that has all of them";
    format!("{table:width$}{}\n", terminal::wrapped(what, width))
}
