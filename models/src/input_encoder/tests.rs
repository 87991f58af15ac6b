//! An input encoder between embedding and blocks, against candle's autograd in f64, and whatever way its passes are run.

use std::sync::Arc;

use super::*;
use crate::layer::{Layer, MicroBatchShape};
use crate::model::{LayerRole, Model, ModelLayer, Tying};
use crate::shared::GptConfig;
use crate::testing::{
    Backward, Batch, EncoderInputsOfBatch, Oracle, Run, assert_close, assert_same_bits, check_against_oracle,
    config, random, segments,
};
use crate::{ElementType, gpt2, mlp};

const WIDTHS: [usize; 2] = [5, 20];

fn encoder(config: &GptConfig, inputs_per_sequence: usize, rows_per_input: usize) -> InputEncoder {
    let module = |index: usize| {
        let widths = [WIDTHS[index], 7, config.hidden_size];
        EncoderModule::projector(format!("module.{index}"), widths, 0.02).unwrap()
    };
    InputEncoder::new(
        "encoder",
        vec![module(0), module(1)],
        config.hidden_size,
        EncoderLimits { inputs_per_sequence, rows_per_input },
    )
    .unwrap()
}

fn limits(inputs_per_sequence: usize, rows_per_input: usize) -> EncoderLimits {
    EncoderLimits { inputs_per_sequence, rows_per_input }
}

fn with_encoder(mut model: Model, encoder: InputEncoder) -> Model {
    model.layers.insert(1, ModelLayer::new(encoder, LayerRole::Embedding, Tying::Untied));
    model
}

/// Tokens with inputs for these modules, of these numbers of rows, each added to the next tokens but one.
fn batch(encoder: &InputEncoder, shape: [usize; 2], shapes: &[(usize, usize)]) -> Batch {
    let spec = encoder.input_encoder().unwrap().clone();
    let batch = Batch::random(shape[0], shape[1], 37, 5);
    let mut free = (0..batch.shape.num_tokens()).step_by(2);
    let shapes: Vec<InputShape> =
        shapes.iter().map(|&(module, num_rows)| InputShape { module, num_rows }).collect();
    let tokens = shapes.iter().map(|input| free.by_ref().take(input.num_rows).collect()).collect();
    let values = shapes.iter().enumerate();
    let values =
        values.map(|(k, input)| random(&format!("input {k}"), input.num_rows * spec.widths[input.module]));
    let values = values.collect();
    Batch { encoder_inputs: Some(EncoderInputsOfBatch { spec, shapes, tokens, values }), ..batch }
}

/// None, one module alone, both in any order, the most that there can be.
const INPUTS: [&[(usize, usize)]; 5] =
    [&[], &[(1, 3)], &[(0, 2), (0, 1)], &[(1, 1), (0, 3), (1, 2)], &[(0, 3), (1, 3), (0, 3), (1, 3)]];

#[test]
fn loss_and_every_gradient_equal_autograd_in_f64() {
    let config = config();
    for shapes in INPUTS {
        let encoder = encoder(&config, 2, 3);
        let batch = batch(&encoder, [2, 13], shapes);
        let model = with_encoder(gpt2::build(&config).unwrap(), encoder);
        check_against_oracle(&config, &model, &batch, Oracle::gpt2_loss);
    }
}

#[test]
fn no_way_of_running_it_can_be_seen_in_the_bits() {
    let config = config();
    for (shapes, stored) in INPUTS.into_iter().zip([ElementType::F32, ElementType::Bf16].into_iter().cycle())
    {
        let encoder = encoder(&config, 2, 3);
        let batch = batch(&encoder, [2, 13], shapes);
        let model = with_encoder(mlp::build(&config).unwrap(), encoder);
        let gradients = |run: Run, backward| {
            let mut run = run.with_precision(stored);
            let losses = [0; 2].map(|_| run.step(&batch, backward, 0.03));
            (losses, run.gradients())
        };
        let want = gradients(Run::new(&model, 1), Backward::Full);
        for (name, run, backward) in [
            ("split", Run::new(&model, 1), Backward::Split),
            ("one unit", Run::new(&model, 100), Backward::Full),
            ("added to zeros", Run::new(&model, 2).adding_to_zeros(), Backward::Split),
            ("recomputed", Run::new(&model, 100).with_checkpoints(|_| segments([(1, 2)])), Backward::Full),
            (
                "recomputed with others",
                Run::new(&model, 100).with_checkpoints(|_| segments([(0, 4)])),
                Backward::Full,
            ),
        ] {
            let got = gradients(run, backward);
            assert_eq!(got.0, want.0, "{name}");
            for (parameter, gradient) in &got.1 {
                assert_same_bits(&format!("{parameter}, {name}"), gradient, &want.1[parameter]);
            }
        }
    }
}

