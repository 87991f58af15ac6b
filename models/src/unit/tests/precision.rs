//! Units in 16-bit types against the same layers in f32, rounded by hand wherever a unit says that it rounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use half::{bf16, f16};

use super::super::{Unit, UnitBackwardInput, UnitBackwardWeight, UnitForward};
use crate::buffer::Buffer;
use crate::element::ElementType;
use crate::gpt2;
use crate::layer::{GradientView, LossSum, MaskKey, MicroBatchShape, RowLogits, Tokens};
use crate::layout::aligned;
use crate::mlp;
use crate::model::Model;
use crate::queue::{Host, Queue};
use crate::shared::GptConfig;
use crate::testing::{
    Backward, Batch, Oracle, Run, assert_close, assert_same_bits, config, loss_of, segments,
};

type Gradients = BTreeMap<String, Vec<f32>>;

/// The `half` crate's rounding.
fn rounded(element: ElementType, values: &mut [f32]) {
    for value in values {
        *value = match element {
            ElementType::F32 | ElementType::U32 => *value,
            ElementType::Bf16 => bf16::from_f32(*value).to_f32(),
            ElementType::F16 => f16::from_f32(*value).to_f32(),
        };
    }
}

/// One micro-batch, each layer an f32 unit of its own, rounding what it takes, keeps and hands on.
fn by_hand(model: &Model, element: ElementType, batch: &Batch, loss_seed: f32) -> (LossSum, Gradients) {
    let shape = batch.shape;
    let [inputs, targets] = batch.uploaded();
    let tokens = Tokens {
        inputs: inputs.view(),
        targets: targets.view(),
        document_starts: None,
        loss_inputs: None,
        masks: batch.masks,
        encoder_inputs: None,
    };
    let values = Run::new(model, 1).parameters();
    let units: Vec<Unit> =
        model.layers.iter().map(|layer| Unit::new(vec![Arc::clone(&layer.layer)])).collect();
    let buffer = |len: usize| Buffer::zeros(len).unwrap();
    let mut loss = Buffer::zeros_of(LossSum::NUM_WORDS, ElementType::U32).unwrap();
    let (mut stream, mut kept) = (buffer(0), Vec::new());
    for unit in &units {
        let sizes = unit.sizes(shape);
        let mut parameters = buffer(unit.num_elements());
        for entry in unit.entries() {
            parameters.host_mut()[entry.range.clone()].copy_from_slice(&values[&entry.spec.name].1);
        }
        rounded(element, parameters.host_mut());
        let (mut output, mut saved) = (buffer(sizes.output), buffer(sizes.saved));
        unit.forward(
            &Host,
            shape,
            UnitForward {
                tokens,
                parameters: parameters.view().into(),
                input: &stream,
                output: &mut output,
                saved: &mut saved,
                recomputed: &mut buffer(0),
                workspace: &mut buffer(sizes.workspace),
                loss: loss.view_mut(),
                row_logits: None,
            },
        );
        rounded(element, output.host_mut());
        round_saved(unit, shape, element, &mut saved);
        stream = output;
        kept.push((parameters, saved));
    }
    let mut gradients = Gradients::new();
    let widest = units.iter().map(|unit| unit.sizes(shape).gradient).max().unwrap();
    let mut gradient = buffer(widest);
    for (unit, (parameters, saved)) in units.iter().zip(&mut kept).rev() {
        let sizes = unit.sizes(shape);
        let (mut weight_inputs, mut workspace) = (buffer(sizes.weight_inputs), buffer(sizes.workspace));
        let (gradient, weight_inputs, workspace) = (&mut gradient, &mut weight_inputs, &mut workspace);
        unit.backward_input(
            &Host,
            shape,
            UnitBackwardInput {
                tokens,
                parameters: parameters.view().into(),
                gradient,
                saved,
                weight_inputs,
                workspace,
                loss_seed,
            },
        );
        rounded(element, &mut gradient.host_mut()[..sizes.input]);
        // Gradients of parameters, which stay f32, are behind the rest.
        rounded(element, &mut weight_inputs.host_mut()[..unit.layers()[0].sizes(shape).weight_inputs]);
        round_saved(unit, shape, element, saved);
        let mut parameter_gradients = buffer(unit.num_elements());
        unit.backward_weight(
            &Host,
            shape,
            UnitBackwardWeight {
                tokens,
                saved,
                weight_inputs,
                parameter_gradients: GradientView::overwriting(parameter_gradients.view_mut()).into(),
                workspace,
            },
        );
        for entry in unit.entries() {
            let values = parameter_gradients.host()[entry.range.clone()].to_vec();
            assert!(gradients.insert(entry.spec.name.clone(), values).is_none(), "no tied weights here");
        }
    }
    (loss_of(&loss), gradients)
}

