//! The smallest trainer: a golden model on one rank, every layer a unit, nothing sharded, no program.
//!
//! It uses the library's units and optimizer and none of the engine's executor, so that a wrong figure shows
//! which of the two is to blame.

use std::collections::BTreeMap;

use pipezero::config::{NoDecay, OptimizerConfig};
use pipezero::run::optimizer::{DecayRanges, SquareSum, Update, clip_factor};
use pipezero_models::layer::{IGNORED_TARGET, LossSum, MicroBatchShape, Tokens};
use pipezero_models::layout::aligned;
use pipezero_models::model::{Model, ModelLayer, Tying};
use pipezero_models::unit::{UnitBackward, UnitForward};
use pipezero_models::{Buffer, Unit};
use serde_json::Value;

use super::golden::{count, floats, list, number};

/// One layer as a unit, with its parameters, their gradients and the optimizer's state.
struct Part {
    unit: Unit,
    tying: Tying,
    parameters: Buffer,
    gradients: Buffer,
    states: Vec<f32>,
}

impl Part {
    /// A unit with the golden weights.
    fn new(unit: Unit, tying: Tying, weights: &Value, num_states: usize) -> Self {
        let mut parameters = Buffer::zeros(unit.num_elements()).expect("a small buffer fits");
        for entry in unit.entries() {
            let golden = &weights[&entry.spec.name];
            assert_eq!(golden["shape"], serde_json::json!(entry.spec.shape), "shape of {}", entry.spec.name);
            parameters.write(|p| p[entry.range.clone()].copy_from_slice(&floats(&golden["values"])));
        }
        let gradients = Buffer::zeros(unit.num_elements()).expect("a small buffer fits");
        let states = vec![0.0; num_states * unit.num_elements()];
        Self { unit, tying, parameters, gradients, states }
    }
}

/// A step's tokens.
pub(super) struct Batch {
    /// For each micro-batch `[B, T]` inputs and targets.
    micro_batches: Vec<(Vec<u32>, Vec<u32>)>,
    /// Targets of the step, ignored ones included.
    capacity: usize,
}

impl Batch {
    /// The tokens of a golden step; `null` is an ignored target.
    pub(super) fn new(step: &Value) -> Self {
        let token = |value: &Value| value.as_u64().map_or(IGNORED_TARGET, |token| token as u32);
        let tokens = |row: &Value| list(row).iter().map(token).collect::<Vec<u32>>();
        let rows = list(&step["inputs"]).iter().zip(list(&step["targets"]));
        let micro_batches: Vec<_> = rows.map(|(inputs, targets)| (tokens(inputs), tokens(targets))).collect();
        let capacity = micro_batches.iter().map(|(inputs, _)| inputs.len()).sum();
        Self { micro_batches, capacity }
    }

    /// What turns gradients of the sum over `capacity` into those of the mean over the targets that carry loss.
    pub(super) fn loss_scale(&self, outputs: &[Output]) -> f64 {
        let num_targets: u64 = outputs.iter().map(|output| output.loss.num_targets).sum();
        self.capacity as f64 / num_targets as f64
    }
}

/// What a micro-batch's forward gives.
pub(super) struct Output {
    /// Its loss.
    pub(super) loss: LossSum,
    /// `[B, T, V]` logits.
    pub(super) logits: Vec<f32>,
}

/// The model, layer by layer, and how it is trained.
pub(super) struct Training {
    parts: Vec<Part>,
    shape: MicroBatchShape,
    vocab_size: usize,
    config: OptimizerConfig,
    learning_rate: f64,
    max_norm: f64,
}

impl Training {
    /// A model with the weights and the optimizer of a golden file.
    pub(super) fn new(model: &Model, golden: &Value) -> Self {
        let optimizer = &golden["optimizer"];
        let learning_rate = number(&optimizer["lr"]);
        let config = OptimizerConfig::AdamW {
            lr: learning_rate,
            betas: (number(&optimizer["betas"][0]), number(&optimizer["betas"][1])),
            eps: number(&optimizer["eps"]),
            weight_decay: number(&optimizer["weight_decay"]),
            no_decay: NoDecay::OneDimensional,
        };
        let num_states = config.num_states();
        let part = |layer: &ModelLayer| {
            Part::new(Unit::new(vec![layer.layer.clone()]), layer.tying, &golden["weights"], num_states)
        };
        Self {
            parts: model.layers.iter().map(part).collect(),
            shape: MicroBatchShape {
                num_sequences: count(&golden["micro_batch_size"]) as usize,
                seq_length: model.seq_length,
            },
            vocab_size: model.vocab_size,
            config,
            learning_rate,
            max_norm: number(&optimizer["max_norm"]),
        }
    }

    /// Forward and backward of every micro-batch in order. The gradients are those of the loss's sum over `capacity`;
    /// [`Batch::loss_scale`] makes them the mean's.
    pub(super) fn accumulate(&mut self, batch: &Batch) -> Vec<Output> {
        for part in &mut self.parts {
            part.gradients.write(|gradients| gradients.fill(0.0));
        }
        let mut outputs = Vec::new();
        for (inputs, targets) in &batch.micro_batches {
            outputs
                .push(self.micro_batch(Tokens { inputs, targets, masks: None }, 1.0 / batch.capacity as f32));
        }
        self.add_tied_gradients();
        outputs
    }

