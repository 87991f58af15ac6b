//! The update of one owned part of a unit: AdamW, and stochastic gradient descent with or without momentum.

use pipezero_config::OptimizerConfig;
use pipezero_models::kernels::adamw::AdamWStep;
use pipezero_models::kernels::sgd::SgdStep;
use pipezero_models::{Queue, View, ViewMut};

use super::decay::{DecayRanges, Segment};

/// What the update of one owned part of a unit works on. N elements.
#[derive(Debug)]
pub struct Update<'a> {
    /// `[N]` parameters.
    pub parameters: ViewMut<'a>,
    /// `[N]` gradients, as summed over the step.
    pub gradients: View<'a>,
    /// `[num_states, N]` state, one run after another.
    pub states: ViewMut<'a>,
    /// The step, from 1.
    pub step: u64,
    /// The step's rate, see [`super::LearningRate::at`].
    pub learning_rate: f64,
    /// What every gradient is multiplied by first: the loss's normalisation times [`super::clip_factor`].
    pub gradient_scale: f32,
}

/// The state is held by the owner of the elements: [`OptimizerConfig::num_states`] flat arrays as long as the parameters,
/// all zero before the first step.
impl Update<'_> {
    /// Updates parameters and state by an optimizer. `decay` counts from the part's first
    /// element ([`DecayRanges::within`]).
    ///
    /// An element's bits depend on its own values and the step's numbers alone: not on where the part was cut out of
    /// its unit, nor on the number of threads.
    ///
    /// With `g` the scaled gradient, `t` the step (from 1) and `lr` the step's rate, AdamW is
    ///
    /// ```text
    /// p <- p * (1 - lr * weight_decay)          decayed elements only
    /// m <- beta1 * m + (1 - beta1) * g          the first state
    /// v <- beta2 * v + (1 - beta2) * g * g      the second state
    /// p <- p - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
    /// ```
    ///
    /// (arXiv:1711.05101, algorithm 2, with decay times `lr` as in PyTorch's `torch.optim.AdamW`), and SGD is
    ///
    /// ```text
    /// g <- g + weight_decay * p                 decayed elements only
    /// b <- momentum * b + g                     b starts at 0; without momentum b is g and nothing is kept
    /// p <- p - lr * b
    /// ```
    ///
    /// (PyTorch's `torch.optim.SGD` with dampening 0 and without Nesterov's form): here `weight_decay` is an L2 term in the
    /// gradient, not AdamW's decoupled decay.
    ///
    /// # Panics
    /// If a view's length is not that of its field's documentation.
    pub fn apply(self, optimizer: &OptimizerConfig, decay: &DecayRanges, queue: &dyn Queue) {
        let Self { mut parameters, gradients, mut states, step, learning_rate: lr, gradient_scale } = self;
        let (len, num_states) = (parameters.len(), optimizer.num_states());
        assert_eq!(gradients.len(), len, "one gradient per parameter");
        assert_eq!(states.len(), num_states * len, "{num_states} states per parameter");
        for Segment { range, decayed } in decay.segments(len) {
            let (p, g) = (parameters.reborrow().range(range.clone()), gradients.range(range.clone()));
            let decay_of = |weight_decay: f64| if decayed { weight_decay } else { 0.0 };
            match *optimizer {
                OptimizerConfig::AdamW { betas, eps, weight_decay, .. } => {
                    let weight_decay = decay_of(weight_decay);
                    let step = AdamWStep { gradient_scale, lr, betas, eps, weight_decay, step };
                    let (first, second) = states.reborrow().split_at(len);
                    queue.adamw(step, p, g, [first.range(range.clone()), second.range(range)]);
                }
                OptimizerConfig::Sgd { momentum, weight_decay, .. } => {
                    let step = SgdStep { gradient_scale, lr, weight_decay: decay_of(weight_decay) };
                    if num_states == 0 {
                        queue.sgd(step, p, g);
                    } else {
                        queue.sgd_with_momentum(step, momentum, p, g, states.reborrow().range(range));
                    }
                }
            }
        }
    }
}
