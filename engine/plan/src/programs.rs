//! From the run to checked programs: which schedule the name stands for, and what ZeRO's level means for weights and
//! gradients.

use std::num::NonZeroU32;

use pipezero_config::{OverlapComm, ReductionPolicy, ResidencyConfig, Run, ScheduleConfig, ZeroLevel};
use pipezero_partition::{Tying, UnitSharding};
use pipezero_schedule::generate::{
    bfs, eager_1f1b, forward_only_on, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v,
};
use pipezero_schedule::{
    CheckedProgram, ComputeOrder, LowerError, LowerOptions, OptionsError, Reduction, Residency, UnitFacts,
    UnreducedGradients, Weights,
};

use super::PlanError;
use super::element_types::ElementTypes;
use super::unit::PlannedUnit;

/// The order of compute that the schedule stands for.
pub(super) fn order(run: &Run) -> Result<ComputeOrder, PlanError> {
    let (pipeline, micro_batches) = (run.parallel.pipeline as u32, run.batch.num_micro_batches as u32);
    let virtual_stages = run.parallel.virtual_stages as u32;
    Ok(match &run.parallel.schedule {
        ScheduleConfig::GPipe => gpipe(pipeline, micro_batches)?,
        ScheduleConfig::OneFOneB => one_f_one_b(pipeline, micro_batches)?,
        ScheduleConfig::EagerOneFOneB => eager_1f1b(pipeline, micro_batches)?,
        ScheduleConfig::Interleaved { group_size } => {
            let group_size = u32::try_from(*group_size).unwrap_or(u32::MAX);
            interleaved(pipeline, virtual_stages, micro_batches, group_size)?
        }
        ScheduleConfig::Bfs => bfs(pipeline, virtual_stages, micro_batches)?,
        ScheduleConfig::ZbH1 => zb_h1(pipeline, micro_batches)?,
        ScheduleConfig::ZbH2 => zb_h2(pipeline, micro_batches)?,
        ScheduleConfig::ZbV => zb_v(pipeline, micro_batches)?,
        ScheduleConfig::File { order, .. } => {
            let found = [order.placement.num_ranks(), order.num_micro_batches as usize];
            let wanted = [run.parallel.pipeline, run.batch.num_micro_batches];
            if found != wanted {
                return Err(PlanError::ScheduleOfAnotherRun { found, wanted });
            }
            order.as_ref().clone()
        }
    })
}

/// The program of a training step, and that of an evaluation of one batch.
pub(super) fn both(
    run: &Run,
    order: &ComputeOrder,
    units: &[PlannedUnit],
) -> Result<(CheckedProgram, CheckedProgram), PlanError> {
    let evaluation = forward_only_on(&order.placement, run.batch.num_micro_batches as u32)?;
    Ok((checked(run, order, units)?, checked(run, &evaluation, units)?))
}

/// The program of an order.
fn checked(run: &Run, order: &ComputeOrder, units: &[PlannedUnit]) -> Result<CheckedProgram, PlanError> {
    let parameter_bytes = ElementTypes::of(&run.precision).parameter.num_bytes() as u64;
    let facts: Vec<UnitFacts> = units.iter().map(|unit| facts(unit, parameter_bytes)).collect();
    let program = pipezero_schedule::lower(order, &facts, &options(run)?)?;
    Ok(CheckedProgram::new(program)?)
}

