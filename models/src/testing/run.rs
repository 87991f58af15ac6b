//! Runs of a whole model over units of a given number of layers.

use std::array;
use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Result, Tensor};

use super::{Oracle, assert_close, assert_close_of, assert_same_bits, largest};
use crate::buffer::Buffer;
use crate::element::ElementType;
use crate::init;
use crate::input_encoder::{EncoderInputs, EncoderSpec, InputShape, NO_ROW};
use crate::layer::{IGNORED_TARGET, Layer, LossSum, MaskKey, MicroBatchShape, Slice, Tokens, WriteMode};
use crate::model::Model;
use crate::parameter::ParameterSpec;
use crate::queue::{Host, Queue};
use crate::shared::GptConfig;
use crate::unit::{Unit, UnitBackward, UnitBackwardInput, UnitBackwardWeight, UnitForward, UnitRecompute};
use crate::views::{GradientView, MAX_PARTS, PartGradients, PartViews};

/// Ranges as segments are given; a list of one range looks like a slip to clippy.
pub(crate) fn segments<const K: usize>(ranges: [(usize, usize); K]) -> Vec<Range<usize>> {
    ranges.map(|(start, end)| start..end).into()
}

/// Elements behind every buffer's own, as shards need; they are zero where they are parameters or gradients.
const PADDING: usize = 5;

/// How a backward is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backward {
    /// At once.
    Full,
    /// All input gradients, then all weight gradients.
    Split,
}

/// A micro-batch of random tokens.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) shape: MicroBatchShape,
    pub(crate) inputs: Vec<u32>,
    pub(crate) targets: Vec<u32>,
    pub(crate) document_starts: Option<Vec<u32>>,
    pub(crate) masks: Option<MaskKey>,
    pub(crate) encoder_inputs: Option<EncoderInputsOfBatch>,
}

/// The inputs of an input encoder.
#[derive(Clone, Debug)]
pub(crate) struct EncoderInputsOfBatch {
    pub(crate) spec: EncoderSpec,
    pub(crate) shapes: Vec<InputShape>,
    /// Of each input the tokens that its rows are added to.
    pub(crate) tokens: Vec<Vec<usize>>,
    /// `[rows, width]` of each input.
    pub(crate) values: Vec<Vec<f32>>,
}

impl EncoderInputsOfBatch {
    /// The values, and the rows of tokens, where kernels read them.
    fn uploaded(&self, shape: MicroBatchShape) -> [Buffer; 2] {
        let mut values = vec![f32::NAN; self.spec.num_values(shape)];
        let mut rows = vec![NO_ROW; shape.num_tokens()];
        for (index, &input) in self.shapes.iter().enumerate() {
            values[self.spec.values_of(index, input)].copy_from_slice(&self.values[index]);
            for (row, &token) in self.tokens[index].iter().enumerate() {
                rows[token] = self.spec.row(index, row);
            }
        }
        [Buffer::from_vec(values).unwrap(), Buffer::from_vec(rows).unwrap()]
    }
}

/// Standard normal values.
pub(crate) fn random(name: &str, len: usize) -> Vec<f32> {
    let mut values = vec![0.0; len];
    init::fill(&ParameterSpec::normal(name, [len], 1.0), 0, 0, &mut values);
    values
}

impl Batch {
    /// Every `masked`-th target carries no loss; 0 masks none.
    pub(crate) fn random(num_sequences: usize, seq_length: usize, vocab_size: usize, masked: usize) -> Self {
        let tokens = |name| -> Vec<u32> {
            let values = random(name, num_sequences * seq_length);
            values.iter().map(|x| (x.abs() * 1e4) as u32 % vocab_size as u32).collect()
        };
        let mut targets = tokens("targets");
        if masked > 0 {
            targets.iter_mut().step_by(masked).for_each(|target| *target = IGNORED_TARGET);
        }
        Self {
            shape: MicroBatchShape { num_sequences, seq_length },
            inputs: tokens("inputs"),
            targets,
            document_starts: None,
            masks: None,
            encoder_inputs: None,
        }
    }

