//! From the run to checked programs: what ZeRO's level means for weights and gradients.

use std::num::NonZeroU32;

use pipezero_partition::Tying;
use pipezero_schedule::generate::{forward_only, gpipe, one_f_one_b};
use pipezero_schedule::{
    CheckedProgram, ComputeOrder, LowerOptions, Reduction, Residency, UnitFacts, Weights,
};

use super::{PlanError, PlannedUnit};
use crate::config::{ReductionPolicy, ResidencyConfig, Run, ScheduleName, ZeroLevel};

/// The order of compute that the schedule's name stands for.
pub(super) fn order(run: &Run) -> Result<ComputeOrder, PlanError> {
    let (pipeline, micro_batches) = (run.parallel.pipeline as u32, run.batch.num_micro_batches as u32);
    Ok(match run.parallel.schedule {
        ScheduleName::GPipe => gpipe(pipeline, micro_batches)?,
        ScheduleName::OneFOneB => one_f_one_b(pipeline, micro_batches)?,
    })
}

pub(super) fn training(
    run: &Run,
    order: &ComputeOrder,
    units: &[PlannedUnit],
) -> Result<CheckedProgram, PlanError> {
    checked(run, order, units)
}

pub(super) fn evaluation(run: &Run, units: &[PlannedUnit]) -> Result<CheckedProgram, PlanError> {
    let order = forward_only(run.parallel.pipeline as u32, run.batch.num_micro_batches as u32)?;
    checked(run, &order, units)
}

fn checked(run: &Run, order: &ComputeOrder, units: &[PlannedUnit]) -> Result<CheckedProgram, PlanError> {
    let facts: Vec<UnitFacts> = units.iter().map(facts).collect();
    let program = pipezero_schedule::lower(order, &facts, &options(run)?)?;
    Ok(CheckedProgram::new(program)?)
}

fn facts(unit: &PlannedUnit) -> UnitFacts {
    UnitFacts {
        stage: unit.stage,
        forward_reads_weights: true,
        backward_reads_weights: unit.unit.backward_reads_weights(),
        tying: match unit.tying {
            Tying::Untied => pipezero_schedule::Tying::Untied,
            Tying::Embedding => pipezero_schedule::Tying::Embedding,
            Tying::Head => pipezero_schedule::Tying::Head,
        },
    }
}

fn options(run: &Run) -> Result<LowerOptions, PlanError> {
    let zero = &run.zero;
    let weights = match zero.level {
        ZeroLevel::Zero0 | ZeroLevel::Zero1 | ZeroLevel::Zero2 => Weights::Replicated,
        ZeroLevel::Zero3 => Weights::Sharded {
            residency: match zero.resident_units {
                ResidencyConfig::Strict => Residency::Strict,
                ResidencyConfig::Units(units) => {
                    Residency::Units(NonZeroU32::new(units as u32).ok_or(PlanError::NoResidentUnit)?)
                }
            },
            prefetch_units: zero.prefetch_units as u32,
        },
    };
    let reduction = match (zero.level, zero.reduce) {
        (ZeroLevel::Zero0, _) => Reduction::AllReduceLast,
        (_, ReductionPolicy::Last) => Reduction::ScatterLast,
        (_, ReductionPolicy::Every) => Reduction::ScatterEvery,
    };
    let gather_after_step = matches!(zero.level, ZeroLevel::Zero1 | ZeroLevel::Zero2);
    Ok(LowerOptions { weights, reduction, gather_after_step })
}
