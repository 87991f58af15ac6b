//! Modules of candle's as layers: their gradients against autograd in f64, and what is refused.

use candle_core::{Error, Result, Tensor};

use super::{CandleLayer, Parameters};
use crate::layer::{Layer, MicroBatchShape};
use crate::model::{LayerRole, Model, ModelLayer, Tying};
use crate::parameter::ParameterSpec;
use crate::shared::GptConfig;
use crate::testing::{
    Backward, Batch, Oracle, Run, assert_same_bits, check_against_oracle, config, segments,
};
use crate::{ElementType, mlp};

const SEQ_LENGTH: usize = 13;

/// `gelu(x Wᵀ + b)`, as [`mlp::Dense`].
fn dense(parameters: &Parameters, input: &Tensor) -> Result<Tensor> {
    let product = input.broadcast_matmul(&parameters.get("weight")?.t()?)?;
    product.broadcast_add(parameters.get("bias")?)?.gelu()
}

/// The family's model with a module in place of each dense layer, of the same names.
fn model(config: &GptConfig) -> Model {
    let mut model = mlp::build(config).unwrap();
    let width = config.hidden_size;
    for index in 0..config.num_layers {
        let name = format!("h.{index}.dense");
        let place = model.layers.iter().position(|layer| layer.layer.name() == name).unwrap();
        let parameters = vec![
            ParameterSpec::normal("weight", [width, width], config.init_std as f32),
            ParameterSpec::zeros("bias", [width]),
        ];
        let layer = CandleLayer::new(name, [width; 2], SEQ_LENGTH, parameters, dense).unwrap();
        model.layers[place] = ModelLayer::new(layer, LayerRole::Block { index }, Tying::Untied);
    }
    model
}

#[test]
fn loss_and_every_gradient_equal_autograd_in_f64() {
    for (config, num_sequences, seq_length, masked) in [
        (config(), 2, SEQ_LENGTH, 5),
        (GptConfig { tie_embeddings: true, num_layers: 3, ..config() }, 1, SEQ_LENGTH, 0),
        (GptConfig { hidden_size: 17, ..config() }, 3, 5, 2),
    ] {
        let batch = Batch::random(num_sequences, seq_length, config.vocab_size, masked);
        check_against_oracle(&config, &model(&config), &batch, Oracle::mlp_loss);
    }
}

/// Between layers with halves, alone in a unit, in segments, and in a gradient that is added to.
#[test]
fn units_and_segments_cannot_be_seen_in_the_bits() {
    let model = model(&config());
    let batch = Batch::random(2, SEQ_LENGTH, 37, 5);
    for stored in [ElementType::F32, ElementType::Bf16] {
        let gradients = |mut run: Run| {
            run.step(&batch, Backward::Full, 0.03);
            run.gradients()
        };
        let new = |num_layers| Run::new(&model, num_layers).with_precision(stored);
        let want = gradients(new(1));
        let checkpointed = new(100).with_checkpoints(|_| segments([(1, 3)]));
        let mut split = new(1);
        split.step(&batch, Backward::Split, 0.03);
        let split = split.gradients();
        for found in [
            split,
            gradients(new(3)),
            gradients(new(100)),
            gradients(checkpointed),
            gradients(new(2).adding_to_zeros()),
        ] {
            found.iter().for_each(|(name, gradient)| assert_same_bits(name, gradient, &want[name]));
        }
    }
}

#[test]
fn what_cannot_be_a_layer_is_refused() {
    type Module = fn(&Parameters, &Tensor) -> Result<Tensor>;
    let cases: [(Module, &str); 6] = [
        (|_, input| input.narrow(2, 0, 3), "its output has the shape [1, 13, 3], and must have [1, 13, 8]"),
        (|_, _| Err(Error::Msg("out of order".to_owned())), "layer h: out of order"),
        (
            |parameters, _| parameters.get("weights").cloned(),
            "there is no parameter `weights`; the layer has: weight, bias",
        ),
        (|_, input| input.sin(), "no gradient reaches parameter `weight`"),
        // The gradient of one of two paths is lost without a word.
        (
            |parameters, input| input + dense(parameters, &input.detach())?,
            "the gradient of the input is not that of the module",
        ),
        (
            |parameters, input| dense(parameters, input)?.broadcast_mul(&parameters.get("bias")?.detach()),
            "the gradient of parameter `bias` is not that of the module",
        ),
    ];
    let specs = || vec![ParameterSpec::normal("weight", [8, 8], 0.3), ParameterSpec::zeros("bias", [8])];
    for (module, said) in cases {
        let error = CandleLayer::new("h", [8; 2], SEQ_LENGTH, specs(), module).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
    }
    for (widths, seq_length) in [([0, 8], 4), ([8, 8], 0)] {
        assert!(CandleLayer::new("h", widths, seq_length, specs(), dense).is_err());
    }
}

/// Activations grow with the sequences, parameters do not; longer sequences than were tried may grow by the square.
#[test]
fn what_candle_holds_is_counted() {
    let specs = vec![ParameterSpec::normal("weight", [8, 8], 0.3), ParameterSpec::zeros("bias", [8])];
    let layer = CandleLayer::new("h", [8; 2], SEQ_LENGTH, specs, dense).unwrap();
    let of = |num_sequences, seq_length| layer.sizes(MicroBatchShape { num_sequences, seq_length }).allocated;
    let per_sequence = of(2, SEQ_LENGTH) - of(1, SEQ_LENGTH);
    assert_eq!(of(7, SEQ_LENGTH) - of(1, SEQ_LENGTH), 6 * per_sequence);
    // At least the value and the gradient of input, product, sum and output.
    assert!(per_sequence >= 2 * 4 * SEQ_LENGTH * 8, "{per_sequence}");
    assert_eq!(of(1, 2 * SEQ_LENGTH) - of(1, SEQ_LENGTH), 3 * per_sequence);
}