    /// The same tokens in documents of these lengths, over and over; each row begins with a new one.
    pub(crate) fn in_documents(self, lens: &[usize]) -> Self {
        let starts_of_row = |_| {
            let mut starts = Vec::with_capacity(self.shape.seq_length);
            for &len in lens.iter().cycle() {
                let start = starts.len() as u32;
                starts.extend((0..len.min(self.shape.seq_length - starts.len())).map(|_| start));
                if starts.len() == self.shape.seq_length {
                    break;
                }
            }
            starts
        };
        let starts = (0..self.shape.num_sequences).flat_map(starts_of_row).collect();
        Self { document_starts: Some(starts), ..self }
    }

    /// Where the document of a token of the micro-batch begins in its row.
    pub(crate) fn document_start(&self, n: usize) -> usize {
        self.document_starts.as_ref().map_or(0, |starts| starts[n] as usize)
    }

    /// `[B, T, T]`: what the scores of queries with keys are masked with: the definition, pair by pair.
    pub(crate) fn score_mask(&self) -> Vec<f64> {
        let length = self.shape.seq_length;
        let pairs = (0..self.shape.num_tokens()).flat_map(|n| (0..length).map(move |key| (n, key)));
        pairs
            .map(|(n, key)| if (self.document_start(n)..=n % length).contains(&key) { 0.0 } else { -1e30 })
            .collect()
    }

    /// The tokens where kernels read them.
    pub(crate) fn uploaded(&self) -> [Buffer; 2] {
        [&self.inputs, &self.targets].map(|tokens| Buffer::from_vec(tokens.clone()).unwrap())
    }
}

/// A model as a chain of units with parameters and gradients.
pub(crate) struct Run {
    pub(crate) units: Vec<Unit>,
    parameters: Vec<[Buffer; MAX_PARTS]>,
    gradients: Vec<[Buffer; MAX_PARTS]>,
    /// `[part]`: what the next micro-batch does to the gradients.
    modes: [WriteMode; MAX_PARTS],
    /// `[part]`: what all later ones do.
    later_modes: [WriteMode; MAX_PARTS],
    /// The parts whose parameters are not trained.
    frozen: Vec<usize>,
    element: ElementType,
}

/// NaN, which shows any read of what was never written.
fn filled(len: usize, element: ElementType) -> Buffer {
    let nan = Buffer::from_vec(vec![f32::NAN; len + PADDING]).unwrap();
    converted(&nan, element)
}

/// The loss in a buffer of its words.
pub(crate) fn loss_of(buffer: &Buffer) -> LossSum {
    let mut words = [0; LossSum::NUM_WORDS];
    Host.download(buffer.view(), &mut words).unwrap();
    LossSum::from_words(words)
}

fn converted(buffer: &Buffer, element: ElementType) -> Buffer {
    let mut converted = Buffer::zeros_of(buffer.len(), element).unwrap();
    Host.copy(buffer.view(), converted.view_mut());
    converted
}

fn views(parts: &[Buffer; MAX_PARTS]) -> PartViews<'_> {
    PartViews(parts.each_ref().map(|part| Some(part.view())))
}

fn gradients<'a>(
    parts: &'a mut [Buffer; MAX_PARTS],
    modes: [WriteMode; MAX_PARTS],
    frozen: &[usize],
) -> PartGradients<'a> {
    let mut views = PartGradients::default();
    for (part, (to, mode)) in parts.iter_mut().zip(modes).enumerate() {
        views.0[part] = (!frozen.contains(&part)).then(|| GradientView { to: to.view_mut(), mode });
    }
    views
}

impl Run {
    /// Units of `layers_per_unit` layers, and slices one each. Parameters are drawn anew so that no bias is 0 and no norm 1. Gradients are NaN, which
    /// the first micro-batch overwrites.
    pub(crate) fn new(model: &Model, layers_per_unit: usize) -> Self {
        Self::in_parts(model, layers_per_unit, |_| 0)
    }

