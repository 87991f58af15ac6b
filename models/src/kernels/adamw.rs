//! AdamW (arXiv:1711.05101), element by element, in the order of operations of PyTorch's `torch.optim.AdamW`.

use super::parallel::{for_blocks, read, write};

/// The numbers of one AdamW step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// What gradients are multiplied by first: clipping and the step's number of targets.
    pub gradient_scale: f32,
    /// Learning rate of this step.
    pub lr: f64,
    /// Decay rates of the first and the second moment.
    pub betas: (f64, f64),
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decoupled weight decay; 0 for parameters that are not decayed.
    pub weight_decay: f64,
    /// Counts from 1.
    pub step: u64,
}

/// Updates parameters and both moments. All slices have one length.
///
/// `m += (1 - b1) (g - m)`, `v = b2 v + (1 - b2) g²`,
/// `p = (1 - lr wd) p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)`.
pub fn update(step: AdamWStep, parameters: &mut [f32], gradients: &[f32], m: &mut [f32], v: &mut [f32]) {
    let AdamWStep { gradient_scale, lr, betas: (beta1, beta2), eps, weight_decay, step } = step;
    let bias_correction = |beta: f64| 1.0 - beta.powf(step as f64);
    let keep = (1.0 - lr * weight_decay) as f32;
    let (take1, keep2, take2) = ((1.0 - beta1) as f32, beta2 as f32, (1.0 - beta2) as f32);
    let step_size = (lr / bias_correction(beta1)) as f32;
    let root_correction = bias_correction(beta2).sqrt() as f32;
    let eps = eps as f32;
    for_blocks(
        (write(parameters, 1), read(gradients, 1), write(m, 1), write(v, 1)),
        #[inline(always)]
        |(p, g, m, v)| {
            let moments = m.elements.iter_mut().zip(v.elements);
            for ((p, g), (m, v)) in p.elements.iter_mut().zip(g.elements).zip(moments) {
                let g = g * gradient_scale;
                *m += take1 * (g - *m);
                *v = *v * keep2 + take2 * g * g;
                *p = *p * keep - step_size * *m / (v.sqrt() / root_correction + eps);
            }
        },
    );
}
