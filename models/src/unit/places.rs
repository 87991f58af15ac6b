//! Where what a unit's layers read and write lies: in the buffer that is kept from forward to backward, or in the one
//! for the segment that is being recomputed.
//!
//! The kept buffer holds `[input | saved | exact]` of each layer outside segments and the `[input]` of each segment; the
//! buffer for recomputation holds the rest of one segment. A layer writes its output where the next one reads its input, so nothing is copied
//! between layers.

use std::array;
use std::ops::Range;

use super::{Unit, UnitSizes, conversion};
use crate::element::ElementType;
use crate::layer::{Layer, LayerSizes, MicroBatchShape};
use crate::layout::{self, aligned};
use crate::memory::{View, ViewMut};
use crate::queue::Queue;

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
    /// What the unit stores.
    element: ElementType,
    pub(super) sizes: LayerSizes,
    pub(super) parameters: Range<usize>,
    pub(super) input: Place,
    pub(super) saved: Place,
    /// In elements of the unit's type, although they are f32.
    pub(super) exact: Place,
    pub(super) output: Place,
    pub(super) weight_inputs: Range<usize>,
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

impl Share<'_> {
    /// The layer's parameters, or nothing where its input gradient does not read them: they may be resharded then.
    pub(super) fn parameters_for_backward<'p>(&self, parameters: View<'p>) -> View<'p> {
        let is_read = self.layer.backward_reads_weights();
        parameters.range(if is_read { self.parameters.clone() } else { 0..0 })
    }

    /// Elements of the pieces of the workspace that a forward works in.
    pub(super) fn forward_workspace_lens(&self) -> [usize; 5] {
        conversion::forward_workspace_lens(self.element, self.parameters.len(), self.sizes)
    }

    /// Elements of the pieces of the workspace that a backward works in.
    pub(super) fn backward_workspace_lens(&self) -> [usize; 5] {
        let reads_weights = self.layer.backward_reads_weights();
        let num_parameters = if reads_weights { self.parameters.len() } else { 0 };
        conversion::backward_workspace_lens(self.element, num_parameters, self.sizes)
    }
}

impl Share<'_> {
    /// Rounds the gradient that the layer hands to the one before, once all slices have added to it.
    pub(super) fn round_gradient(&self, queue: &dyn Queue, gradient: ViewMut<'_>) {
        if self.layer.table_slice().is_first() {
            conversion::round(queue, gradient.range(0..self.sizes.input), self.element);
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
            total.weight_inputs = aligned(share.weight_inputs.end);
            let workspaces =
                [share.forward_workspace_lens(), share.backward_workspace_lens()].map(layout::extent);
            total.workspace = total.workspace.max(workspaces[0]).max(workspaces[1]);
            total.gradient = total.gradient.max(sizes.input).max(sizes.output);
        }
        total
    }

    /// Every layer's share of the unit's buffers, from the first layer on.
    pub(super) fn shares(&self, shape: MicroBatchShape) -> Vec<Share<'_>> {
        let (mut kept, mut recomputed, mut weight_inputs) = (Taken(0), Taken(0), Taken(0));
        let mut shares: Vec<Share<'_>> = Vec::with_capacity(self.layers.len());
        for (index, (layer, parameters)) in self.layers.iter().zip(&self.ranges).enumerate() {
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
            let exact = place(segment.is_none(), self.element.num_packed() * sizes.exact);
            if let Some(before) = shares.last_mut() {
                before.output = Place { arena: input.arena, range: input.range.clone() };
            }
            shares.push(Share {
                layer: layer.as_ref(),
                element: self.element,
                sizes,
                parameters: parameters.clone(),
                input,
                saved,
                exact,
                output: Place { arena: Arena::Output, range: 0..sizes.output },
                weight_inputs: weight_inputs.take(sizes.weight_inputs),
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