/// The input was rounded as the output of the layer before; what is exact is behind the rest.
fn round_saved(unit: &Unit, shape: MicroBatchShape, element: ElementType, saved: &mut Buffer) {
    let sizes = unit.layers()[0].sizes(shape);
    let start = aligned(sizes.input);
    rounded(element, &mut saved.host_mut()[start..][..sizes.saved]);
}

const HALVES: [ElementType; 2] = [ElementType::Bf16, ElementType::F16];

#[test]
fn a_unit_rounds_exactly_where_it_says_however_layers_are_grouped_split_and_recomputed() {
    let config = GptConfig { dropout: 0.1, ..config() };
    let masks = Some(MaskKey { seed: 1, step: 2, first_sequence: 3 });
    let batch = Batch { masks, ..Batch::random(2, 13, 37, 5) };
    let mlp = mlp::build(&GptConfig { dropout: 0.0, ..config.clone() }).unwrap();
    for (model, element) in
        [gpt2::build(&config).unwrap(), mlp].iter().flat_map(|model| HALVES.map(|element| (model, element)))
    {
        let (want_loss, want) = by_hand(model, element, &batch, 0.03);
        let check = |what: &str, mut run: Run, backward| {
            let loss = run.step(&batch, backward, 0.03);
            assert_eq!(loss, want_loss, "{element:?}, {what}");
            for (name, gradient) in run.gradients() {
                assert_same_bits(&format!("{name}, {element:?}, {what}"), &gradient, &want[&name]);
            }
        };
        for layers_per_unit in [1, 2, 3, 100] {
            let run = || Run::new(model, layers_per_unit).with_precision(element);
            check(&format!("units of {layers_per_unit}"), run(), Backward::Full);
            check(&format!("halves of units of {layers_per_unit}"), run(), Backward::Split);
            let whole = run().with_checkpoints(|num_layers| segments([(0, num_layers)]));
            check(&format!("checkpointed units of {layers_per_unit}"), whole, Backward::Full);
        }
        let two = Run::new(model, 100).with_precision(element);
        check("segments", two.with_checkpoints(|_| segments([(1, 2), (2, 4)])), Backward::Full);
    }
}

/// Against f64 at the same rounded parameters. Rounding to 8 bits is an error of up to 2^-9 of each value, to 11 bits
/// of 2^-12; about ten of them follow each other on the way through two blocks and back.
#[test]
fn gradients_are_those_of_f64_within_the_types_precision() {
    let config = config();
    let model = gpt2::build(&config).unwrap();
    let batch = Batch::random(2, 13, 37, 5);
    for (element, unit_in_the_last_place) in
        [(ElementType::Bf16, 1.0 / 256.0), (ElementType::F16, 1.0 / 2048.0)]
    {
        let mut run = Run::new(&model, 2).with_precision(element);
        let oracle = Oracle::new(&config, &run);
        let want_loss = oracle.gpt2_loss(&batch).unwrap();
        let loss = run.step(&batch, Backward::Full, 0.03);
        let want = oracle.gradients(&want_loss, 0.03);
        let want_loss = want_loss.to_scalar::<f64>().unwrap();
        assert!((loss.sum - want_loss).abs() <= unit_in_the_last_place * want_loss, "{element:?}");
        let mut num_exact = 0;
        for (name, gradient) in run.gradients() {
            // A key's bias moves all scores of a row alike: its gradient is zero but for rounding.
            let qkv_bias = name.ends_with("attn.qkv.bias");
            let cut = if qkv_bias { 0..24 } else { 0..gradient.len() };
            let want = &want[&name][cut.clone()];
            assert_close(&format!("{name}, {element:?}"), &gradient[cut], want, 8.0 * unit_in_the_last_place);
            let is_exact = |(got, want): (&f32, &f64)| (f64::from(*got) - want).abs() < 1e-6 * want.abs();
            num_exact += gradient.iter().zip(want).filter(|&pair| is_exact(pair)).count();
        }
        let num: usize = want.values().map(Vec::len).sum();
        assert!(num_exact < num / 10, "{element:?} rounds nothing");
    }
}

