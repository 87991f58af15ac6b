//! The memory of several plans whose ranks run at once.

use serde::Serialize;

use super::figures::bytes;
use super::table::Table;
use super::task_plans::EnginePlan;
use super::terminal;

/// Bytes that engines need at once.
#[derive(Debug, Serialize)]
pub(super) struct BytesTogether {
    /// Of each rank of the job, with all engines that have it.
    ranks: Vec<u64>,
    /// Of a batch, in the host's memory; left out where no engine computes them for another.
    #[serde(skip_serializing_if = "is_zero")]
    logits: u64,
    /// Of all ranks, and logits.
    all: u64,
}

/// What each engine needs of a rank of the job; 0 where it does not have it.
fn of_rank(plans: &[EnginePlan], rank: usize) -> Vec<u64> {
    let needed = |engine: &EnginePlan| match engine.ranks.contains(&rank) {
        true => engine.bytes_of([rank - engine.ranks.start]),
        false => 0,
    };
    plans.iter().map(needed).collect()
}

fn num_ranks(plans: &[EnginePlan]) -> usize {
    plans.iter().map(|engine| engine.ranks.end).max().unwrap_or(0)
}

fn sum(figures: &[u64]) -> u64 {
    figures.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

/// What each engine takes of the host beside its ranks.
fn logits_of(plans: &[EnginePlan]) -> Vec<u64> {
    plans.iter().map(EnginePlan::logits_bytes).collect()
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// What these engines need together.
pub(super) fn bytes_together(plans: &[EnginePlan]) -> BytesTogether {
    let ranks = (0..num_ranks(plans)).map(|rank| sum(&of_rank(plans, rank))).collect();
    let of_all: Vec<u64> = plans.iter().map(EnginePlan::all_bytes).collect();
    let logits = logits_of(plans);
    BytesTogether { ranks, logits: sum(&logits), all: sum(&of_all) }
}

/// The same with each engine's share; neighbouring ranks with the same figures are one row.
pub(super) fn memory_together(plans: &[EnginePlan], width: usize) -> String {
    let names = plans.iter().map(|engine| engine.engine.name.as_str());
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
    let logits = logits_of(plans);
    if sum(&logits) > 0 {
        table.row("logits of a batch", cells(&logits));
    }
    let of_all: Vec<u64> = plans.iter().map(EnginePlan::all_bytes).collect();
    table.row("all ranks", cells(&of_all));
    let what = "of a rank: what a GPU holds of all engines if each of their ranks has one; of all ranks: what a host holds that has all of them";
    format!("{table:width$}{}\n", terminal::wrapped(what, width))
}
