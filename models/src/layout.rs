//! Where pieces lie in a flat buffer: one after the other, each starting at a multiple of [`ALIGNMENT`] elements.
//!
//! Parameters of a unit, saved activations, weight-gradient inputs and workspaces are all cut by this one rule, so no other file does
//! arithmetic with offsets. A piece's place depends only on the lengths before it.

use std::ops::Range;

use crate::memory::{View, ViewMut};

/// Elements: every piece starts at a multiple of this, 64 bytes of `f32`, one cache line.
pub const ALIGNMENT: usize = 16;

/// `len` rounded up to the next place where a piece may start.
pub const fn aligned(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// Elements from the start of the first piece to the end of the last.
pub fn extent<const K: usize>(lens: [usize; K]) -> usize {
    lens.into_iter().fold(0, |end, len| aligned(end) + len)
}

/// Cuts the pieces of these lengths out of `elements`.
///
/// # Panics
/// If `elements` is shorter than [`extent`], a bug of the caller.
pub fn split<const K: usize>(elements: View<'_>, lens: [usize; K]) -> [View<'_>; K] {
    ranges(lens).map(|range| elements.range(range))
}

/// As [`split`], for writing.
///
/// # Panics
/// As [`split`].
pub fn split_mut<const K: usize>(elements: ViewMut<'_>, lens: [usize; K]) -> [ViewMut<'_>; K] {
    elements.disjoint(ranges(lens))
}

/// Where the pieces lie. An empty one behind the last takes no place.
fn ranges<const K: usize>(lens: [usize; K]) -> [Range<usize>; K] {
    let mut end = 0;
    lens.map(|len| {
        let start = if len == 0 { end } else { aligned(end) };
        end = start + len;
        start..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    fn counted(len: usize) -> Buffer {
        Buffer::from_vec((0..len).map(|i| i as f32).collect()).unwrap()
    }

    #[test]
    fn pieces_start_at_multiples_of_the_alignment() {
        let lens = [0, 1, 16, 17, 0, 5];
        let mut elements = counted(extent(lens));
        let starts = split(elements.view(), lens).map(|piece| piece.slice::<f32>().first().copied());
        assert_eq!(starts, [None, Some(0.0), Some(16.0), Some(32.0), None, Some(64.0)]);
        assert_eq!(extent(lens), 64 + 5);
        let written = split_mut(elements.view_mut(), lens).map(|piece| piece.slice::<f32>().to_vec());
        assert_eq!(split(counted(69).view(), lens).map(|piece| piece.slice::<f32>().to_vec()), written);
    }

    #[test]
    fn a_last_piece_needs_no_padding_behind_it() {
        assert_eq!(extent([3]), 3);
        let mut elements = counted(3);
        assert_eq!(split(elements.view(), [3])[0].slice::<f32>(), [0.0, 1.0, 2.0]);
        assert_eq!(split_mut(elements.view_mut(), [3, 0])[1].len(), 0);
    }
}
