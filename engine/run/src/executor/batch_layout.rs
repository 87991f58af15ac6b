//! How a plan's ranks share a batch.

use pipezero_plan::Plan;

use crate::data::BatchLayout;

/// The sizes of a plan's batches, and how data ranks share them.
pub fn batch_layout(plan: &Plan) -> BatchLayout {
    let (batch, shape) = (plan.run().batch, plan.micro_batch_shape());
    BatchLayout {
        data_degree: plan.grid().data_degree,
        num_micro_batches: batch.num_micro_batches,
        micro_batch_size: shape.num_sequences,
        seq_length: shape.seq_length,
    }
}
