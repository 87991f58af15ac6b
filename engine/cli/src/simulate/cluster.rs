//! What differs on a cluster, and what that makes of the step, in words and as JSON.

use pipezero_plan::Plan;
use pipezero_plan::what_if::{Changed, memory_curves};
use pipezero_schedule::simulate::MemoryError;
use pipezero_schedule::simulate::cluster::{Cluster, Computes, Cores, Duplex, Jitter, Ratio, Sharing};
use serde_json::{Value, json};

use super::ranks::rank_json;
use crate::figures::{counted, nanoseconds};

/// What differs, and how much longer the step takes.
pub(super) fn summary(changed: &Changed) -> String {
    let (times, without) = (changed.times(), nanoseconds(changed.without.step_ns()));
    format!("what if: {}: {times:.3} x the step without, {without}\n", describe(&changed.cluster))
}

/// The data rank that the grid, the picture and the critical path show.
pub(super) fn shown_data_rank(changed: &Changed) -> String {
    let num_data_ranks = changed.step.by_data_rank().len();
    if changed.step.is_alike() {
        format!("data rank 0, as all {num_data_ranks}")
    } else {
        format!("data rank {}, the slowest of {num_data_ranks}", changed.step.slowest_data_rank())
    }
}

/// What differs, and how much longer the step takes, as JSON.
pub(super) fn what_if_json(changed: &Changed) -> Value {
    let mut json = differences_json(&changed.cluster);
    json["step_without_s"] = json!(changed.without.step_s());
    json["times_without"] = json!(changed.times());
    json["slowest_data_rank"] = json!(changed.step.slowest_data_rank());
    json
}

/// `[world rank]`, as JSON.
pub(super) fn ranks_json(plan: &Plan, changed: &Changed) -> Result<Value, MemoryError> {
    let grid = plan.grid();
    let steps = changed.step.by_data_rank();
    let curves = steps.iter().map(|step| memory_curves(plan, step)).collect::<Result<Vec<_>, _>>()?;
    let of_rank = |rank: usize| {
        let (pipeline_rank, data_rank) = (grid.pipeline_rank(rank), grid.data_rank(rank));
        let curve = &curves[data_rank][pipeline_rank];
        let mut json = rank_json(pipeline_rank, &steps[data_rank].ranks[pipeline_rank], curve);
        json["rank"] = json!(rank);
        json["data_rank"] = json!(data_rank);
        json
    };
    Ok((0..grid.world_size()).map(of_rank).collect())
}

/// How a cluster differs, in words.
fn describe(cluster: &Cluster) -> String {
    let speeds =
        cluster.speeds.iter().map(|(rank, &speed)| format!("rank {rank} at {} of its speed", decimal(speed)));
    let mut parts: Vec<String> = speeds.collect();
    if let Some(Jitter { seed, share }) = cluster.jitter {
        parts.push(format!("computes up to {} of their time longer (seed {seed})", decimal(share)));
    }
    if cluster.slowdown != Ratio::ONE {
        parts.push(format!("computes {} times as long beside messages", decimal(cluster.slowdown)));
    }
    let ports = |of: &str, duplex: Duplex| match duplex {
        Duplex::Full => format!("messages share {of} ports"),
        Duplex::Half => format!("messages share {of} ports, both ways at once"),
    };
    match cluster.sharing {
        Sharing::RankPort(duplex) => parts.push(ports("their ranks'", duplex)),
        Sharing::NodePort(duplex) => parts.push(ports("their nodes'", duplex)),
        Sharing::Own => {}
    }
    if let Some(Cores { ranks_per_host, num_cores, computes }) = cluster.cores {
        let what = match computes {
            Computes::OccupyCores => "",
            Computes::Elsewhere => ", for messages alone",
        };
        let cores = counted(num_cores as usize, "core");
        parts.push(format!("{cores} for each {}{what}", counted(ranks_per_host as usize, "rank")));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }
}

/// How a cluster differs, as JSON.
fn differences_json(cluster: &Cluster) -> Value {
    let speeds =
        cluster.speeds.iter().map(|(rank, &speed)| json!({ "rank": rank, "factor": decimal(speed) }));
    let (sharing, half_duplex) = match cluster.sharing {
        Sharing::Own => ("own", false),
        Sharing::RankPort(duplex) => ("rank-port", duplex == Duplex::Half),
        Sharing::NodePort(duplex) => ("node-port", duplex == Duplex::Half),
    };
    let jitter =
        cluster.jitter.map(|Jitter { seed, share }| json!({ "share": decimal(share), "seed": seed }));
    let cores = cluster.cores.map(|Cores { ranks_per_host, num_cores, computes }| {
        json!({
            "num_cores": num_cores,
            "ranks_per_host": ranks_per_host,
            "computes_occupy_cores": computes == Computes::OccupyCores,
        })
    });
    json!({
        "speeds": speeds.collect::<Vec<_>>(),
        "jitter": jitter,
        "slowdown": decimal(cluster.slowdown),
        "sharing": sharing,
        "half_duplex": half_duplex,
        "cores": cores,
    })
}

/// The decimal nearest to the quotient, which is the one that was typed.
fn decimal(of: Ratio) -> f64 {
    f64::from(of.numerator) / f64::from(of.denominator)
}
