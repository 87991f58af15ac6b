//! Whether a world is one, and of a program; and that no time in it can overflow.

use super::error::{INSTRUCTIONS_MAX, WorldError};
use super::grid::Grid;
use super::setting::{Ratio, World};
use crate::instruction::Instruction;
use crate::simulate::{Costs, Passage};

/// Everything but whether times fit, for which rates have to be known.
pub(super) fn check(grid: Grid<'_>, costs: &Costs, world: &World) -> Result<(), WorldError> {
    costs.check(grid.program)?;
    if world.data_degree == 0 {
        return Err(WorldError::NoDataRanks);
    }
    let rows = &grid.program.program().rows;
    let num_instructions: u128 = rows.iter().map(|row| row.len() as u128).sum();
    let num_instructions = num_instructions * u128::from(world.data_degree);
    // The numbers of ranks, lanes and messages then fit a `u32`, with room to spare.
    if num_instructions > INSTRUCTIONS_MAX {
        return Err(WorldError::TooManyInstructions { num_instructions });
    }
    if let Some(edges) = &world.far_edges {
        let (num_edges, expected) = (edges.len(), costs.edges.len());
        if num_edges != expected {
            return Err(WorldError::NumFarEdges { num_edges, expected });
        }
    }
    let Ratio { numerator, denominator } = world.slowdown;
    if denominator == 0 || numerator < denominator {
        return Err(WorldError::Slowdown(world.slowdown));
    }
    check_ranks(grid, world)
}

fn check_ranks(grid: Grid<'_>, world: &World) -> Result<(), WorldError> {
    for (&rank, &speed) in &world.speeds {
        if speed.numerator == 0 || speed.denominator == 0 {
            return Err(WorldError::Speed { rank, speed });
        }
        let world_size = grid.world_size();
        if rank as usize >= world_size {
            return Err(WorldError::UnknownRank { rank, world_size });
        }
    }
    if let Some(jitter) = world.jitter
        && jitter.share.denominator == 0
    {
        return Err(WorldError::JitterShare(jitter.share));
    }
    if let Some(cores) = world.cores
        && (cores.ranks_per_host == 0 || cores.num_cores == 0)
    {
        let (ranks_per_host, num_cores) = (cores.ranks_per_host, cores.num_cores);
        return Err(WorldError::EmptyHost { ranks_per_host, num_cores });
    }
    Ok(())
}

/// No end is later than all instructions of one data rank after the other, each on the slowest rank, with the longest
/// delay, while as much is under way as can be: whatever waits for whom, a chain of waits has each instruction once.
pub(super) fn check_times(
    grid: Grid<'_>,
    costs: &Costs,
    world: &World,
    longest: u64,
) -> Result<(), WorldError> {
    let by_itself = |instruction: Instruction| {
        let message = costs.passage(instruction).total().max(far(world, instruction).total());
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
    let slowest = world.speeds.values().map(|speed| speed.denominator.div_ceil(speed.numerator)).max();
    let delay = world.jitter.map_or(0, |jitter| jitter.share.numerator.div_ceil(jitter.share.denominator));
    let factors = [u128::from(slowest.unwrap_or(1)), 1 + u128::from(delay), u128::from(longest)];
    let total = factors.into_iter().fold(alone, u128::saturating_mul);
    if total < u128::from(u64::MAX) { Ok(()) } else { Err(WorldError::TooLong { total }) }
}

/// What a message costs where it is far and that is told apart.
fn far(world: &World, message: Instruction) -> Passage {
    match (message, &world.far_edges) {
        (Instruction::Send { edge, .. } | Instruction::Receive { edge, .. }, Some(edges)) => {
            edges[edge.index()]
        }
        _ => Passage::default(),
    }
}
