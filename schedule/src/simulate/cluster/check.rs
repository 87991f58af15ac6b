//! Whether a cluster is valid and fits a program, and that no time can overflow.

use super::error::{ClusterError, INSTRUCTIONS_MAX};
use super::grid::Grid;
use super::setting::{Cluster, Ratio};
use crate::instruction::Instruction;
use crate::simulate::{Costs, Listed, MessageCost, WrongLength};

/// Checks everything but whether times fit, for which [`check_times`] needs the rates.
pub(super) fn check(grid: Grid<'_>, costs: &Costs, cluster: &Cluster) -> Result<(), ClusterError> {
    costs.check(grid.program)?;
    if cluster.data_degree == 0 {
        return Err(ClusterError::NoDataRanks);
    }
    let rows = &grid.program.program().rows;
    let num_instructions: u128 = rows.iter().map(|row| row.len() as u128).sum();
    let num_instructions = num_instructions * u128::from(cluster.data_degree);
    // The numbers of ranks, lanes and messages then fit a `u32`, with some to spare.
    if num_instructions > INSTRUCTIONS_MAX {
        return Err(ClusterError::TooManyInstructions { num_instructions });
    }
    if let Some(edges) = &cluster.far_edges {
        WrongLength::check("far costs", Listed::Edges, edges.len(), grid.program)
            .map_err(ClusterError::FarEdges)?;
    }
    let Ratio { numerator, denominator } = cluster.slowdown;
    if denominator == 0 || numerator < denominator {
        return Err(ClusterError::Slowdown(cluster.slowdown));
    }
    for (&rank, &speed) in &cluster.speeds {
        if speed.numerator == 0 || speed.denominator == 0 {
            return Err(ClusterError::Speed { rank, speed });
        }
        let world_size = grid.world_size();
        if rank as usize >= world_size {
            return Err(ClusterError::UnknownRank { rank, world_size });
        }
    }
    if let Some(jitter) = cluster.jitter
        && jitter.share.denominator == 0
    {
        return Err(ClusterError::JitterShare(jitter.share));
    }
    if let Some(cores) = cluster.cores
        && (cores.ranks_per_host == 0 || cores.num_cores == 0)
    {
        return Err(ClusterError::EmptyHost(cores));
    }
    Ok(())
}

/// No end is later than all instructions of one data rank after the other, each on the slowest rank, with the longest
/// delay, while as much is under way as can be: every chain of waits has each instruction at most once.
pub(super) fn check_times(
    grid: Grid<'_>,
    costs: &Costs,
    cluster: &Cluster,
    longest: u64,
) -> Result<(), ClusterError> {
    let by_itself = |instruction: Instruction| {
        let message = costs.message(instruction).total().max(far(cluster, instruction).total());
        u128::from(costs.compute(instruction)) + message
    };
    let mut alone: u128 = 0;
    for rank in grid.program.ranks() {
        alone = alone.saturating_add(u128::from(costs.own_norm(grid.program, rank)));
        for &instruction in grid.program.row(rank) {
            // Four ends of an instruction at most are rounded to the next tick.
            alone = alone.saturating_add(by_itself(instruction) + 4);
        }
    }
    let slowest = cluster.speeds.values().map(|speed| speed.denominator.div_ceil(speed.numerator)).max();
    let delay = cluster.jitter.map_or(0, |jitter| jitter.share.numerator.div_ceil(jitter.share.denominator));
    let factors = [u128::from(slowest.unwrap_or(1)), 1 + u128::from(delay), u128::from(longest)];
    let total = factors.into_iter().fold(alone, u128::saturating_mul);
    if total < u128::from(u64::MAX) { Ok(()) } else { Err(ClusterError::TooLong { total }) }
}

/// What a message costs between nodes, if the cluster has costs of its own for that.
fn far(cluster: &Cluster, message: Instruction) -> MessageCost {
    match (message, &cluster.far_edges) {
        (Instruction::Send { edge, .. } | Instruction::Receive { edge, .. }, Some(edges)) => {
            edges[edge.index()]
        }
        _ => MessageCost::default(),
    }
}