#[test]
fn a_module_without_an_input_has_a_gradient_of_zero() {
    let config = config();
    let encoder = encoder(&config, 2, 3);
    let batch = batch(&encoder, [2, 13], &[(1, 3)]);
    let mut run = Run::new(&with_encoder(gpt2::build(&config).unwrap(), encoder), 1);
    run.step(&batch, Backward::Full, 1.0);
    for (name, gradient) in run.gradients() {
        let is_zero = gradient.iter().all(|&element| element == 0.0);
        assert_eq!(is_zero, name.starts_with("module.0"), "{name}");
    }
}

/// Attention within each input: one after the other is as if each were alone.
#[test]
fn layers_see_each_input_as_a_sequence() {
    let config = GptConfig { hidden_size: 24, ..config() };
    let inner = |index: usize| {
        Arc::clone(&gpt2::build(&GptConfig { num_layers: 9, ..config.clone() }).unwrap().layers[index].layer)
    };
    let module = EncoderModule::new("image", vec![inner(15), inner(16)]).unwrap();
    let encoder = InputEncoder::new("encoder", vec![module], config.hidden_size, limits(2, 4)).unwrap();
    let spec = encoder.input_encoder().unwrap().clone();
    let model = with_encoder(mlp::build(&config).unwrap(), encoder);
    let both = Batch::random(1, 12, 37, 0);
    let input = |num_rows: usize, first: usize| {
        let values = random(&format!("input {num_rows}"), num_rows * spec.widths[0]);
        (InputShape { module: 0, num_rows }, (first..first + num_rows).collect::<Vec<_>>(), values)
    };
    let batch = |shapes: Vec<(InputShape, Vec<usize>, Vec<f32>)>| {
        let tokens = shapes.iter().map(|input| input.1.clone()).collect();
        let values = shapes.iter().map(|input| input.2.clone()).collect();
        let shapes = shapes.iter().map(|input| input.0).collect();
        Batch {
            encoder_inputs: Some(EncoderInputsOfBatch { spec: spec.clone(), shapes, tokens, values }),
            ..both.clone()
        }
    };
    // Tokens do not see each other in the mlp family, so the gradients of two inputs are the sum of those of each.
    let gradients = |shapes| {
        let mut run = Run::new(&model, 1);
        run.step(&batch(shapes), Backward::Full, 1.0);
        run.gradients()
    };
    let [first, second] = [input(4, 1), input(3, 7)];
    let (one, other) = (gradients(vec![first.clone()]), gradients(vec![second.clone()]));
    for (name, gradient) in gradients(vec![first, second]) {
        if name.starts_with("h.7") {
            let want: Vec<f64> =
                one[&name].iter().zip(&other[&name]).map(|(a, b)| f64::from(*a) + f64::from(*b)).collect();
            assert_close(&name, &gradient, &want, 1e-6);
            assert!(gradient.iter().any(|&element| element != 0.0), "{name}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let config = config();
    let projector = |name: &str, widths| EncoderModule::projector(name, widths, 0.02);
    let error = |encoder: Result<InputEncoder, crate::ModelError>| encoder.unwrap_err().to_string();
    let good = || projector("image", [5, 7, 24]).unwrap();
    let head = gpt2::build(&config).unwrap().layers.pop().unwrap().layer;
    for (message, expected) in [
        (
            error(InputEncoder::new("encoder", vec![], 24, limits(1, 1))),
            "modules of encoder = 0: an input encoder has at least one",
        ),
        (
            error(InputEncoder::new("encoder", vec![good()], 24, limits(0, 1))),
            "inputs_per_sequence of encoder = 0: an input encoder has room for 1 to 65536",
        ),
        (
            error(InputEncoder::new("encoder", vec![good()], 24, limits(1, 0))),
            "rows_per_input of encoder = 0: an input encoder has room for 1 to 65536",
        ),
        (
            error(InputEncoder::new("encoder", vec![good(), good()], 24, limits(1, 1))),
            "a module of encoder = image: another module of the input encoder has this name; give each one of its own",
        ),
        (
            error(InputEncoder::new("encoder", vec![good()], 32, limits(1, 1))),
            "elements of a row that module image gives = 24: the model's activations have 32 elements; make them equal",
        ),
        (
            projector("image", [0, 7, 24]).unwrap_err().to_string(),
            "widths of module image = [0, 7, 24]: a row has elements; use 1 or more",
        ),
        (
            EncoderModule::new("image", vec![head]).unwrap_err().to_string(),
            "a layer of module image = lm_head: takes and gives activations, and has a backward in halves",
        ),
    ] {
        assert_eq!(message, expected);
    }
    let two = with_encoder(
        with_encoder(mlp::build(&config).unwrap(), encoder(&config, 1, 1)),
        encoder(&config, 1, 1),
    );
    assert!(two.check(MicroBatchShape { num_sequences: 1, seq_length: 3 }).is_err());
}
