//! Stochastic gradient descent with momentum, on the elements that a rank owns.

use pulp::Arch;
use rayon::prelude::*;

use super::update::BLOCK;
use super::{DecayRanges, Update};

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
pub struct Sgd {
    /// Momentum; 0 keeps no state.
    pub momentum: f64,
    /// Weight decay, added to the gradient.
    pub weight_decay: f64,
}

/// The hyper-parameters as the elements see them.
#[derive(Clone, Copy)]
struct Coefficients {
    gradient_scale: f32,
    weight_decay: f32,
    momentum: f32,
    learning_rate: f32,
}

impl Sgd {
    /// State elements per parameter: the momentum, if there is one.
    pub fn num_states(&self) -> usize {
        usize::from(self.momentum != 0.0)
    }

    /// Updates parameters and momenta.
    pub(super) fn update(&self, decay: &DecayRanges, update: Update<'_>) {
        let Update { parameters, gradients, states, step: _, learning_rate, gradient_scale } = update;
        for segment in decay.segments(parameters.len()) {
            let coefficients = Coefficients {
                gradient_scale,
                weight_decay: if segment.decayed { self.weight_decay as f32 } else { 0.0 },
                momentum: self.momentum as f32,
                learning_rate: learning_rate as f32,
            };
            let range = segment.range;
            let blocks = parameters[range.clone()]
                .par_chunks_mut(BLOCK)
                .zip(gradients[range.clone()].par_chunks(BLOCK));
            if self.num_states() == 0 {
                blocks.for_each(|(p, g)| Arch::new().dispatch(|| update_plain(p, g, coefficients)));
            } else {
                blocks.zip(states[range].par_chunks_mut(BLOCK)).for_each(|((p, g), b)| {
                    Arch::new().dispatch(|| update_with_momentum(p, g, b, coefficients));
                });
            }
        }
    }
}

/// Each element by itself; see AdamW's for why its bits do not depend on its place.
#[inline(always)]
fn update_plain(p: &mut [f32], g: &[f32], c: Coefficients) {
    for (p, g) in p.iter_mut().zip(g) {
        *p -= c.learning_rate * (c.gradient_scale * g + c.weight_decay * *p);
    }
}

/// As [`update_plain`], with a running sum of gradients.
#[inline(always)]
fn update_with_momentum(p: &mut [f32], g: &[f32], b: &mut [f32], c: Coefficients) {
    for ((p, g), b) in p.iter_mut().zip(g).zip(b) {
        *b = c.momentum * *b + (c.gradient_scale * g + c.weight_decay * *p);
        *p -= c.learning_rate * *b;
    }
}