    fn micro_batch(&mut self, tokens: Tokens<'_>, loss_seed: f32) -> Output {
        let buffer = |len| Buffer::zeros(len).expect("a small buffer fits");
        let (mut loss, mut activation, mut all_saved) = (None, buffer(0), Vec::new());
        for part in &self.parts {
            let sizes = part.unit.sizes(self.shape);
            let (mut output, mut saved) = (buffer(sizes.output), buffer(sizes.saved));
            loss = part.unit.forward(
                self.shape,
                UnitForward {
                    tokens,
                    parameters: &part.parameters,
                    input: &activation,
                    output: &mut output,
                    saved: &mut saved,
                    recomputed: &mut buffer(0),
                    workspace: &mut buffer(sizes.workspace),
                },
            );
            activation = output;
            all_saved.push(saved);
        }
        let logits = self.logits(all_saved.last().expect("a model has layers"));
        let widest = self.parts.iter().map(|part| part.unit.sizes(self.shape).gradient).max().unwrap_or(0);
        let mut gradient = buffer(widest);
        for (part, saved) in self.parts.iter_mut().zip(&mut all_saved).rev() {
            part.unit.backward(
                self.shape,
                UnitBackward {
                    tokens,
                    parameters: &part.parameters,
                    gradient: &mut gradient,
                    saved,
                    recomputed: &mut buffer(0),
                    parameter_gradients: &mut part.gradients,
                    workspace: &mut buffer(part.unit.sizes(self.shape).workspace),
                    loss_seed,
                },
            );
        }
        Output { loss: loss.expect("the last layer computes the loss"), logits }
    }

    /// The logits lie where the head's saved values begin, behind its unit's copy of the input.
    fn logits(&self, saved: &Buffer) -> Vec<f32> {
        let head = &self.parts.last().expect("a model has layers").unit;
        let start = aligned(head.sizes(self.shape).input);
        saved.read()[start..][..self.shape.num_tokens() * self.vocab_size].to_vec()
    }

    /// Adds the two uses of a tied weight, embedding first, and gives both the sum.
    fn add_tied_gradients(&mut self) {
        let position = |tying| self.parts.iter().position(|part| part.tying == tying);
        let (Some(embedding), Some(head)) = (position(Tying::Embedding), position(Tying::Head)) else {
            return;
        };
        let other: Vec<f32> = self.parts[head].gradients.read().to_vec();
        self.parts[embedding].gradients.write(|gradients| {
            gradients.iter_mut().zip(&other).for_each(|(gradient, other)| *gradient += other);
        });
        let sum: Vec<f32> = self.parts[embedding].gradients.read().to_vec();
        self.parts[head].gradients.write(|gradients| gradients.copy_from_slice(&sum));
    }

    /// One clipped optimizer step with the accumulated gradients; returns their norm before clipping.
    pub(super) fn step(&mut self, step: u64, loss_scale: f64) -> f64 {
        let norm = self.norm(loss_scale);
        self.update(step, (loss_scale * clip_factor(norm, self.max_norm)) as f32);
        norm
    }

    /// The norm over every parameter once, were gradients multiplied by `scale`.
    fn norm(&self, scale: f64) -> f64 {
        let mut squares = SquareSum::default();
        for part in self.parts.iter().filter(|part| part.tying != Tying::Head) {
            squares.add_slice(&part.gradients.read());
        }
        squares.sqrt_scaled(scale)
    }

    fn update(&mut self, step: u64, gradient_scale: f32) {
        let optimizer = &self.config;
        for part in &mut self.parts {
            let decay = DecayRanges::of_unit(part.unit.entries(), &NoDecay::OneDimensional);
            let gradients = part.gradients.read();
            part.parameters.write(|parameters| {
                let (states, learning_rate) = (&mut part.states[..], self.learning_rate);
                let gradients = &gradients[..];
                optimizer.update(
                    &decay,
                    Update { parameters, gradients, states, step, learning_rate, gradient_scale },
                );
            });
        }
    }

    /// Every parameter.
    pub(super) fn weights(&self) -> BTreeMap<String, Vec<f32>> {
        self.by_name(|part| &part.parameters)
    }

    /// Every accumulated gradient.
    pub(super) fn gradients(&self) -> BTreeMap<String, Vec<f32>> {
        self.by_name(|part| &part.gradients)
    }

    /// Every parameter's values in the buffers that `of` picks; a tied weight's two copies must be equal.
    fn by_name(&self, of: impl Fn(&Part) -> &Buffer) -> BTreeMap<String, Vec<f32>> {
        let mut tensors = BTreeMap::new();
        for part in &self.parts {
            let buffer = of(part).read();
            for entry in part.unit.entries() {
                let values = buffer[entry.range.clone()].to_vec();
                if let Some(before) = tensors.insert(entry.spec.name.clone(), values.clone()) {
                    assert_eq!(before, values, "the two copies of {}", entry.spec.name);
                }
            }
        }
        tensors
    }
}
