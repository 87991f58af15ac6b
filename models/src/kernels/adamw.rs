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

/// The numbers of a step as kernels take them: computed in f64 and rounded once, so that every device has the same.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AdamWNumbers {
    gradient_scale: f32,
    keep: f32,
    take_first: f32,
    keep_second: f32,
    take_second: f32,
    step_size: f32,
    root_correction: f32,
    eps: f32,
}

impl AdamWNumbers {
    /// Those of a step.
    pub(crate) fn of(step: AdamWStep) -> Self {
        let AdamWStep { gradient_scale, lr, betas: (beta1, beta2), eps, weight_decay, step } = step;
        let bias_correction = |beta: f64| 1.0 - beta.powf(step as f64);
        Self {
            gradient_scale,
            keep: (1.0 - lr * weight_decay) as f32,
            take_first: (1.0 - beta1) as f32,
            keep_second: beta2 as f32,
            take_second: (1.0 - beta2) as f32,
            step_size: (lr / bias_correction(beta1)) as f32,
            root_correction: bias_correction(beta2).sqrt() as f32,
            eps: eps as f32,
        }
    }
}

/// Updates parameters and both moments. All slices have one length.
///
/// `m += (1 - b1) (g - m)`, `v = b2 v + (1 - b2) g²`,
/// `p = (1 - lr wd) p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)`.
pub fn update(step: AdamWStep, parameters: &mut [f32], gradients: &[f32], m: &mut [f32], v: &mut [f32]) {
    let AdamWNumbers {
        gradient_scale,
        keep,
        take_first,
        keep_second,
        take_second,
        step_size,
        root_correction,
        eps,
    } = AdamWNumbers::of(step);
    for_blocks(
        (write(parameters, 1), read(gradients, 1), write(m, 1), write(v, 1)),
        #[inline(always)]
        |(p, g, m, v)| {
            let moments = m.elements.iter_mut().zip(v.elements);
            for ((p, g), (m, v)) in p.elements.iter_mut().zip(g.elements).zip(moments) {
                let g = g * gradient_scale;
                *m += take_first * (g - *m);
                *v = *v * keep_second + take_second * g * g;
                *p = *p * keep - step_size * *m / (v.sqrt() / root_correction + eps);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, random, same_at_every_place};

    const STEP: AdamWStep = AdamWStep {
        gradient_scale: 0.5,
        lr: 1e-2,
        betas: (0.9, 0.95),
        eps: 1e-8,
        weight_decay: 0.1,
        step: 1,
    };

    #[test]
    fn ten_steps_equal_the_papers_formula_in_f64() {
        let num = 100;
        let (mut p, mut m, mut v) = (random("p", num), vec![0.0; num], vec![0.0; num]);
        let mut want: Vec<[f64; 3]> = p.iter().map(|&p| [f64::from(p), 0.0, 0.0]).collect();
        for t in 1..=10 {
            let gradients = random(&format!("g{t}"), num);
            update(AdamWStep { step: t, ..STEP }, &mut p, &gradients, &mut m, &mut v);
            for ([p, m, v], &g) in want.iter_mut().zip(&gradients) {
                let g = 0.5 * f64::from(g);
                *m = 0.9 * *m + 0.1 * g;
                *v = 0.95 * *v + 0.05 * g * g;
                let (m_hat, v_hat) =
                    (*m / (1.0 - 0.9_f64.powi(t as i32)), *v / (1.0 - 0.95_f64.powi(t as i32)));
                *p -= 1e-2 * (m_hat / (v_hat.sqrt() + 1e-8) + 0.1 * *p);
            }
        }
        for (index, got) in [p, m, v].iter().enumerate() {
            let want: Vec<f64> = want.iter().map(|state| state[index]).collect();
            assert_close(&format!("state {index}"), got, &want, 1e-6);
        }
    }

    #[test]
    fn the_first_step_moves_by_the_learning_rate() {
        for (gradient, moved) in [(-3.0, 1.01), (1e-2, 0.99), (1e3, 0.99), (-1e15, 1.01)] {
            let (mut p, mut m, mut v) = ([1.0], [0.0], [0.0]);
            update(AdamWStep { weight_decay: 0.0, ..STEP }, &mut p, &[gradient], &mut m, &mut v);
            assert!((p[0] - moved).abs() < 1e-6, "{} by {gradient}", p[0]);
        }
    }

    #[test]
    fn an_element_has_the_same_bits_on_every_thread_and_at_every_place() {
        let num = 40_000;
        let [p, g, m, v] = ["p", "g", "m", "v"].map(|name| random(name, num));
        let v: Vec<f32> = v.iter().map(|x| x.abs()).collect();
        same_at_every_place("AdamW", num, |range| {
            let cut = |values: &[f32]| values[range.clone()].to_vec();
            let (mut p, mut m, mut v) = (cut(&p), cut(&m), cut(&v));
            update(AdamWStep { step: 7, ..STEP }, &mut p, &cut(&g), &mut m, &mut v);
            [p, m, v]
        });
    }
}
