//! AdamW: Adam with decoupled weight decay, on the elements that a rank owns.

use pulp::Arch;
use rayon::prelude::*;

use super::update::BLOCK;
use super::{DecayRanges, Update};

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
/// The last line is computed as `p - alpha * m / (sqrt(v) + eps_hat)` with `alpha = lr * sqrt(1 - beta2^t) / (1 - beta1^t)`
/// and `eps_hat = eps * sqrt(1 - beta2^t)`: the same value with one division an element.
///
/// Sources: arXiv:1711.05101, algorithm 2 (decay as in PyTorch: times `lr`); arXiv:1412.6980, section 2 (the form with
/// `alpha`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay rates of the two moments.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

/// What the step makes of the hyper-parameters: computed in f64, rounded once.
#[derive(Clone, Copy)]
struct Coefficients {
    gradient_scale: f32,
    beta1: f32,
    one_minus_beta1: f32,
    beta2: f32,
    one_minus_beta2: f32,
    alpha: f32,
    eps_hat: f32,
}

impl AdamW {
    /// State elements per parameter: the first and the second moment.
    pub const NUM_STATES: usize = 2;

    /// Updates parameters and moments; `states` are all first moments, then all second ones.
    pub(super) fn update(&self, decay: &DecayRanges, update: Update<'_>) {
        let Update { parameters, gradients, states, step, learning_rate, gradient_scale } = update;
        let coefficients = self.coefficients(step, learning_rate, gradient_scale);
        let (first, second) = states.split_at_mut(parameters.len());
        for segment in decay.segments(parameters.len()) {
            let keep = if segment.decayed { (1.0 - learning_rate * self.weight_decay) as f32 } else { 1.0 };
            let range = segment.range;
            let blocks = parameters[range.clone()]
                .par_chunks_mut(BLOCK)
                .zip(gradients[range.clone()].par_chunks(BLOCK))
                .zip(first[range.clone()].par_chunks_mut(BLOCK))
                .zip(second[range].par_chunks_mut(BLOCK));
            blocks.for_each(|(((p, g), m), v)| {
                Arch::new().dispatch(|| update_elements(p, g, m, v, keep, coefficients));
            });
        }
    }

    fn coefficients(&self, step: u64, learning_rate: f64, gradient_scale: f32) -> Coefficients {
        let (beta1, beta2) = self.betas;
        let correction1 = 1.0 - beta1.powf(step as f64);
        let correction2 = (1.0 - beta2.powf(step as f64)).sqrt();
        Coefficients {
            gradient_scale,
            beta1: beta1 as f32,
            one_minus_beta1: (1.0 - beta1) as f32,
            beta2: beta2 as f32,
            one_minus_beta2: (1.0 - beta2) as f32,
            alpha: (learning_rate * correction2 / correction1) as f32,
            eps_hat: (self.eps * correction2) as f32,
        }
    }
}

/// The update of each element by itself: no fused multiply-add and no sum over elements, so an element gets the same
/// bits with every vector width, at every place.
#[inline(always)]
fn update_elements(p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32], keep: f32, c: Coefficients) {
    for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
        let g = c.gradient_scale * g;
        *m = c.beta1 * *m + c.one_minus_beta1 * g;
        *v = c.beta2 * *v + c.one_minus_beta2 * (g * g);
        *p = keep * *p - c.alpha * *m / (v.sqrt() + c.eps_hat);
    }
}