fn facts(unit: &PlannedUnit, parameter_bytes: u64) -> UnitFacts {
    use pipezero_schedule::UnitSharding as Facts;
    // Of a unit that is wholly frozen all count; of others what is trained, and what is gathered beside it.
    let bytes_of = |kind, is_frozen| {
        let parts = unit.parts.iter().filter(|part| part.sharding == kind && part.is_frozen == is_frozen);
        parameter_bytes * parts.map(|part| part.layout.padded_len() as u64).sum::<u64>()
    };
    let [sharded, persistent_bytes, whole_bytes] =
        UnitSharding::ALL.map(|kind| bytes_of(kind, unit.is_frozen));
    let frozen_bytes = if unit.is_frozen { 0 } else { bytes_of(UnitSharding::Sharded, true) };
    let gathered_bytes = sharded + frozen_bytes;
    let (sharding, num_bytes) = match [gathered_bytes, persistent_bytes, whole_bytes] {
        [_, 0, 0] => (Facts::Sharded, gathered_bytes),
        [0, _, 0] => (Facts::Persistent, persistent_bytes),
        [0, 0, _] => (Facts::Whole, whole_bytes),
        _ => (Facts::Mixed { persistent_bytes, whole_bytes }, gathered_bytes),
    };
    UnitFacts {
        backward_reads_weights: unit.has_backward
            && match unit.is_sharded() && unit.parts.len() > 1 {
                true => unit.gathered_parts().any(|part| unit.unit.backward_reads(part)),
                false => unit.unit.backward_reads_weights(),
            },
        tying: match unit.tying {
            Tying::Untied => pipezero_schedule::Tying::Untied,
            Tying::Embedding => pipezero_schedule::Tying::Embedding,
            Tying::Head => pipezero_schedule::Tying::Head,
        },
        sharding,
        recomputes: unit.has_backward && unit.sizes.recompute > 0,
        frozen_bytes,
        is_frozen: unit.is_frozen,
        ..UnitFacts::new(unit.stage, num_bytes)
    }
}

fn options(run: &Run) -> Result<LowerOptions, PlanError> {
    let zero = &run.zero;
    let reduction = match (zero.level, zero.reduce) {
        (ZeroLevel::Zero0, _) => Reduction::AllReduceLast,
        (_, ReductionPolicy::Last) => Reduction::ScatterLast,
        (_, ReductionPolicy::Every) => Reduction::ScatterEvery,
    };
    let gather_after_step = matches!(zero.level, ZeroLevel::Zero1 | ZeroLevel::Zero2);
    Ok(LowerOptions { weights: weights(run)?, reduction, unreduced: unreduced(run), gather_after_step })
}

/// How many gradients that are reduced after every micro-batch a rank holds unreduced.
pub(super) fn unreduced(run: &Run) -> UnreducedGradients {
    match (run.zero.reduce, run.zero.overlap_comm) {
        (ReductionPolicy::Every, OverlapComm::False) => UnreducedGradients::One,
        _ => UnreducedGradients::Two,
    }
}

/// Where weights are between uses.
pub(super) fn weights(run: &Run) -> Result<Weights, PlanError> {
    let zero = &run.zero;
    Ok(match zero.level {
        ZeroLevel::Zero0 | ZeroLevel::Zero1 | ZeroLevel::Zero2 => Weights::Replicated,
        ZeroLevel::Zero3 => Weights::Sharded {
            residency: match &zero.resident_units {
                ResidencyConfig::Strict => Residency::Strict,
                ResidencyConfig::Units(units) => Residency::Units(resident_units(*units)?),
                ResidencyConfig::PerRank(units) => {
                    let (num_budgets, num_ranks) = (units.len(), run.parallel.pipeline);
                    if num_budgets != num_ranks {
                        let error = OptionsError::NumBudgets { num_budgets, num_ranks };
                        return Err(LowerError::Options(error).into());
                    }
                    let units: Result<_, _> = units.iter().map(|&units| resident_units(units)).collect();
                    Residency::PerRank(units?)
                }
                ResidencyConfig::All => Residency::All,
                ResidencyConfig::Level | ResidencyConfig::Auto => {
                    unreachable!("the plan resolves `level` and `auto` before it makes programs")
                }
            },
            prefetch_units: u32::try_from(zero.prefetch_units).unwrap_or(u32::MAX),
        },
    })
}

fn resident_units(units: usize) -> Result<NonZeroU32, PlanError> {
    NonZeroU32::new(u32::try_from(units).unwrap_or(u32::MAX)).ok_or(PlanError::NoResidentUnit)
}
