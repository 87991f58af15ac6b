//! A unit: consecutive layers whose parameters live in one flat buffer and are gathered at once.
//!
//! The saved buffer holds, for each layer, `[input | saved | exact]`. A layer writes its output where the next one reads its
//! input, so nothing is copied between layers; only the first input is copied in. The gradient runs in place.
//!
//! Layers may be checkpointed (arXiv:1604.06174) in *segments*: of a segment only the input is kept, and the backward
//! runs its forward once more, into a buffer that all segments share. See [`Unit::with_checkpoints`].

mod args;
mod backward;
mod conversion;
mod forward;
mod halves;
mod places;
#[cfg(test)]
mod tests;

pub use args::{
    UnitBackward, UnitBackwardFrozen, UnitBackwardInput, UnitBackwardWeight, UnitForward, UnitRecompute,
};

use std::ops::Range;
use std::sync::Arc;

use conversion::UnitTypes;

use crate::element::ElementType;
use crate::front::FrontSpec;
use crate::layer::{Layer, MicroBatchShape, Slice};
use crate::layout::aligned;
use crate::parameter::ParameterSpec;

/// Where one parameter lies in its unit's flat buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterEntry {
    /// The parameter.
    pub spec: ParameterSpec,
    /// Its elements in the flat buffer.
    pub range: Range<usize>,
}

/// How many elements a unit needs for one micro-batch: of the unit's type but for what is said to be `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitSizes {
    /// Elements of the input activation; 0 for a unit that begins with tokens.
    pub input: usize,
    /// Elements of the output activation; 0 for a unit that ends with the loss.
    pub output: usize,
    /// Elements kept from forward to backward: every layer's input and saved values, or of a segment only the input.
    pub saved: usize,
    /// Elements of the buffer for what one segment does not keep; 0 without segments.
    pub recompute: usize,
    /// Weight-gradient inputs: elements kept from input gradient to weight gradient when the two are apart: the sum over the layers.
    pub weight_inputs: usize,
    /// Scratch of all passes in `f32`; holds one layer's weight-gradient inputs for the full backward, and where layers compute in another
    /// type than the unit's, one layer's parameters and activations.
    pub workspace: usize,
    /// What a layer allocates itself, in `f32`: the most of one layer.
    pub allocated: usize,
    /// Elements of the gradient that runs through the unit, in `f32`: the widest activation.
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
    /// Layers whose saved values are not kept, as indices of `layers`, ascending.
    segments: Vec<Range<usize>>,
    types: UnitTypes,
}

impl Unit {
    /// A unit of these layers, in order. Every parameter starts at a multiple of [`crate::layout::ALIGNMENT`] elements.
    ///
    /// # Panics
    /// If a slice is not alone: it is there to be gathered without its siblings.
    pub fn new(layers: Vec<Arc<dyn Layer>>) -> Self {
        let is_alone = layers.len() == 1 || layers.iter().all(|layer| layer.table_slice() == Slice::WHOLE);
        assert!(is_alone, "a slice is a unit of its own");
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
        Self { layers, ranges, entries, num_elements: end, segments: Vec::new(), types: UnitTypes::default() }
    }

    /// The same unit with parameters, activations and what it keeps in `stored`, and f32 for the gradient
    /// that runs through it and the gradients of parameters.
    ///
    /// Layers compute in f32. What a layer hands on or keeps is rounded, as is the gradient that it hands back and,
    /// between the two halves of its backward, what the second reads. Statistics and logits stay f32.
    pub fn with_precision(self, stored: ElementType) -> Self {
        Self { types: UnitTypes { stored, computed: ElementType::F32 }, ..self }
    }

    /// The same unit for a device that [computes in](crate::Device::computes_in) this type. Where it is what the unit stores, layers read and write
    /// that without copies, and what they compute on the way is of that type too.
    ///
    /// # Panics
    /// If it is neither f32 nor what the unit stores.
    pub fn computing_in(self, computed: ElementType) -> Self {
        let stored = self.types.stored;
        let is_known = computed == ElementType::F32 || computed == stored;
        assert!(is_known, "a unit of {stored} cannot compute in {computed}");
        Self { types: UnitTypes { stored, computed }, ..self }
    }

    /// The type of parameters, activations and what is kept.
    pub fn element_type(&self) -> ElementType {
        self.types.stored
    }

    /// The same unit, keeping of each segment of layers only the input: what they save goes to a buffer of
    /// [`UnitSizes::recompute`] elements in the forward already, and is computed again for the backward. All results
    /// are the same to the bit.
    ///
    /// The backward costs one more forward of the segments, less the output of each segment's last layer.
    ///
    /// # Panics
    /// If a segment is empty, overlaps the one before or ends beyond the unit.
    pub fn with_checkpoints(self, segments: Vec<Range<usize>>) -> Self {
        let mut end = 0;
        for segment in &segments {
            let fits = end <= segment.start && !segment.is_empty() && segment.end <= self.layers.len();
            assert!(fits, "segments {segments:?} are no ascending ranges of {} layers", self.layers.len());
            end = segment.end;
        }
        Self { segments, ..self }
    }

    /// The segments that [`Unit::with_checkpoints`] made, as positions of layers, ascending. A recomputation runs the last
    /// of them, and the backward each of the others when it reaches it.
    pub fn segments(&self) -> &[Range<usize>] {
        &self.segments
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

    /// Whether any layer's input gradient reads the parameters, or a recomputation does.
    pub fn backward_reads_weights(&self) -> bool {
        !self.segments.is_empty() || self.layers.iter().any(|layer| layer.backward_reads_weights())
    }

    /// Whether the backward can be run in halves: what a unit recomputes would have to be kept until the weight gradient.
    pub fn has_halves(&self) -> bool {
        self.segments.is_empty() && self.layers.iter().all(|layer| layer.has_halves())
    }

    /// Which of its siblings the unit's only layer is; [`Slice::WHOLE`] where it has none.
    pub fn table_slice(&self) -> Slice {
        self.layers.first().map_or(Slice::WHOLE, |layer| layer.table_slice())
    }

    /// What the unit's front can be given, if it has one.
    pub fn front(&self) -> Option<&FrontSpec> {
        self.layers.iter().find_map(|layer| layer.front())
    }

    /// [`Layer::forward_flops`], summed over the layers.
    pub fn forward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.forward_flops(shape)))
    }

    /// [`Layer::backward_flops`], summed over the layers.
    pub fn backward_flops(&self, shape: MicroBatchShape) -> u64 {
        self.layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.backward_flops(shape)))
    }
}
