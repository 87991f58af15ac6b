//! What the buffers of a plan take, for the simulator's memory over time.
//!
//! The executor allocates everything before the first step; what a curve shows is how much of that is in use. Its peak is at
//! most what the plan says, and what the plan says is what is allocated.

use pipezero_schedule::Unit;
use pipezero_schedule::simulate::{MemoryBytes, MemoryCategory, MemoryCosts, UnitMemory};

use super::messages::{GRADIENT_BYTES, edge_bytes};
use crate::{Plan, PlannedUnit, RankSizes, Reduced};
use pipezero_partition::RankMemory;

/// The sizes of a plan's buffers: those that come and go with the program, and what is held all step.
pub fn memory_costs(plan: &Plan) -> MemoryCosts {
    let element_bytes = plan.element_type().num_bytes() as u64;
    let units = plan.units().iter().enumerate().map(|(index, unit)| {
        // A slot has the stage's output beside what its units save.
        let is_last = plan.units().get(index + 1).is_none_or(|next| next.stage != unit.stage);
        let output = if is_last { unit.sizes.output } else { 0 };
        UnitMemory {
            saved_bytes: element_bytes * (unit.sizes.saved + output) as u64,
            weight_input_bytes: element_bytes * unit.sizes.weight_inputs as u64,
            gradient_bytes: (GRADIENT_BYTES * unreduced_len(plan, unit)) as u64,
        }
    });
    let (grid, forecast) = (plan.grid(), plan.forecast());
    let fixed = plan.training().ranks().map(|rank| {
        let sizes = plan.sizes(rank);
        fixed(&forecast[grid.rank(rank.index(), 0)].memory, &sizes, element_bytes)
    });
    let message_bytes = plan.training().chain().edges().map(|edge| edge_bytes(plan, edge)).collect();
    MemoryCosts { units: units.collect(), message_bytes, fixed: fixed.collect() }
}

/// Elements of a unit's gradient that lie in a buffer of their own until they are reduced.
fn unreduced_len(plan: &Plan, unit: &PlannedUnit) -> usize {
    let parts = unit.parts.iter().filter(|part| part.reduced(&plan.run().zero) == Reduced::Every);
    parts.map(|part| part.layout.padded_len()).sum()
}

/// What of a rank's memory does not come and go.
fn fixed(planned: &RankMemory, sizes: &RankSizes, element_bytes: u64) -> MemoryBytes {
    let sum = |of: &[(Unit, usize)]| of.iter().map(|&(_, len)| len as u64).sum::<u64>();
    let slots = sizes.stages.iter().map(|stage| {
        let slot = sum(&stage.saved) + stage.output_len as u64;
        stage.num_slots as u64 * slot + stage.num_weight_input_buffers as u64 * sum(&stage.weight_inputs)
    });
    let fresh_gradients = (GRADIENT_BYTES * sizes.gradient_buffers.iter().flatten().sum::<usize>()) as u64;
    let mut fixed = MemoryBytes::default();
    fixed[MemoryCategory::Parameters] = planned.parameters;
    fixed[MemoryCategory::Optimizer] = planned.optimizer;
    fixed[MemoryCategory::Checkpoint] = planned.checkpoint;
    fixed[MemoryCategory::Gradients] = planned.gradients - fresh_gradients;
    fixed[MemoryCategory::Activations] = planned.activations - element_bytes * slots.sum::<u64>();
    fixed
}
