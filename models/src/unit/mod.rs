//! A unit: consecutive layers whose parameters live in one flat buffer and are gathered at once, or in one for each of its parts.
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

pub use args::{UnitBackward, UnitBackwardInput, UnitBackwardWeight, UnitForward, UnitRecompute};

use std::ops::Range;
use std::sync::Arc;

use conversion::UnitTypes;

use crate::element::ElementType;
use crate::input_encoder::EncoderSpec;
use crate::layer::{Layer, MicroBatchShape, Slice};
use crate::layout::aligned;
use crate::parameter::ParameterSpec;
use crate::views::{self, MAX_PARTS, Place};

/// Where one parameter lies in its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterEntry {
    /// The parameter.
    pub spec: ParameterSpec,
    /// Which of the unit's parts it lies in.
    pub part: usize,
    /// Its elements in that part's flat buffer.
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

/// Consecutive layers with one flat parameter buffer, or one for each part.
#[derive(Clone, Debug)]
pub struct Unit {
    layers: Vec<Arc<dyn Layer>>,
    /// Those of each layer, as indices of `entries`.
    parameters: Vec<Range<usize>>,
    entries: Vec<ParameterEntry>,
    /// Where the parameters of `entries` lie.
    places: Vec<Place>,
    /// Where they lie in a copy of their layer's, which computes in another type.
    packed: Vec<Place>,
    /// `[layer]`: elements of that copy.
    packed_lens: Vec<usize>,
    /// `[part]`: elements, gaps counted.
    part_lens: [usize; MAX_PARTS],
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
        let (mut entries, mut packed, mut packed_lens) = (Vec::new(), Vec::new(), Vec::new());
        let mut parameters = Vec::with_capacity(layers.len());
        for layer in &layers {
            let start = entries.len();
            entries.extend(layer.parameters().into_iter().map(|spec| ParameterEntry {
                spec,
                part: 0,
                range: 0..0,
            }));
            let (own, len) = views::packed(entries[start..].iter().map(|entry| entry.spec.num_elements()));
            packed.extend(own);
            packed_lens.push(len);
            parameters.push(start..entries.len());
        }
        let unit = Self {
            layers,
            parameters,
            entries,
            places: Vec::new(),
            packed,
            packed_lens,
            part_lens: [0; MAX_PARTS],
            segments: Vec::new(),
            types: UnitTypes::default(),
        };
        unit.with_parts(|_| 0)
    }

    /// The same unit with its parameters, counted in the order of declaration, in the parts that `part_of` says. Within a part they keep
    /// that order. Results are the same to the bit.
    ///
    /// # Panics
    /// If there is no such part: they are fewer than [`MAX_PARTS`].
    pub fn with_parts(mut self, part_of: impl Fn(usize) -> usize) -> Self {
        self.part_lens = [0; MAX_PARTS];
        for (index, entry) in self.entries.iter_mut().enumerate() {
            entry.part = part_of(index);
            let end = &mut self.part_lens[entry.part];
            entry.range = aligned(*end)..aligned(*end) + entry.spec.num_elements();
            *end = entry.range.end;
        }
        let place = |entry: &ParameterEntry| Place { part: entry.part, range: entry.range.clone() };
        self.places = self.entries.iter().map(place).collect();
        self
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

    /// Where each parameter lies, in declaration order; gaps between those of a part stay zero.
    pub fn entries(&self) -> &[ParameterEntry] {
        &self.entries
    }

    /// The entries of each layer.
    pub fn entries_by_layer(&self) -> impl Iterator<Item = &[ParameterEntry]> {
        self.parameters.iter().map(|range| &self.entries[range.clone()])
    }

    /// The entries of one part.
    pub fn entries_of(&self, part: usize) -> impl Iterator<Item = &ParameterEntry> {
        self.entries.iter().filter(move |entry| entry.part == part)
    }

    /// Elements of the flat buffers of all parts, gaps counted, padding for shards not.
    pub fn num_elements(&self) -> usize {
        self.part_lens.iter().sum()
    }

    /// The same of one part.
    pub fn num_elements_of(&self, part: usize) -> usize {
        self.part_lens[part]
    }

    /// Number of parameters: elements without gaps.
    pub fn num_parameters(&self) -> usize {
        self.entries.iter().map(|entry| entry.range.len()).sum()
    }

    /// Whether any layer's input gradient reads the parameters, or a recomputation does.
    pub fn backward_reads_weights(&self) -> bool {
        !self.segments.is_empty() || self.layers.iter().any(|layer| layer.backward_reads_weights())
    }

    /// Whether a backward reads parameters of one part.
    pub fn backward_reads(&self, part: usize) -> bool {
        let reads = |(index, layer): (usize, &Arc<dyn Layer>)| {
            let is_recomputed = self.segments.iter().any(|segment| segment.contains(&index));
            let mut own = self.entries[self.parameters[index].clone()].iter();
            (is_recomputed || layer.backward_reads_weights()) && own.any(|entry| entry.part == part)
        };
        self.layers.iter().enumerate().any(reads)
    }

    /// Whether the backward can be run in halves: what a unit recomputes would have to be kept until the weight gradient.
    pub fn has_halves(&self) -> bool {
        self.segments.is_empty() && self.layers.iter().all(|layer| layer.has_halves())
    }

    /// Which of its siblings the unit's only layer is; [`Slice::WHOLE`] where it has none.
    pub fn table_slice(&self) -> Slice {
        self.layers.first().map_or(Slice::WHOLE, |layer| layer.table_slice())
    }

    /// Which inputs the unit's input encoder takes, if it has one.
    pub fn input_encoder(&self) -> Option<&EncoderSpec> {
        self.layers.iter().find_map(|layer| layer.input_encoder())
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
