//! Where pieces lie in a flat buffer: one after the other, each starting at a multiple of [`ALIGNMENT`] elements.
//!
//! Parameters of a unit, saved activations, weight-gradient inputs and workspaces are all cut by this one rule, so no other file does
//! arithmetic with offsets. A piece's place depends only on the lengths before it.

use std::mem;

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
pub fn split<const K: usize>(elements: &[f32], lens: [usize; K]) -> [&[f32]; K] {
    let mut rest = elements;
    lens.map(|len| {
        let piece = &rest[..len];
        rest = &rest[aligned(len).min(rest.len())..];
        piece
    })
}

/// As [`split`], for writing.
///
/// # Panics
/// As [`split`].
pub fn split_mut<const K: usize>(elements: &mut [f32], lens: [usize; K]) -> [&mut [f32]; K] {
    let mut rest = elements;
    lens.map(|len| {
        let (piece, after) = mem::take(&mut rest).split_at_mut(len);
        let gap = (aligned(len) - len).min(after.len());
        rest = &mut after[gap..];
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_start_at_multiples_of_the_alignment() {
        let lens = [0, 1, 16, 17, 0, 5];
        let elements: Vec<f32> = (0..extent(lens)).map(|i| i as f32).collect();
        let starts = split(&elements, lens).map(|piece| piece.first().copied());
        assert_eq!(starts, [None, Some(0.0), Some(16.0), Some(32.0), None, Some(64.0)]);
        assert_eq!(extent(lens), 64 + 5);
    }

    #[test]
    fn both_cuts_agree() {
        let lens = [3, 0, 40, 16, 1];
        let mut elements: Vec<f32> = (0..extent(lens)).map(|i| i as f32).collect();
        let copy = elements.clone();
        assert_eq!(split(&copy, lens), split_mut(&mut elements, lens).map(|piece| &*piece));
    }

    #[test]
    fn a_last_piece_needs_no_padding_behind_it() {
        assert_eq!(extent([3]), 3);
        assert_eq!(split(&[1.0, 2.0, 3.0], [3]), [&[1.0, 2.0, 3.0]]);
        assert_eq!(split_mut(&mut [1.0, 2.0, 3.0], [3, 0])[1].len(), 0);
    }
}
