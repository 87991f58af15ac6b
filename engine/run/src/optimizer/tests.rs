//! Updates over every cut of a buffer. What they compute is compared with formulas where the kernels are, and with PyTorch in
//! `tests/oracle`.

use pipezero_config::{NoDecay, OptimizerConfig};

use super::*;
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::unit::ParameterEntry;
use pipezero_models::{Buffer, Host};

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
        let buffer = |values: &[f32]| Buffer::from_vec(values.to_vec()).unwrap();
        let (mut parameters, mut states) = (buffer(&self.parameters), buffer(&self.states));
        let gradients = buffer(gradients);
        let update = Update {
            parameters: parameters.view_mut(),
            gradients: gradients.view(),
            states: states.view_mut(),
            step,
            learning_rate: 0.01,
            gradient_scale: 0.5,
        };
        update.apply(optimizer, decay, &Host);
        self.parameters.copy_from_slice(parameters.host());
        self.states.copy_from_slice(states.host());
    }

    fn bits(&self) -> Vec<u32> {
        self.parameters.iter().chain(&self.states).map(|value| value.to_bits()).collect()
    }
}

/// A decay rule under which exactly this range is decayed.
fn decay_of(range: std::ops::Range<usize>) -> DecayRanges {
    let spec = ParameterSpec::zeros("weight", [1, range.len()]);
    DecayRanges::of_unit(&[ParameterEntry { spec, part: 0, range }], &NoDecay::OneDimensional)
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
fn padding_stays_zero() {
    for optimizer in [ADAMW, MOMENTUM, PLAIN] {
        let mut part = Part::new(&optimizer, &[1.0, 0.0, 0.0]);
        (1..=10).for_each(|step| part.update(&optimizer, &decay_of(0..1), &[1.0, 0.0, 0.0], step));
        assert_ne!(part.parameters[0], 1.0);
        assert_eq!(part.parameters[1..], [0.0, 0.0], "{optimizer:?}");
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
