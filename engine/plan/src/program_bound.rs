//! The longest step that is planned: whoever asks for a plan has an answer, or a refusal, within seconds.
//!
//! The instructions of a step are counted before any program is made, from the order of compute and the units, so a run that is too
//! long costs nothing. A plan takes about a microsecond and a hundred bytes for each instruction. ZeRO-3 is planned several times: with
//! the fewest resident units, with those that fit, and beside ZeRO-1. Rejected: a limit of time, with which a plan would depend on the
//! machine that makes it.

use pipezero_config::{Run, ZeroLevel};
use pipezero_schedule::{ComputeKind, ComputeOrder};

use super::{PlanError, PlannedUnit};

/// Instructions of a step that are planned at most: 3 seconds on one core, and 300 MiB.
const MAX_INSTRUCTIONS: u64 = 2_500_000;

/// The same where weights are sharded.
const MAX_SHARDED_INSTRUCTIONS: u64 = 600_000;

/// Refuses a run whose step is too long.
///
/// # Errors
/// [`PlanError::StepTooLong`].
pub(super) fn check(run: &Run, order: &ComputeOrder, units: &[PlannedUnit]) -> Result<(), PlanError> {
    let is_sharded = run.zero.level == ZeroLevel::Zero3 && run.parallel.data > 1;
    let (max, limited) = match is_sharded {
        true => (MAX_SHARDED_INSTRUCTIONS, " under ZeRO-3"),
        false => (MAX_INSTRUCTIONS, ""),
    };
    let found = num_instructions(order, units, is_sharded);
    if found <= max {
        return Ok(());
    }
    let num_micro_batches = run.batch.num_micro_batches;
    let fitting = (max.saturating_mul(num_micro_batches as u64) / found) as usize;
    Err(PlanError::StepTooLong { found, max, limited, num_micro_batches, fitting })
}

/// About as many instructions as a step has on all pipeline ranks together: computes, the gathers and reductions around them, and
/// messages.
fn num_instructions(order: &ComputeOrder, units: &[PlannedUnit], is_sharded: bool) -> u64 {
    let ranks = order.placement.ranks_by_stage();
    let mut units_of_stage = vec![0_u64; ranks.len()];
    for unit in units {
        units_of_stage[unit.stage.index()] += 1;
    }
    let of_compute = |kind| match (kind, is_sharded) {
        (_, false) => 1,
        // It is gathered and freed.
        (ComputeKind::Forward | ComputeKind::BackwardInput, true) => 3,
        // And its gradient is reduced.
        (ComputeKind::Backward | ComputeKind::BackwardWeight, true) => 4,
    };
    let actions = order.rows.iter().flatten();
    let computes = actions.fold(0_u64, |sum, action| {
        sum.saturating_add(of_compute(action.kind) * units_of_stage[action.stage.index()])
    });
    let num_edges = ranks.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    // An activation and a gradient, each sent and received.
    computes.saturating_add(4 * num_edges * u64::from(order.num_micro_batches))
}
