//! A unit: consecutive layers whose parameters live in one flat buffer and are gathered at once.
//!
//! The saved buffer holds, for each layer, `[input | saved]`. A layer writes its output where the next one reads its
//! input, so nothing is copied between layers; only the first input is copied in. The gradient runs in place.

mod args;
mod regions;
mod run;
#[cfg(test)]
mod tests;

pub use args::{UnitBackward, UnitBackwardInput, UnitBackwardWeight, UnitForward};

use std::ops::Range;
use std::sync::Arc;

use crate::layer::{Layer, LayerSizes, MicroBatchShape};
use crate::layout::{self, aligned};
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
    /// The flat parameter elements of each layer, from its first parameter's start to its last one's end.
    ranges: Vec<Range<usize>>,
    entries: Vec<ParameterEntry>,
    num_elements: usize,
}

impl Unit {
    /// A unit of these layers, in order. Every parameter starts at a multiple of [`layout::ALIGNMENT`] elements.
    pub fn new(layers: Vec<Arc<dyn Layer>>) -> Self {
        let mut entries: Vec<ParameterEntry> = Vec::new();
        let mut ranges = Vec::with_capacity(layers.len());
        let mut end = 0;
        for layer in &layers {
            let num_before = entries.len();
            for spec in layer.parameters() {
                let range = aligned(end)..aligned(end) + spec.num_elements();
                end = range.end;
                entries.push(ParameterEntry { spec, range });
            }
            let start = entries.get(num_before).map_or(end, |first| first.range.start);
            ranges.push(start..end);
        }
        Self { layers, ranges, entries, num_elements: end }
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

    /// [`Layer::forward_flops`], summed over the layers.
    pub fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.layers.iter().map(|layer| layer.forward_flops(shape)).sum()
    }

    /// What the unit needs for a micro-batch of this shape.
    pub fn sizes(&self, shape: MicroBatchShape) -> UnitSizes {
        let mut total = UnitSizes::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let sizes = layer.sizes(shape);
            if index == 0 {
                total.input = sizes.input;
            }
            total.output = sizes.output;
            total.saved += saved_extent(sizes);
            total.stash += aligned(sizes.stash);
            let backward = layout::extent([sizes.backward_workspace, sizes.stash]);
            total.workspace = total.workspace.max(sizes.forward_workspace).max(backward);
            total.gradient = total.gradient.max(sizes.input).max(sizes.output);
        }
        total
    }

    /// Every layer's share of the unit's buffers, from the first layer on.
    fn shares(&self, shape: MicroBatchShape) -> impl Iterator<Item = Share<'_>> {
        let (mut saved, mut stash) = (0, 0);
        self.layers.iter().zip(&self.ranges).map(move |(layer, range)| {
            let share = Share::new(layer.as_ref(), shape, range, saved, stash);
            (saved, stash) = (share.saved.end, share.stash.end);
            share
        })
    }

    /// As [`Unit::shares`], from the last layer on.
    fn shares_from_the_last(&self, shape: MicroBatchShape) -> impl Iterator<Item = Share<'_>> {
        let UnitSizes { mut saved, mut stash, .. } = self.sizes(shape);
        self.layers.iter().zip(&self.ranges).rev().map(move |(layer, range)| {
            let sizes = layer.sizes(shape);
            saved -= saved_extent(sizes);
            stash -= aligned(sizes.stash);
            Share::new(layer.as_ref(), shape, range, saved, stash)
        })
    }
}

/// A layer and where its own elements lie in its unit's buffers.
struct Share<'a> {
    layer: &'a dyn Layer,
    sizes: LayerSizes,
    parameters: Range<usize>,
    saved: Range<usize>,
    stash: Range<usize>,
}

impl<'a> Share<'a> {
    fn new(
        layer: &'a dyn Layer,
        shape: MicroBatchShape,
        parameters: &Range<usize>,
        saved_start: usize,
        stash_start: usize,
    ) -> Self {
        let sizes = layer.sizes(shape);
        Self {
            layer,
            sizes,
            parameters: parameters.clone(),
            saved: saved_start..saved_start + saved_extent(sizes),
            stash: stash_start..stash_start + aligned(sizes.stash),
        }
    }

    /// The layer's parameters, or nothing where its input gradient does not read them: they may be resharded then.
    fn parameters_for_backward<'p>(&self, parameters: &'p [f32]) -> &'p [f32] {
        if self.layer.backward_reads_weights() { &parameters[self.parameters.clone()] } else { &[] }
    }
}

/// Elements of a layer's `[input | saved]` in its unit's saved buffer.
fn saved_extent(sizes: LayerSizes) -> usize {
    aligned(layout::extent([sizes.input, sizes.saved]))
}