    /// The same with the parameters of units in parts.
    pub(crate) fn in_parts(
        model: &Model,
        layers_per_unit: usize,
        part_of: impl Fn(&ParameterSpec) -> usize,
    ) -> Self {
        let layers: Vec<_> = model.layers.iter().map(|layer| Arc::clone(&layer.layer)).collect();
        let is_whole = |layer: &Arc<dyn Layer>| layer.table_slice() == Slice::WHOLE;
        let groups = layers.chunk_by(|one, other| is_whole(one) && is_whole(other));
        let units = groups.flat_map(|layers| layers.chunks(layers_per_unit));
        let unit = |layers: &[Arc<dyn Layer>]| {
            let unit = Unit::new(layers.to_vec());
            let parts: Vec<usize> = unit.entries().iter().map(|entry| part_of(&entry.spec)).collect();
            unit.with_parts(|index| parts[index])
        };
        let units: Vec<Unit> = units.map(unit).collect();
        let zeros = |len: usize| Buffer::zeros(len + PADDING).unwrap();
        let parts = |unit: &Unit| array::from_fn(|part| unit.num_elements_of(part));
        let mut run = Self {
            parameters: units.iter().map(|unit| parts(unit).map(zeros)).collect(),
            gradients: units
                .iter()
                .map(|unit| parts(unit).map(|len| filled(len, ElementType::F32)))
                .collect(),
            modes: [WriteMode::Overwrite; MAX_PARTS],
            later_modes: [WriteMode::Add; MAX_PARTS],
            frozen: Vec::new(),
            units,
            element: ElementType::F32,
        };
        for (unit, parameters) in run.units.iter().zip(&mut run.parameters) {
            for entry in unit.entries() {
                let base = f32::from(u8::from(entry.spec.init == crate::parameter::Init::Ones));
                let values = random(&entry.spec.name, entry.spec.num_elements_of_all());
                let values = &values[entry.spec.first_element()..];
                for (element, value) in
                    parameters[entry.part].host_mut()[entry.range.clone()].iter_mut().zip(values)
                {
                    *element = base + 0.2 * value;
                }
            }
        }
        run
    }

    /// The same run with gradients of zero, which the first micro-batch adds to.
    pub(crate) fn adding_to_zeros(mut self) -> Self {
        self.gradients.iter_mut().flatten().for_each(|gradients| gradients.host_mut().fill(0.0));
        Self { modes: [WriteMode::Add; MAX_PARTS], ..self }
    }

    /// The same run in which gradients of this part are those of the last micro-batch alone.
    pub(crate) fn overwriting(mut self, part: usize) -> Self {
        self.later_modes[part] = WriteMode::Overwrite;
        self
    }

    /// The same run in which no parameter of this part is trained: its gradients stay NaN.
    pub(crate) fn freezing(mut self, part: usize) -> Self {
        self.frozen.push(part);
        self
    }

    /// The same run in another type, its parameters rounded to it.
    pub(crate) fn with_precision(mut self, element: ElementType) -> Self {
        self.units = self.units.into_iter().map(|unit| unit.with_precision(element)).collect();
        let converted = |parts: &[Buffer; MAX_PARTS]| parts.each_ref().map(|part| converted(part, element));
        self.parameters = self.parameters.iter().map(converted).collect();
        self.element = element;
        self
    }

    /// The same run with the segments that `segments_of` says for a unit, given its number of layers.
    pub(crate) fn with_checkpoints(mut self, segments_of: impl Fn(usize) -> Vec<Range<usize>>) -> Self {
        let checkpointed = self.units.into_iter().map(|unit| {
            let segments = segments_of(unit.layers().len());
            unit.with_checkpoints(segments)
        });
        self.units = checkpointed.collect();
        self
    }

