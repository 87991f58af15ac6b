//! Stochastic gradient descent with momentum, on the elements that a rank owns.

use pipezero_models::kernels::sgd::{self, SgdStep};

use super::decay::DecayRanges;
use super::update::Update;

/// SGD and its hyper-parameters.
///
/// With `g` the scaled gradient and `lr` the step's rate:
///
/// ```text
/// g <- g + weight_decay * p                 decayed elements only
/// b <- momentum * b + g                     b starts at 0; without momentum b is g and nothing is kept
/// p <- p - lr * b
/// ```
///
/// Source: PyTorch's `torch.optim.SGD` with dampening 0 and without Nesterov's form. Its `weight_decay` is an L2 term in
/// the gradient, not AdamW's decoupled decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sgd {
    /// Momentum; 0 keeps no state.
    pub(super) momentum: f64,
    /// Weight decay, added to the gradient.
    pub(super) weight_decay: f64,
}

impl Sgd {
    /// Updates parameters and momenta.
    pub(super) fn update(&self, decay: &DecayRanges, update: Update<'_>) {
        let Update { parameters, gradients, states, step: _, learning_rate, gradient_scale } = update;
        for segment in decay.segments(parameters.len()) {
            let weight_decay = if segment.decayed { self.weight_decay } else { 0.0 };
            let step = SgdStep { gradient_scale, lr: learning_rate, weight_decay };
            let range = segment.range;
            let (p, g) = (&mut parameters[range.clone()], &gradients[range.clone()]);
            if states.is_empty() {
                sgd::update(step, p, g);
            } else {
                sgd::update_with_momentum(step, self.momentum, p, g, &mut states[range]);
            }
        }
    }
}
