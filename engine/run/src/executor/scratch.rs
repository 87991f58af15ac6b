//! Scratch memory: what commands between steps allocate on a rank. The plan has no line for it.

use pipezero_models::ElementType;
use pipezero_plan::Plan;

/// Elements of a parameter that are made, read or sent to rank 0 at once: 1 MiB in f32. Rank 0 has them twice, in its memory and on the
/// host.
pub(super) const ELEMENTS_AT_ONCE: usize = 1 << 18;

/// The most scratch memory that a rank takes at once: a piece of a unit's parameters in f32; or, where
/// tokens are generated, the logits of a row of each micro-batch on the rank that computes them, and a copy that is sent to rank 0.
pub(crate) fn scratch_bytes(plan: &Plan) -> u64 {
    let largest_unit = plan.units().iter().map(|unit| unit.unit.num_elements()).max().unwrap_or(0);
    let piece = largest_unit.min(ELEMENTS_AT_ONCE);
    let elements = if plan.run().trains() {
        piece
    } else {
        let num_prompts = plan.evaluation().num_micro_batches() as usize;
        piece.max(plan.num_logits().saturating_mul(2).saturating_mul(num_prompts))
    };
    (elements as u64).saturating_mul(ElementType::F32.num_bytes() as u64)
}
