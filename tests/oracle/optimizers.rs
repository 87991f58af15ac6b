//! PyTorch's AdamW and SGD: ten steps on twelve numbers, gradients from 10 down to far below `eps`.

use pipezero_config::{NoDecay, OptimizerConfig};
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::unit::ParameterEntry;
use pipezero_models::{Buffer, Host};
use pipezero_run::optimizer::{DecayRanges, Update};
use serde_json::Value;

use super::golden::{assert_close, floats, list, number, read};

/// Ten steps of a handful of roundings (6e-8 each): measured below 3e-7. Any other formula is further away.
const TOLERANCE: f64 = 1e-6;

/// AdamW with the golden hyper-parameters.
pub(super) fn adamw(case: &Value) -> OptimizerConfig {
    OptimizerConfig::AdamW {
        lr: number(&case["lr"]),
        betas: (number(&case["betas"][0]), number(&case["betas"][1])),
        eps: number(&case["eps"]),
        weight_decay: number(&case["weight_decay"]),
        no_decay: NoDecay::OneDimensional,
    }
}

fn sgd(case: &Value) -> OptimizerConfig {
    OptimizerConfig::Sgd {
        lr: number(&case["lr"]),
        momentum: number(&case["momentum"]),
        weight_decay: number(&case["weight_decay"]),
        no_decay: NoDecay::OneDimensional,
    }
}

/// A rule that decays all of `len` elements.
fn decay_everything(len: usize) -> DecayRanges {
    let spec = ParameterSpec::zeros("weight", [1, len]);
    DecayRanges::of_unit(&[ParameterEntry { spec, part: 0, range: 0..len }], &NoDecay::OneDimensional)
}

fn check(golden: &Value, config: &OptimizerConfig, expected: &Value) {
    let optimizer = config;
    let (OptimizerConfig::AdamW { lr, .. } | OptimizerConfig::Sgd { lr, .. }) = *config;
    let mut parameters = Buffer::from_vec(floats(&golden["initial"])).unwrap();
    let mut states = Buffer::zeros(optimizer.num_states() * parameters.len()).unwrap();
    let decay = decay_everything(parameters.len());
    for (step, (gradients, expected)) in (1..).zip(list(&golden["gradients"]).iter().zip(list(expected))) {
        // Halved here and doubled by the update, both exactly: the scale is applied before anything else.
        let halved = floats(gradients).iter().map(|gradient| 0.5 * gradient).collect();
        let gradients = Buffer::from_vec(halved).unwrap();
        let update = Update {
            parameters: parameters.view_mut(),
            gradients: gradients.view(),
            states: states.view_mut(),
            step,
            learning_rate: lr,
            gradient_scale: 2.0,
        };
        update.apply(optimizer, &decay, &Host);
        assert_close(
            &format!("{config:?}, step {step}: parameters"),
            parameters.host(),
            &floats(expected),
            TOLERANCE,
        );
    }
}

#[test]
fn updates_equal_pytorchs() {
    let golden = read("optimizers.json");
    for case in list(&golden["adamw"]) {
        check(&golden, &adamw(&case["hyper_parameters"]), &case["parameters"]);
    }
    for case in list(&golden["sgd"]) {
        check(&golden, &sgd(&case["hyper_parameters"]), &case["parameters"]);
    }
}
