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

#[cfg(test)]
mod tests {
    use pipezero_config::{Resources, RunFile};

    use super::*;
    use crate::Plan;
    use crate::testing::{GPT2, plan};

    /// Programs gather less often than is counted where units stay resident, and have a few instructions at their end.
    #[test]
    fn what_is_counted_is_near_what_is_made() {
        for changes in [
            "parallel.pipeline=1 parallel.data=1 zero_optimization.stage=1 gradient_accumulation_steps=32",
            "parallel.data=1 zero_optimization.stage=1 gradient_accumulation_steps=32",
            "parallel.data=1 zero_optimization.stage=1 parallel.schedule=\"zb-h1\" gradient_accumulation_steps=32",
            "parallel.pipeline=1 gradient_accumulation_steps=32",
            "gradient_accumulation_steps=32 zero_optimization.resident_units=\"strict\"",
        ] {
            let plan = plan(GPT2, changes);
            let is_sharded = plan.run().zero.level == ZeroLevel::Zero3;
            let counted = num_instructions(plan.order(), plan.units(), is_sharded);
            let made = plan.num_instructions() as u64;
            assert!(
                made <= counted + 64 && counted <= 2 * made,
                "{changes}: {counted} are counted, {made} made"
            );
        }
    }

    #[test]
    fn a_step_that_is_too_long_is_refused_with_the_number_of_micro_batches_that_fits() {
        let num_micro_batches = 400_000;
        let changes = ["parallel.data=1", "zero_optimization.stage=1", "gradient_accumulation_steps=400000"];
        let file = RunFile::parse("run.json", GPT2).unwrap().set(&changes.map(str::to_owned)).unwrap();
        let (run, _) = file.resolve(Resources::this_host()).unwrap();
        let error = Plan::new(run).unwrap_err();
        let PlanError::StepTooLong { found, max, fitting, .. } = error else { panic!("{error}") };
        // Each unit forward and backward, and four ends of messages.
        let num_units = plan(GPT2, "parallel.data=1 zero_optimization.stage=1").units().len() as u64;
        let of_micro_batch = 2 * num_units + 4;
        assert_eq!((found, max), (num_micro_batches * of_micro_batch, MAX_INSTRUCTIONS));
        assert_eq!(fitting as u64, max / of_micro_batch);
    }
}
