//! A unit: consecutive layers whose parameters live in one flat buffer and are gathered at once.

use std::ops::Range;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::layer::{Layer, LossSum, MicroBatchShape, Tokens};
use crate::parameter::ParameterSpec;

/// Where one parameter lies in its unit's flat buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterEntry {
    /// The parameter.
    pub spec: ParameterSpec,
    /// Its elements in the flat buffer.
    pub range: Range<usize>,
}

/// How many elements a unit needs for one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitSizes {
    /// Elements of the input activation; 0 for a unit that begins with tokens.
    pub input: usize,
    /// Elements of the output activation; 0 for a unit that ends with the loss.
    pub output: usize,
    /// Elements kept from forward to backward: every layer's input and saved values.
    pub saved: usize,
    /// Elements from input gradient to weight gradient when the two are apart: the sum over the layers.
    pub stash: usize,
    /// Scratch of forward, full backward and both halves; holds one layer's stash for the full backward.
    pub workspace: usize,
    /// Elements of the gradient that runs through the unit: the widest activation.
    pub gradient: usize,
}

/// Consecutive layers with one flat parameter buffer.
#[derive(Clone, Debug)]
pub struct Unit {
    layers: Vec<Arc<dyn Layer>>,
    entries: Vec<ParameterEntry>,
    num_elements: usize,
}

/// What a unit's forward works on.
#[derive(Debug)]
pub struct UnitForward<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's gathered parameters; may be longer than the unit (padding).
    pub parameters: &'a Buffer,
    /// The input activation; may be longer; not read by a unit that begins with tokens.
    pub input: &'a Buffer,
    /// The output activation, overwritten; may be longer; not written by a unit that ends with the loss.
    pub output: &'a mut Buffer,
    /// `[UnitSizes::saved]`, overwritten.
    pub saved: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
}

/// What a unit's full backward works on.
#[derive(Debug)]
pub struct UnitBackward<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's gathered parameters; not read where [`Unit::backward_reads_weights`] is false.
    pub parameters: &'a Buffer,
    /// `[UnitSizes::gradient]` or longer: the output's gradient on entry, the input's on return.
    pub gradient: &'a mut Buffer,
    /// `[UnitSizes::saved]`; its contents are used up.
    pub saved: &'a mut Buffer,
    /// The unit's flat parameter gradient, added to; may be longer (padding).
    pub parameter_gradients: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
    /// See [`crate::layer::BackwardInputArgs::loss_seed`].
    pub loss_seed: f32,
}

/// What a unit's input gradient works on.
#[derive(Debug)]
pub struct UnitBackwardInput<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// The unit's gathered parameters; not read where [`Unit::backward_reads_weights`] is false.
    pub parameters: &'a Buffer,
    /// `[UnitSizes::gradient]` or longer: the output's gradient on entry, the input's on return.
    pub gradient: &'a mut Buffer,
    /// `[UnitSizes::saved]`; the weight gradient reads what is left here.
    pub saved: &'a mut Buffer,
    /// `[UnitSizes::stash]`, overwritten.
    pub stash: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
    /// See [`crate::layer::BackwardInputArgs::loss_seed`].
    pub loss_seed: f32,
}

/// What a unit's weight gradient works on.
#[derive(Debug)]
pub struct UnitBackwardWeight<'a> {
    /// The tokens of the micro-batch.
    pub tokens: Tokens<'a>,
    /// `[UnitSizes::saved]` as the input gradient left it.
    pub saved: &'a Buffer,
    /// `[UnitSizes::stash]` as the input gradient left it.
    pub stash: &'a Buffer,
    /// The unit's flat parameter gradient, added to; may be longer (padding).
    pub parameter_gradients: &'a mut Buffer,
    /// `[UnitSizes::workspace]` or longer.
    pub workspace: &'a mut Buffer,
}

impl Unit {
    /// A unit of these layers, in order. Every parameter starts at a multiple of 16 elements (64 bytes).
    pub fn new(layers: Vec<Arc<dyn Layer>>) -> Self {
        let _ = layers;
        unimplemented!("body to be written; the signature is the contract")
    }

    /// The layers in order.
    pub fn layers(&self) -> &[Arc<dyn Layer>] {
        &self.layers
    }

    /// Where each parameter lies, in declaration order; gaps between entries stay zero.
    pub fn entries(&self) -> &[ParameterEntry] {
        &self.entries
    }

    /// Elements of the flat buffer, gaps counted, padding for shards not.
    pub fn num_elements(&self) -> usize {
        self.num_elements
    }

    /// Number of parameters: elements without gaps.
    pub fn num_parameters(&self) -> usize {
        self.entries.iter().map(|entry| entry.range.len()).sum()
    }

    /// Whether any layer's input gradient reads the parameters.
    pub fn backward_reads_weights(&self) -> bool {
        self.layers.iter().any(|layer| layer.backward_reads_weights())
    }

    /// What the unit needs for a micro-batch of this shape.
    pub fn sizes(&self, shape: MicroBatchShape) -> UnitSizes {
        let _ = shape;
        unimplemented!()
    }

    /// Runs the layers in order; returns the loss if the last one computes it.
    pub fn forward(&self, shape: MicroBatchShape, args: UnitForward<'_>) -> Option<LossSum> {
        let _ = (shape, args);
        unimplemented!()
    }

    /// The full backward, layer by layer from the last.
    pub fn backward(&self, shape: MicroBatchShape, args: UnitBackward<'_>) {
        let _ = (shape, args);
        unimplemented!()
    }

    /// The input gradient, layer by layer from the last.
    pub fn backward_input(&self, shape: MicroBatchShape, args: UnitBackwardInput<'_>) {
        let _ = (shape, args);
        unimplemented!()
    }

    /// The weight gradient of every layer, from the last; bit-identical to the full backward's.
    pub fn backward_weight(&self, shape: MicroBatchShape, args: UnitBackwardWeight<'_>) {
        let _ = (shape, args);
        unimplemented!()
    }
}
