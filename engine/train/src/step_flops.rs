//! How many operations a step has whose micro-batches may be shorter than the model's sequences.

use pipezero_models::layer::MicroBatchShape;
use pipezero_plan::Plan;
use pipezero_run::data::BatchSource;

/// Floating-point operations of a training step over the whole grid: [`Plan::step_flops`], where no micro-batch is shorter.
pub(super) fn step_flops(plan: &Plan, source: &dyn BatchSource, step: u64) -> u128 {
    let longest = plan.micro_batch_shape();
    let places = (0..plan.grid().data_degree)
        .flat_map(|data_rank| (0..plan.run().batch.num_micro_batches).map(move |at| (data_rank, at)));
    let lengths: Vec<_> = places.map(|(data_rank, at)| source.seq_length(step, data_rank, at)).collect();
    if lengths.iter().all(Option::is_none) {
        return plan.step_flops();
    }
    let shape = |length: Option<usize>| MicroBatchShape {
        seq_length: length.unwrap_or(longest.seq_length).min(longest.seq_length),
        ..longest
    };
    lengths.into_iter().map(|length| plan.micro_batch_flops(shape(length))).sum()
}
