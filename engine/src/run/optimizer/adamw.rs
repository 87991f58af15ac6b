//! AdamW: Adam with decoupled weight decay, on the elements that a rank owns.

use pipezero_models::kernels::adamw::{self, AdamWStep};

use super::decay::DecayRanges;
use super::update::Update;

/// AdamW and its hyper-parameters.
///
/// With `g` the scaled gradient, `t` the step (from 1) and `lr` the step's rate:
///
/// ```text
/// p <- p * (1 - lr * weight_decay)          decayed elements only
/// m <- beta1 * m + (1 - beta1) * g
/// v <- beta2 * v + (1 - beta2) * g * g
/// p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
/// ```
///
/// Source: arXiv:1711.05101, algorithm 2, with decay times `lr` as in PyTorch's `torch.optim.AdamW`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AdamW {
    /// Decay rates of the two moments.
    pub(super) betas: (f64, f64),
    /// Added to the root of the second moment.
    pub(super) eps: f64,
    /// Decoupled weight decay.
    pub(super) weight_decay: f64,
}

impl AdamW {
    /// Updates parameters and moments; `states` are all first moments, then all second ones.
    pub(super) fn update(&self, decay: &DecayRanges, update: Update<'_>) {
        let Update { parameters, gradients, states, step, learning_rate, gradient_scale } = update;
        let (first, second) = states.split_at_mut(parameters.len());
        for segment in decay.segments(parameters.len()) {
            let step = AdamWStep {
                gradient_scale,
                lr: learning_rate,
                betas: self.betas,
                eps: self.eps,
                weight_decay: if segment.decayed { self.weight_decay } else { 0.0 },
                step,
            };
            let range = segment.range;
            let (p, g) = (&mut parameters[range.clone()], &gradients[range.clone()]);
            adamw::update(step, p, g, &mut first[range.clone()], &mut second[range]);
        }
    }
}
