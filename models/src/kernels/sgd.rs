//! Stochastic gradient descent with momentum, element by element, as PyTorch's `torch.optim.SGD`.

use super::parallel::{for_blocks, read, write};

/// The numbers of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SgdStep {
    /// What gradients are multiplied by first: clipping and the step's number of targets.
    pub gradient_scale: f32,
    /// Learning rate of this step.
    pub lr: f64,
    /// Weight decay, added to the gradient; 0 for parameters that are not decayed.
    pub weight_decay: f64,
}

/// `p -= lr (g + wd p)`, without momentum and without state.
pub fn update(step: SgdStep, parameters: &mut [f32], gradients: &[f32]) {
    let (scale, lr, decay) = (step.gradient_scale, step.lr as f32, step.weight_decay as f32);
    for_blocks(
        (write(parameters, 1), read(gradients, 1)),
        #[inline(always)]
        |(p, g)| {
            for (p, g) in p.elements.iter_mut().zip(g.elements) {
                *p -= lr * (g * scale + decay * *p);
            }
        },
    );
}

/// `u = momentum u + g + wd p`, `p -= lr u`; the state `u` begins as zero.
pub fn update_with_momentum(
    step: SgdStep,
    momentum: f64,
    parameters: &mut [f32],
    gradients: &[f32],
    state: &mut [f32],
) {
    let (scale, lr, decay) = (step.gradient_scale, step.lr as f32, step.weight_decay as f32);
    let momentum = momentum as f32;
    for_blocks(
        (write(parameters, 1), read(gradients, 1), write(state, 1)),
        #[inline(always)]
        |(p, g, u)| {
            for ((p, g), u) in p.elements.iter_mut().zip(g.elements).zip(u.elements) {
                *u = momentum * *u + (g * scale + decay * *p);
                *p -= lr * *u;
            }
        },
    );
}