#[test]
fn a_gradient_beyond_the_range_of_f16_is_seen_and_bf16_carries_it() {
    let model = gpt2::build(&config()).unwrap();
    let batch = Batch::random(2, 13, 37, 5);
    let is_finite = |element, loss_seed| {
        let mut run = Run::new(&model, 2).with_precision(element);
        assert!(run.step(&batch, Backward::Full, loss_seed).sum.is_finite());
        run.gradients().values().flatten().all(|x| x.is_finite())
    };
    assert!(is_finite(ElementType::F16, 100.0));
    assert!(!is_finite(ElementType::F16, 1e6));
    assert!(is_finite(ElementType::Bf16, 1e6));
}

#[test]
fn half_the_bytes_are_kept_but_for_what_stays_exact() {
    let layers = super::layers();
    let shape = MicroBatchShape { num_sequences: 2, seq_length: 13 };
    // A transformer block.
    let unit = |element| Unit::new(layers[1..3].to_vec()).with_precision(element);
    let wide = unit(ElementType::F32).sizes(shape);
    for element in HALVES {
        let narrow = unit(element).sizes(shape);
        assert_eq!((narrow.input, narrow.output, narrow.gradient), (wide.input, wide.output, wide.gradient));
        // Log-sum-exps of 3 heads, means and deviations of both norms, in two elements each.
        let stored = |layer: usize, num_exact: usize| {
            let sizes = layers[layer].sizes(shape);
            assert_eq!(sizes.exact, num_exact);
            aligned(sizes.input) + aligned(sizes.saved) + aligned(2 * sizes.exact)
        };
        assert_eq!(narrow.saved, stored(1, aligned(26 * 3) + 26 * 2) + stored(2, 26 * 2));
        assert!(narrow.saved < wide.saved * 11 / 10, "of half the bytes each");
        // One layer's parameters and activations in f32.
        assert!(narrow.workspace > wide.workspace);
    }
}

#[test]
fn logits_are_f32_in_every_type() {
    let layers = super::layers();
    let head = |element| Unit::new(vec![layers[layers.len() - 1].clone()]).with_precision(element);
    let batch = Batch::random(1, 3, 37, 0);
    let logits = |element| {
        let unit = head(element);
        let sizes = unit.sizes(batch.shape);
        let zeros = |len| Buffer::zeros_of(len, element).unwrap();
        let (mut parameters, mut input, mut saved) =
            (zeros(unit.num_elements()), zeros(sizes.input), zeros(sizes.saved));
        // Values that every type has, and sums of many of them.
        let ramp = |len: usize, step: f32| -> Buffer {
            Buffer::from_vec((0..len).map(|i| (i % 19) as f32 * step - 1.0).collect()).unwrap()
        };
        Host.copy(ramp(unit.num_elements(), 0.125).view(), parameters.view_mut());
        Host.copy(ramp(sizes.input, 0.0625).view(), input.view_mut());
        let [inputs, targets] = batch.uploaded();
        let mut logits = Buffer::zeros(37).unwrap();
        let row_logits = Some(RowLogits { rows: 1..2, logits: logits.view_mut() });
        unit.forward(
            &Host,
            batch.shape,
            UnitForward {
                tokens: Tokens {
                    inputs: inputs.view(),
                    targets: targets.view(),
                    document_starts: None,
                    loss_inputs: None,
                    masks: None,
                    encoder_inputs: None,
                },
                parameters: parameters.view().into(),
                input: &input,
                output: &mut zeros(0),
                saved: &mut saved,
                recomputed: &mut zeros(0),
                workspace: &mut Buffer::zeros(sizes.workspace).unwrap(),
                loss: Buffer::zeros_of(0, ElementType::U32).unwrap().view_mut(),
                row_logits,
            },
        );
        logits.host().to_vec()
    };
    let want = logits(ElementType::F32);
    assert!(want.iter().any(|&x| x != bf16::from_f32(x).to_f32()), "sums that bf16 would round");
    for element in HALVES {
        assert_same_bits("logits", &logits(element), &want);
    }
}
