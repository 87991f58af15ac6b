//! Updates against the papers' formulas in f64, and over every cut of a buffer.

use super::*;
use crate::config::NoDecay;
use pipezero_models::parameter::{Init, ParameterSpec};
use pipezero_models::unit::ParameterEntry;
use proptest::prelude::*;

const ADAMW: OptimizerConfig = OptimizerConfig::AdamW {
    lr: 0.01,
    betas: (0.9, 0.95),
    eps: 1e-8,
    weight_decay: 0.1,
    no_decay: NoDecay::OneDimensional,
};
const MOMENTUM: OptimizerConfig =
    OptimizerConfig::Sgd { lr: 0.01, momentum: 0.9, weight_decay: 0.1, no_decay: NoDecay::OneDimensional };
const PLAIN: OptimizerConfig =
    OptimizerConfig::Sgd { lr: 0.01, momentum: 0.0, weight_decay: 0.1, no_decay: NoDecay::OneDimensional };

/// Parameters with their state, updated as one.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    parameters: Vec<f32>,
    states: Vec<f32>,
}

impl Part {
    fn new(optimizer: &OptimizerConfig, parameters: &[f32]) -> Self {
        Self { parameters: parameters.into(), states: vec![0.0; optimizer.num_states() * parameters.len()] }
    }

    fn update(&mut self, optimizer: &OptimizerConfig, decay: &DecayRanges, gradients: &[f32], step: u64) {
        let update = Update {
            parameters: &mut self.parameters,
            gradients,
            states: &mut self.states,
            step,
            learning_rate: 0.01,
            gradient_scale: 0.5,
        };
        optimizer.update(decay, update);
    }

    fn bits(&self) -> Vec<u32> {
        self.parameters.iter().chain(&self.states).map(|value| value.to_bits()).collect()
    }
}

/// A decay rule under which exactly this range is decayed.
fn decay_of(range: std::ops::Range<usize>) -> DecayRanges {
    let spec = ParameterSpec { name: "weight".into(), shape: vec![1, range.len()], init: Init::Zeros };
    DecayRanges::of_unit(&[ParameterEntry { spec, range }], &NoDecay::OneDimensional)
}

/// Three steps of a scalar in f64, as the documentation writes them.
fn reference(optimizer: &OptimizerConfig, mut p: f64, gradients: [f64; 3], decayed: bool) -> f64 {
    let (lr, mut m, mut v) = (0.01, 0.0, 0.0);
    for (t, g) in (1..).zip(gradients.map(|g| 0.5 * g)) {
        match *optimizer {
            OptimizerConfig::AdamW { betas: (beta1, beta2), eps, weight_decay, .. } => {
                p *= if decayed { 1.0 - lr * weight_decay } else { 1.0 };
                m = beta1 * m + (1.0 - beta1) * g;
                v = beta2 * v + (1.0 - beta2) * g * g;
                let (m_hat, v_hat) = (m / (1.0 - beta1.powi(t)), v / (1.0 - beta2.powi(t)));
                p -= lr * m_hat / (v_hat.sqrt() + eps);
            }
            OptimizerConfig::Sgd { momentum, weight_decay, .. } => {
                let g = if decayed { g + weight_decay * p } else { g };
                m = momentum * m + g;
                p -= lr * m;
            }
        }
    }
    p
}

proptest! {
    #[test]
    fn three_steps_follow_the_formulas(
        parameters in prop::collection::vec(-2f32..2.0, 8),
        gradients in prop::array::uniform3(prop::collection::vec(-1f32..1.0, 8)),
    ) {
        let decay = decay_of(3..6);
        for optimizer in [ADAMW, MOMENTUM, PLAIN] {
            let mut part = Part::new(&optimizer, &parameters);
            for (step, gradients) in (1..).zip(&gradients) {
                part.update(&optimizer, &decay, gradients, step);
            }
            for i in 0..8 {
                let gradients = [0, 1, 2].map(|step| f64::from(gradients[step][i]));
                let expected = reference(&optimizer, parameters[i].into(), gradients, (3..6).contains(&i));
                // Three steps of a few roundings each, on values up to 2; AdamW's step is at most some lr, however small
                // the gradient, so an absolute bound serves.
                prop_assert!((f64::from(part.parameters[i]) - expected).abs() < 1e-6, "{optimizer:?}, element {i}");
            }
        }
    }
}

