//! Tensor parallelism instead of ZeRO beside the pipeline: a formula, not simulated, since pipezero has no such thing.
//!
//! Within a layer a rank all-reduces the layer's activation twice forward and twice backward, and an all-reduce of `b s h`
//! elements over `t` ranks sends `2 (t - 1) / t` times as many: `8 b s h (t - 1) / t` a layer and micro-batch (Narayanan
//! et al., arXiv:2104.04473, section 3.2). What is assumed:
//!
//! - the model's `t` parts compute a `t`-th as long as the whole, though their matrices are smaller;
//! - no all-reduce hides behind compute, since the next product waits for it;
//! - the same ranks and the same batch: `d = t` data ranks become `t` parts, so a step has `t` times as many micro-batches;
//! - stages are equal, `(m + p - 1)` micro-batches long; sends between stages, the optimizer and the norm take no time;
//! - weights, gradients and optimizer state are split by `t` and by `p`, 18 bytes a parameter; activations are not counted.

use pipezero::plan::Plan;
use pipezero::plan::costs::{DeviceSpec, NetworkLink, Step};

use crate::case::{ELEMENT_BYTES, HIDDEN, MICRO_BATCHES, PIPELINE, Placed, SEQ_LENGTH, STAGE_LAYERS};

/// Bytes of a parameter with its gradient and AdamW's state: `2 + 4 + 12`.
const STATE_BYTES: f64 = 18.0;

/// A step of TP x PP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorParallel {
    pub(crate) step_s: f64,
    /// The share of it in which all-reduces are waited for.
    pub(crate) exposed: f64,
    /// Bytes that a rank sends in its all-reduces.
    pub(crate) sent_bytes: f64,
    /// Bytes of weights, gradients and optimizer state.
    pub(crate) state_bytes: f64,
}

/// By the plan and the step of ZeRO-1 + PP on the same ranks: its slowest stage and its parameters.
pub(crate) fn tensor_parallel(plan: &Plan, zero_1: &Step, placed: Placed) -> TensorParallel {
    let parts = plan.grid().data_degree as f64;
    let slowest = zero_1.ranks.iter().map(|rank| rank.computed_ns).max().unwrap_or(0);
    let computed_s = slowest as f64 / 1e9 / MICRO_BATCHES as f64 / parts;
    let sent_bytes = STAGE_LAYERS as f64
        * (8.0 * (SEQ_LENGTH * HIDDEN) as f64 * (parts - 1.0) / parts)
        * ELEMENT_BYTES as f64;
    let DeviceSpec { network, .. } = placed.device();
    // The parts of a stage lie where its data ranks lie.
    let NetworkLink { bytes_per_s, base_ns, step_ns } = match placed {
        Placed::NodesOfEight => network.near,
        Placed::Apart => network.far,
    };
    let num_all_reduces = 4.0 * STAGE_LAYERS as f64;
    let latency_s = (base_ns + 2.0 * (parts - 1.0) * step_ns) / 1e9;
    let waited_s = sent_bytes / bytes_per_s + num_all_reduces * latency_s;
    let num_micro_batches = MICRO_BATCHES as f64 * parts;
    let waves = num_micro_batches + PIPELINE as f64 - 1.0;
    let step_s = waves * (computed_s + waited_s);
    TensorParallel {
        step_s,
        exposed: num_micro_batches * waited_s / step_s,
        sent_bytes: num_micro_batches * sent_bytes,
        state_bytes: STATE_BYTES * largest_stage(plan) / parts,
    }
}

fn largest_stage(plan: &Plan) -> f64 {
    let ranks = plan.training().ranks();
    let parameters =
        ranks.map(|rank| plan.units_of(rank).map(|(_, unit)| unit.unit.num_parameters() as u64).sum::<u64>());
    parameters.max().unwrap_or(0) as f64
}
