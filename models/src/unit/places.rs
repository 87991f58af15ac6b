//! Where what a unit's layers read and write lies: in the buffer that is kept from forward to backward, or in the one
//! for the segment that is being recomputed.
//!
//! The kept buffer holds `[input | saved | exact]` of each layer outside segments and the `[input]` of each segment; the
//! buffer for recomputation holds the rest of one segment. A layer writes its output where the next one reads its input, so nothing is copied
//! between layers.

use std::array;
use std::ops::Range;

use super::conversion::{BackwardWorkspace, ForwardWorkspace, UnitTypes};
use super::{Unit, UnitSizes};
use crate::element::ElementType;
use crate::layer::{Layer, LayerSizes, MicroBatchShape};
use crate::layout::{self, aligned};
use crate::memory::{View, ViewMut};
use crate::queue::Queue;
use crate::views::{self, GradientViews, ParameterViews, PartGradients, PartViews};

/// One of the buffers of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arena {
    Kept,
    Recomputed,
    Output,
}

/// Elements of an arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    arena: Arena,
    range: Range<usize>,
}

/// A layer and where its own elements lie in its unit's buffers.
#[derive(Debug)]
pub(super) struct Share<'a> {
    pub(super) layer: &'a dyn Layer,
    pub(super) types: UnitTypes,
    pub(super) sizes: LayerSizes,
    /// Where its parameters lie.
    parameters: &'a [views::Place],
    /// Where they lie in a copy of them.
    packed: &'a [views::Place],
    /// Elements of the copy.
    packed_len: usize,
    pub(super) input: Place,
    pub(super) saved: Place,
    /// In elements of the unit's type, although they are f32.
    pub(super) exact: Place,
    pub(super) output: Place,
    pub(super) weight_inputs: Range<usize>,
    /// As `exact`.
    pub(super) exact_weight_inputs: Range<usize>,
    /// Number of the segment that the layer belongs to, if any.
    pub(super) segment: Option<usize>,
}

impl Place {
    /// The elements, in the kept buffer.
    ///
    /// # Panics
    /// If they are in the buffer for recomputation.
    pub(super) fn read<'a>(&self, kept: View<'a>) -> View<'a> {
        assert!(self.arena == Arena::Kept, "a segment keeps nothing but its input");
        kept.range(self.range.clone())
    }
}

impl<'a> Share<'a> {
    /// The layer's parameters, as it computes with them.
    pub(super) fn parameters<'p>(
        &'p self,
        queue: &dyn Queue,
        parts: PartViews<'p>,
        copy: ViewMut<'p>,
    ) -> ParameterViews<'p> {
        if !self.types.needs_copies() {
            return ParameterViews { parts, places: self.parameters };
        }
        let mut copy = copy.range(0..self.packed_len);
        let pairs = self.parameters.iter().zip(self.packed);
        let mut pairs = pairs.peekable();
        while let Some((from, to)) = pairs.next() {
            let (mut from, mut to) = (from.clone(), to.range.clone());
            // What lies behind each other in both is copied at once.
            while let Some((_, next)) = pairs.next_if(|(other, next)| {
                other.part == from.part && other.range.start - from.range.start == next.range.start - to.start
            }) {
                to.end = next.range.end;
                from.range.end = from.range.start + to.len();
            }
            queue.copy(parts.of(&from), copy.reborrow().range(to));
        }
        ParameterViews { parts: copy.into_view().into(), places: self.packed }
    }

    /// The same for a backward; nothing where its input gradient does not read them: they may be resharded then.
    pub(super) fn parameters_for_backward<'p>(
        &'p self,
        queue: &dyn Queue,
        parts: PartViews<'p>,
        copy: ViewMut<'p>,
    ) -> ParameterViews<'p> {
        if !self.layer.backward_reads_weights() {
            return ParameterViews::default();
        }
        self.parameters(queue, parts, copy)
    }

    /// Where the gradients of its parameters go, if any is trained.
    pub(super) fn gradients<'p>(&'p self, parts: PartGradients<'p>) -> Option<GradientViews<'p>> {
        GradientViews::of(parts, self.parameters)
    }

    /// What a forward works in.
    pub(super) fn forward_workspace<'w>(&self, workspace: ViewMut<'w>) -> ForwardWorkspace<'w> {
        self.types.split_forward(workspace, self.packed_len, self.sizes)
    }

    /// What a backward works in.
    pub(super) fn backward_workspace<'w>(&self, workspace: ViewMut<'w>) -> BackwardWorkspace<'w> {
        self.types.split_backward(workspace, self.num_parameters_for_backward(), self.sizes)
    }

    /// The pieces of a buffer of weight-gradient inputs: those of the unit's type, and those of f32.
    pub(super) fn split_weight_inputs<'w>(&self, all: ViewMut<'w>) -> [ViewMut<'w>; 2] {
        let [typed, exact] = all.disjoint([self.weight_inputs.clone(), self.exact_weight_inputs.clone()]);
        [typed, exact.cast(ElementType::F32)]
    }

    /// Elements of the workspace in `f32`.
    fn workspace_len(&self) -> usize {
        let forward = layout::extent(self.types.forward_lens(self.packed_len, self.sizes));
        let num_parameters = self.num_parameters_for_backward();
        forward.max(layout::extent(self.types.backward_lens(num_parameters, self.sizes)))
    }

    fn num_parameters_for_backward(&self) -> usize {
        if self.layer.backward_reads_weights() { self.packed_len } else { 0 }
    }

    /// Rounds the gradient that the layer hands to the one before, once all slices have added to it.
    pub(super) fn round_gradient(&self, queue: &dyn Queue, gradient: ViewMut<'_>) {
        if self.layer.table_slice().is_first() {
            self.types.round_gradient(queue, gradient.range(0..self.sizes.input));
        }
    }
}

