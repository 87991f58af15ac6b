//! Modules of candle's as layers: their gradients against autograd in f64, in models and in an input encoder, and what is refused.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::sync::Arc;

use candle_core::{Error, Result, Tensor};
use pipezero_candle::{CandleLayer, Parameters};
use pipezero_models::input_encoder::{EncoderLimits, EncoderModule, InputEncoder, InputShape};
use pipezero_models::layer::{Layer, MicroBatchShape};
use pipezero_models::model::{LayerRole, Model, ModelLayer, Tying};
use pipezero_models::parameter::ParameterSpec;
use pipezero_models::shared::GptConfig;
use pipezero_models::{ElementType, gpt2, mlp};
// `testing` names them from the root of its crate.
use pipezero_models::{
    buffer, element, init, input_encoder, kernels, layer, llama, model, parameter, queue, shared, unit, views,
};

use self::testing::{
    Backward, Batch, EncoderInputsOfBatch, Oracle, Run, assert_close, assert_same_bits, check_against_oracle,
    config, random, segments,
};

/// The runs and the oracle of the tests of `pipezero-models`, compiled again here, since a crate's tests cannot be used by another crate.
#[path = "../../src/testing/mod.rs"]
#[expect(dead_code, unused_imports, reason = "these tests use a part of it")]
mod testing;

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

/// A module of candle's in the place of one of layers over the queue, with parameters of the same names, in an input encoder of one module.
#[test]
fn a_module_of_candles_is_one_of_an_encoder() {
    let config = config();
    let widths @ [inputs, hidden, outputs] = [5, 7, config.hidden_size];
    let parameters = vec![
        ParameterSpec::normal("up.weight", [hidden, inputs], 0.02),
        ParameterSpec::zeros("up.bias", [hidden]),
        ParameterSpec::normal("down.weight", [outputs, hidden], 0.02),
        ParameterSpec::zeros("down.bias", [outputs]),
    ];
    let module = |parameters: &Parameters, x: &Tensor| {
        let of = |name: &str| parameters.to_map()[name].clone();
        let hidden = x.broadcast_matmul(&of("up.weight").t()?)?.broadcast_add(&of("up.bias"))?.gelu()?;
        hidden.broadcast_matmul(&of("down.weight").t()?)?.broadcast_add(&of("down.bias"))
    };
    let layer = CandleLayer::new("module.0", [inputs, outputs], 3, parameters, module).unwrap();
    let of_candle = EncoderModule::new("image", vec![Arc::new(layer)]).unwrap();
    let over_the_queue = EncoderModule::projector("module.0", widths, 0.02).unwrap();
    let results = [of_candle, over_the_queue].map(|module| {
        let limits = EncoderLimits { inputs_per_sequence: 2, rows_per_input: 3 };
        let encoder = InputEncoder::new("encoder", vec![module], config.hidden_size, limits).unwrap();
        let is_host_only = encoder.is_host_only();
        let batch = with_inputs(Batch::random(2, SEQ_LENGTH, config.vocab_size, 5), &encoder, &[2, 3]);
        let mut model = gpt2::build(&config).unwrap();
        model.layers.insert(1, ModelLayer::new(encoder, LayerRole::Embedding, Tying::Untied));
        let mut run = Run::new(&model, 1);
        (is_host_only, run.step(&batch, Backward::Split, 0.03).sum, run.gradients())
    });
    let [(is_host_only, loss, gradients), (_, expected_loss, expected)] = results;
    assert!(is_host_only);
    assert_close("loss", &[loss as f32], &[expected_loss], 2e-6);
    assert!(gradients.contains_key("module.0.down.bias") && gradients.len() == expected.len());
    for (name, gradient) in gradients {
        let wanted: Vec<f64> = expected[&name].iter().copied().map(f64::from).collect();
        // f32 on both sides, in other orders.
        assert_close(&name, &gradient, &wanted, 1e-5);
    }
}

/// The batch with inputs of so many rows for the only module of an input encoder, each row added to the next token but one.
fn with_inputs(batch: Batch, encoder: &InputEncoder, num_rows: &[usize]) -> Batch {
    let spec = encoder.input_encoder().unwrap().clone();
    let mut free = (0..batch.shape.num_tokens()).step_by(2);
    let encoder_inputs = EncoderInputsOfBatch {
        shapes: num_rows.iter().map(|&num_rows| InputShape { module: 0, num_rows }).collect(),
        tokens: num_rows.iter().map(|&num_rows| free.by_ref().take(num_rows).collect()).collect(),
        values: num_rows
            .iter()
            .map(|rows| random(&format!("input of {rows}"), rows * spec.widths[0]))
            .collect(),
        spec,
    };
    Batch { encoder_inputs: Some(encoder_inputs), ..batch }
}