#[test]
fn a_shard_cut_anywhere_gets_the_bits_of_the_whole() {
    // Longer than two AVX-512 vectors, so that remainders begin and end at every place of a vector.
    let len = 45;
    let parameters: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
    let gradients: Vec<f32> = (0..len).map(|i| (i as f32 * 1.7).cos() * 10f32.powi(i % 9 - 6)).collect();
    let decay = decay_of(7..30);
    for optimizer in [ADAMW, MOMENTUM, PLAIN] {
        let mut whole = Part::new(&optimizer, &parameters);
        (1..=3).for_each(|step| whole.update(&optimizer, &decay, &gradients, step));
        for start in 0..=len as usize {
            for end in start..=len as usize {
                let range = start..end;
                let mut shard = Part::new(&optimizer, &parameters[range.clone()]);
                let decay = decay.within(range.clone());
                (1..=3).for_each(|step| shard.update(&optimizer, &decay, &gradients[range.clone()], step));
                let mut expected =
                    Part { parameters: whole.parameters[range.clone()].into(), states: vec![] };
                for state in whole.states.chunks(len as usize) {
                    expected.states.extend(&state[range.clone()]);
                }
                assert_eq!(shard.bits(), expected.bits(), "{optimizer:?}, {start}..{end}");
            }
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    // More than any kernel's block of work, and no multiple of it.
    let len = (1 << 17) + 77;
    let parameters: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
    let gradients: Vec<f32> = (0..len).map(|i| (i as f32 * 1.7).cos()).collect();
    let decay = decay_of(100..len - 100);
    for optimizer in [ADAMW, MOMENTUM, PLAIN] {
        let [one, three] = [1, 3].map(|threads| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads start");
            let mut part = Part::new(&optimizer, &parameters);
            pool.install(|| (1..=2).for_each(|step| part.update(&optimizer, &decay, &gradients, step)));
            part.bits()
        });
        assert_eq!(one, three, "{optimizer:?}");
    }
}

#[test]
fn padding_stays_zero() {
    for optimizer in [ADAMW, MOMENTUM, PLAIN] {
        let mut part = Part::new(&optimizer, &[1.0, 0.0, 0.0]);
        (1..=10).for_each(|step| part.update(&optimizer, &decay_of(0..1), &[1.0, 0.0, 0.0], step));
        assert_ne!(part.parameters[0], 1.0);
        assert_eq!(part.parameters[1..], [0.0, 0.0], "{optimizer:?}");
    }
}

#[test]
fn the_first_adamw_step_is_the_learning_rate_whatever_the_gradient() {
    // m / sqrt(v) is 1 after the bias corrections; eps is far below these gradients.
    let mut part = Part::new(&ADAMW, &[0.0; 4]);
    part.update(&ADAMW, &DecayRanges::default(), &[1e-2, 1.0, -1e3, -1e15], 1);
    for (parameter, sign) in part.parameters.iter().zip([-1.0, -1.0, 1.0, 1.0]) {
        assert!((parameter - sign * 0.01).abs() < 1e-7, "{parameter}");
    }
}

#[test]
fn only_momentum_keeps_state() {
    assert_eq!([ADAMW, MOMENTUM, PLAIN].map(|optimizer| optimizer.num_states()), [2, 1, 0]);
}

#[test]
#[should_panic(expected = "2 states per parameter")]
fn states_of_another_length_are_refused() {
    let mut part = Part { parameters: vec![0.0; 3], states: vec![0.0; 3] };
    part.update(&ADAMW, &DecayRanges::default(), &[0.0; 3], 1);
}
