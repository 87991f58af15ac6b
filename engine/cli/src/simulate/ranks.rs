//! What each rank does in a step, as a table and as JSON.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pipezero_plan::Plan;
use pipezero_plan::costs::{RankStep, Step};
use pipezero_plan::what_if::{ClusterStep, in_use_bytes};
use pipezero_schedule::simulate::{IdleCause, MemoryCurve, MemoryError};
use serde_json::{Map, Value, json};

use crate::figures::{bytes, nanoseconds, seconds};
use crate::table::Table;

/// Cluster ranks that are listed at most; of more ranks, one data rank of each pipeline rank is shown.
const LISTED_MAX: usize = 32;

/// The columns of each rank.
fn columns() -> impl Iterator<Item = &'static str> {
    ["computes"].into_iter().chain(IdleCause::ALL.map(IdleCause::name)).chain([
        "exposed",
        "allocated",
        "in use",
    ])
}

/// A rank as JSON.
pub(super) fn rank_json(pipeline_rank: usize, rank: &RankStep, curve: &MemoryCurve) -> Value {
    let bubble: Map<String, Value> = IdleCause::ALL
        .into_iter()
        .map(|cause| (format!("{}_s", cause.key()), json!(seconds(rank.bubble.of(cause)))))
        .collect();
    json!({
        "pipeline_rank": pipeline_rank,
        "span_s": seconds(rank.span_ns),
        "busy_s": seconds(rank.busy_ns),
        "bubble": bubble,
        "exposed_comm_s": seconds(rank.exposed_comm_ns()),
        "peak_bytes": rank.peak_bytes,
        "peak_used_bytes": curve.peak().1.total(),
    })
}

/// What each pipeline rank does if all data ranks are alike: computing and the causes of its bubble add up to the makespan.
pub(super) fn pipeline_ranks(plan: &Plan, step: &Step) -> Result<Table, MemoryError> {
    let mut table = Table::new(["pipeline rank"].into_iter().chain(columns()));
    for (index, (rank, in_use)) in step.ranks.iter().zip(in_use_bytes(plan, step)?).enumerate() {
        table.row(index.to_string(), cells(rank, in_use));
    }
    Ok(table)
}

/// What each world rank does or, if they are too many, each pipeline rank on its slowest data rank, with a line that says
/// so.
pub(super) fn world_ranks(plan: &Plan, step: &ClusterStep, width: usize) -> Result<String, MemoryError> {
    if step.is_alike() {
        return Ok(format!("{:width$}", pipeline_ranks(plan, step.slowest())?));
    }
    let (data_degree, pipeline_degree) = (step.by_data_rank().len(), step.slowest().ranks.len());
    let all = (0..pipeline_degree).flat_map(|pipeline_rank| {
        step.by_data_rank()
            .iter()
            .enumerate()
            .map(move |(data_rank, of)| (pipeline_rank, data_rank, &of.ranks[pipeline_rank]))
    });
    let slowest = (0..pipeline_degree).map(|pipeline_rank| {
        let (data_rank, rank) = step.slowest_of_pipeline_rank(pipeline_rank);
        (pipeline_rank, data_rank, rank)
    });
    let world_size = data_degree * pipeline_degree;
    let (shown, left_out): (Vec<_>, _) = if world_size <= LISTED_MAX {
        (all.collect(), String::new())
    } else {
        (
            slowest.collect(),
            format!("of {world_size} ranks, each pipeline rank's slowest data rank; --json has all\n"),
        )
    };
    let mut table = Table::new(["rank", "pipeline rank", "data rank"].into_iter().chain(columns()));
    let mut in_use: HashMap<usize, Vec<u64>> = HashMap::new();
    for (pipeline_rank, data_rank, rank) in shown {
        let in_use = match in_use.entry(data_rank) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(in_use_bytes(plan, &step.by_data_rank()[data_rank])?),
        };
        let numbers = [pipeline_rank, data_rank].map(|number| number.to_string());
        let name = (pipeline_rank * data_degree + data_rank).to_string();
        table.row(name, numbers.into_iter().chain(cells(rank, in_use[pipeline_rank])));
    }
    Ok(format!("{left_out}{table:width$}"))
}

fn cells(rank: &RankStep, in_use: u64) -> impl Iterator<Item = String> {
    let causes = IdleCause::ALL.map(|cause| rank.bubble.of(cause));
    let times = [rank.busy_ns].into_iter().chain(causes).chain([rank.exposed_comm_ns()]);
    times.map(nanoseconds).chain([rank.peak_bytes, in_use].map(bytes))
}