    /// One micro-batch: the loss, with the gradients added to those before it, if there were any.
    pub(crate) fn step(&mut self, batch: &Batch, backward: Backward, loss_seed: f32) -> LossSum {
        let modes = mem::replace(&mut self.modes, self.later_modes);
        let sizes: Vec<_> = self.units.iter().map(|unit| unit.sizes(batch.shape)).collect();
        let stored = |len: usize| filled(len, self.element);
        let wide = |len: usize| filled(len, ElementType::F32);
        let mut workspace = wide(sizes.iter().map(|sizes| sizes.workspace).max().unwrap_or(0));
        // One buffer for all units, as large as the largest needs it.
        let mut recomputed = stored(sizes.iter().map(|sizes| sizes.recompute).max().unwrap_or(0));
        let mut saved: Vec<_> = sizes.iter().map(|sizes| stored(sizes.saved)).collect();
        let [inputs, targets] = batch.uploaded();
        let document_starts = batch.document_starts.clone().map(|starts| Buffer::from_vec(starts).unwrap());
        let encoder = batch.encoder_inputs.as_ref().map(|encoder| (encoder, encoder.uploaded(batch.shape)));
        let encoder = encoder.as_ref().map(|(encoder, [values, rows])| EncoderInputs {
            shapes: &encoder.shapes,
            values: values.view(),
            rows: rows.view(),
        });
        let tokens = Tokens {
            encoder_inputs: encoder,
            inputs: inputs.view(),
            targets: targets.view(),
            document_starts: document_starts.as_ref().map(Buffer::view),
            loss_inputs: None,
            masks: batch.masks,
        };
        let shape = batch.shape;
        let mut input = stored(0);
        let mut loss = Buffer::zeros_of(LossSum::NUM_WORDS, ElementType::U32).unwrap();
        // Slices have one buffer of each kind: that of the first.
        let first_slice = |index: usize| index - self.units[index].table_slice().index;
        let mut output = stored(0);
        for (index, (unit, parameters)) in self.units.iter().zip(&self.parameters).enumerate() {
            if unit.table_slice().is_first() {
                output = stored(sizes[index].output);
            }
            unit.forward(
                &Host,
                shape,
                UnitForward {
                    tokens,
                    parameters: views(parameters),
                    input: &input,
                    output: &mut output,
                    saved: &mut saved[first_slice(index)],
                    recomputed: &mut recomputed,
                    workspace: &mut workspace,
                    loss: loss.view_mut(),
                    row_logits: None,
                },
            );
            if unit.table_slice().is_last() {
                mem::swap(&mut input, &mut output);
            }
        }
        let mut gradient = wide(sizes.iter().map(|sizes| sizes.gradient).max().unwrap_or(0));
        let mut weight_input_buffers: Vec<_> =
            sizes.iter().map(|sizes| stored(sizes.weight_inputs)).collect();
        for index in (0..self.units.len()).rev() {
            let (unit, parameters) = (&self.units[index], views(&self.parameters[index]));
            let (saved, parameter_gradients) =
                (&mut saved[first_slice(index)], gradients(&mut self.gradients[index], modes, &self.frozen));
            let (gradient, workspace, weight_inputs) =
                (&mut gradient, &mut workspace, &mut weight_input_buffers[first_slice(index)]);
            let recomputed = &mut recomputed;
            let poison = filled(recomputed.len(), recomputed.element_type());
            Host.copy(poison.view().range(0..recomputed.len()), recomputed.view_mut());
            unit.recompute(&Host, shape, UnitRecompute { tokens, parameters, saved, recomputed, workspace });
            match backward {
                Backward::Full => unit.backward(
                    &Host,
                    shape,
                    UnitBackward {
                        tokens,
                        parameters,
                        gradient,
                        saved,
                        recomputed,
                        parameter_gradients,
                        workspace,
                        loss_seed,
                    },
                ),
                Backward::Split => unit.backward_input(
                    &Host,
                    shape,
                    UnitBackwardInput {
                        tokens,
                        parameters,
                        gradient,
                        saved,
                        weight_inputs,
                        workspace,
                        loss_seed,
                    },
                ),
            }
        }
        if backward == Backward::Split {
            for (index, unit) in self.units.iter().enumerate() {
                let first_slice = first_slice(index);
                let (saved, weight_inputs) = (&saved[first_slice], &weight_input_buffers[first_slice]);
                let (parameter_gradients, workspace) =
                    (gradients(&mut self.gradients[index], modes, &self.frozen), &mut workspace);
                unit.backward_weight(
                    &Host,
                    shape,
                    UnitBackwardWeight { tokens, saved, weight_inputs, parameter_gradients, workspace },
                );
            }
        }
        for (unit, gradients) in self.units.iter().zip(&self.gradients) {
            for (part, gradients) in gradients.iter().enumerate() {
                if self.frozen.contains(&part) {
                    assert!(
                        gradients.host().iter().all(|value| value.is_nan()),
                        "a frozen part was written to"
                    );
                    continue;
                }
                let padding = &gradients.host()[unit.num_elements_of(part)..];
                assert_eq!(padding, [0.0; PADDING], "padding was written to");
            }
        }
        loss_of(&loss)
    }

