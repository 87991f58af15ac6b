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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, assert_same_bits, random, same_at_every_place};

    const STEP: SgdStep = SgdStep { gradient_scale: 0.5, lr: 1e-2, weight_decay: 0.1 };

    #[test]
    fn five_steps_equal_the_formula_in_f64() {
        let num = 50;
        for momentum in [0.0, 0.9] {
            let (mut p, mut state) = (random("p", num), vec![0.0; num]);
            let mut want: Vec<[f64; 2]> = p.iter().map(|&p| [f64::from(p), 0.0]).collect();
            for t in 0..5 {
                let gradients = random(&format!("g{t}"), num);
                update_with_momentum(STEP, momentum, &mut p, &gradients, &mut state);
                for ([p, u], &g) in want.iter_mut().zip(&gradients) {
                    *u = momentum * *u + 0.5 * f64::from(g) + 0.1 * *p;
                    *p -= 1e-2 * *u;
                }
            }
            let want: Vec<f64> = want.iter().map(|state| state[0]).collect();
            assert_close("parameters", &p, &want, 1e-6);
        }
    }

    #[test]
    fn no_momentum_needs_no_state() {
        let gradients = random("g", 50);
        let (mut p, mut with_state, mut state) = (random("p", 50), random("p", 50), vec![0.0; 50]);
        update(STEP, &mut p, &gradients);
        update_with_momentum(STEP, 0.0, &mut with_state, &gradients, &mut state);
        assert_same_bits("parameters", &p, &with_state);
    }

    #[test]
    fn an_element_has_the_same_bits_on_every_thread_and_at_every_place() {
        let num = 40_000;
        let [p, g, u] = ["p", "g", "u"].map(|name| random(name, num));
        same_at_every_place("SGD", num, |range| {
            let cut = |values: &[f32]| values[range.clone()].to_vec();
            let (mut p, mut u) = (cut(&p), cut(&u));
            update_with_momentum(STEP, 0.9, &mut p, &cut(&g), &mut u);
            [p, u]
        });
    }
}