impl Unit {
    /// What the unit needs for a micro-batch of this shape.
    pub fn sizes(&self, shape: MicroBatchShape) -> UnitSizes {
        let mut total = UnitSizes::default();
        for (index, share) in self.shares(shape).into_iter().enumerate() {
            let sizes = share.sizes;
            if index == 0 {
                total.input = sizes.input;
            }
            total.output = sizes.output;
            for place in [&share.input, &share.saved, &share.exact] {
                let end = aligned(place.range.end);
                match place.arena {
                    Arena::Kept => total.saved = total.saved.max(end),
                    Arena::Recomputed => total.recompute = total.recompute.max(end),
                    Arena::Output => unreachable!("an input lies in one of the unit's own buffers"),
                }
            }
            total.weight_inputs = aligned(share.exact_weight_inputs.end);
            total.workspace = total.workspace.max(share.workspace_len());
            total.allocated = total.allocated.max(sizes.allocated);
            total.gradient = total.gradient.max(sizes.input).max(sizes.output);
        }
        total
    }

    /// Every layer's share of the unit's buffers, from the first layer on.
    pub(super) fn shares(&self, shape: MicroBatchShape) -> Vec<Share<'_>> {
        let (mut kept, mut recomputed, mut weight_inputs) = (Taken(0), Taken(0), Taken(0));
        let mut shares: Vec<Share<'_>> = Vec::with_capacity(self.layers.len());
        for (index, (layer, parameters)) in self.layers.iter().zip(&self.parameters).enumerate() {
            let sizes = layer.sizes(shape);
            let segment = self.segments.iter().position(|segment| segment.contains(&index));
            let begins_segment = segment.is_some_and(|segment| self.segments[segment].start == index);
            if begins_segment {
                recomputed = Taken(0);
            }
            let mut place = |is_kept: bool, len: usize| match is_kept {
                true => Place { arena: Arena::Kept, range: kept.take(len) },
                false => Place { arena: Arena::Recomputed, range: recomputed.take(len) },
            };
            let input = place(segment.is_none() || begins_segment, sizes.input);
            let saved = place(segment.is_none(), sizes.saved);
            let num_packed = self.types.stored.num_packed();
            let exact = place(segment.is_none(), num_packed * sizes.exact);
            if let Some(before) = shares.last_mut() {
                before.output = Place { arena: input.arena, range: input.range.clone() };
            }
            shares.push(Share {
                layer: layer.as_ref(),
                types: self.types,
                sizes,
                parameters: &self.places[parameters.clone()],
                packed: &self.packed[parameters.clone()],
                packed_len: self.packed_lens[index],
                input,
                saved,
                exact,
                output: Place { arena: Arena::Output, range: 0..sizes.output },
                weight_inputs: weight_inputs.take(sizes.weight_inputs),
                exact_weight_inputs: weight_inputs.take(num_packed * sizes.exact_weight_inputs),
                segment,
            });
        }
        shares
    }
}

/// Elements of an arena that are given away.
struct Taken(usize);

impl Taken {
    fn take(&mut self, len: usize) -> Range<usize> {
        let start = aligned(self.0);
        self.0 = start + len;
        start..self.0
    }
}

/// The buffers of a pass, which places are looked up in.
pub(super) struct Arenas<'a> {
    pub(super) kept: ViewMut<'a>,
    pub(super) recomputed: ViewMut<'a>,
    /// Only forwards have one.
    pub(super) output: Option<ViewMut<'a>>,
}

impl Arenas<'_> {
    /// The elements at `K` places that do not overlap.
    pub(super) fn lend<const K: usize>(&mut self, places: [&Place; K]) -> [ViewMut<'_>; K] {
        let inside = |arena: Arena| places.map(|p| if p.arena == arena { p.range.clone() } else { 0..0 });
        let mut kept = self.kept.reborrow().disjoint(inside(Arena::Kept)).into_iter();
        let mut recomputed = self.recomputed.reborrow().disjoint(inside(Arena::Recomputed)).into_iter();
        let output = self.output.as_mut().map(|output| output.reborrow().disjoint(inside(Arena::Output)));
        let mut output = output.into_iter().flatten();
        array::from_fn(|index| {
            let here = (kept.next(), recomputed.next(), output.next());
            let elements = match places[index].arena {
                Arena::Kept => here.0,
                Arena::Recomputed => here.1,
                Arena::Output => here.2,
            };
            elements.expect("each arena has as many elements to lend as there are places")
        })
    }
}