    /// Parameters by name, the slices of one put together; a tied weight's two uses have one value.
    pub(crate) fn parameters(&self) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
        let mut all = BTreeMap::new();
        for (unit, parameters) in self.units.iter().zip(&self.parameters) {
            let parameters = parameters.each_ref().map(|part| converted(part, ElementType::F32));
            for entry in unit.entries() {
                let (shape, len) = (entry.spec.shape.clone(), entry.spec.num_elements_of_all());
                let (_, all): &mut (_, Vec<f32>) =
                    all.entry(entry.spec.name.clone()).or_insert_with(|| (shape, vec![f32::NAN; len]));
                all[entry.spec.first_element()..][..entry.range.len()]
                    .copy_from_slice(&parameters[entry.part].host()[entry.range.clone()]);
            }
        }
        all
    }

    /// Every element of the gradients, those between and behind parameters too, unit by unit.
    pub(crate) fn gradient_elements(&self) -> Vec<f32> {
        self.gradients.iter().flatten().flat_map(|gradients| gradients.host().to_vec()).collect()
    }

    /// Gradients by name, those of slices put together; the uses of a tied weight are added.
    pub(crate) fn gradients(&self) -> BTreeMap<String, Vec<f32>> {
        let mut all = BTreeMap::<String, Vec<f32>>::new();
        for (unit, gradients) in self.units.iter().zip(&self.gradients) {
            for entry in unit.entries() {
                let values = &gradients[entry.part].host()[entry.range.clone()];
                let len = entry.spec.num_elements_of_all();
                let sum = all.entry(entry.spec.name.clone()).or_insert_with(|| vec![0.0; len]);
                sum[entry.spec.first_element()..]
                    .iter_mut()
                    .zip(values)
                    .for_each(|(sum, value)| *sum += value);
            }
        }
        all
    }
}

/// Asserts that the loss and every gradient of two micro-batches equal the oracle's.
///
/// Tolerance: f32 carries 6e-8 per operation; sums of a few hundred terms through a few layers make 1e-6 of that, and
/// 1e-5 is the bound that this project states for its gradients. It is a part of the largest element of a parameter's gradient. Where terms cancel, as those
/// of keys do where each token attends to itself alone, their rounding is left: 1e-7 of the largest element of all gradients.
pub(crate) fn check_against_oracle(
    config: &GptConfig,
    model: &Model,
    batch: &Batch,
    loss_of: impl Fn(&Oracle, &Batch) -> Result<Tensor>,
) {
    let mut run = Run::new(model, 2);
    let oracle = Oracle::new(config, &run);
    let want = loss_of(&oracle, batch).unwrap();
    for _ in 0..2 {
        let loss = run.step(batch, Backward::Full, 0.03);
        assert_close("loss", &[loss.sum as f32], &[want.to_scalar::<f64>().unwrap()], 2e-6);
    }
    let gradients = run.gradients();
    let want = oracle.gradients(&want, 2.0 * 0.03);
    assert_eq!(gradients.len(), want.len());
    let of_all = want.values().map(|of| largest(of)).fold(0.0, f64::max);
    for (name, want) in want {
        let scale = largest(&want).max(1e-2 * of_all);
        assert_close_of(&format!("{name} of {config:?}"), &gradients[&name], &want, 1e-5, scale);
    }
}

/// Losses, and gradients by name.
pub(crate) type StepResult = ([LossSum; 2], BTreeMap<String, Vec<f32>>);

/// The losses and gradients of two micro-batches.
pub(crate) fn result(mut run: Run, batch: &Batch, backward: Backward) -> StepResult {
    let losses = [0; 2].map(|_| run.step(batch, backward, 0.03));
    (losses, run.gradients())
}

/// Asserts equality of every bit.
#[track_caller]
pub(crate) fn assert_same_result(what: &str, got: &StepResult, want: &StepResult) {
    assert_eq!(got.0, want.0, "{what}");
    for (name, gradient) in &got.1 {
        assert_same_bits(&format!("{name}, {what}"), gradient, &want.1[name]);
    }
}
