//! The documents of a row, and where in them its tokens are.
//!
//! `document_starts: [B, T]` has, of each token, the position in its row at which its document begins: that of the token before it, or
//! its own. A document that began in an earlier row begins at position 0 of this one. What a token sees and its position number follow:
//!
//! ```text
//! position in the row        0 1 2 3 4 5 6 7      what token i sees:   document_starts[i] <= j <= i
//! document                   a a a b c c c c      its position number:  i - document_starts[i]
//! document_starts            0 0 0 3 4 4 4 4
//! position number            0 1 2 0 0 1 2 3
//! ```
//!
//! Rejected: numbers of documents, from which every kernel would have to find the beginnings, and a mask of `[T, T]`, which would be the
//! largest input of all.

use std::ops::Range;

/// # Panics
/// If there is not a start for each token.
pub(super) fn check(document_starts: Option<&[u32]>, num_tokens: usize) {
    assert_eq!(document_starts.map_or(num_tokens, <[u32]>::len), num_tokens, "starts of documents");
}

/// The documents of one row of `seq_length` tokens, in order; the row itself where it has no `starts`.
pub(super) fn documents(starts: Option<&[u32]>, seq_length: usize) -> impl Iterator<Item = Range<usize>> {
    let whole = starts.is_none().then_some(seq_length);
    let lens =
        starts.into_iter().flat_map(|starts| starts.chunk_by(|one, next| one == next).map(<[u32]>::len));
    let mut end = 0;
    whole.into_iter().chain(lens).map(move |len| {
        end += len;
        end - len..end
    })
}

/// The position number of token `n` of the micro-batch's N.
#[inline(always)]
pub(super) fn position_of(document_starts: Option<&[u32]>, seq_length: usize, n: usize) -> usize {
    n % seq_length - document_starts.map_or(0, |starts| starts[n] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_positions_are_those_of_the_picture() {
        let starts = [0, 0, 0, 3, 4, 4, 4, 4];
        assert_eq!(documents(Some(&starts), 8).collect::<Vec<_>>(), [0..3, 3..4, 4..8]);
        assert!(documents(None, 8).eq(std::iter::once(0..8)));
        let positions = |starts, seq_length| (0..8).map(move |n| position_of(starts, seq_length, n));
        assert!(positions(Some(&starts), 8).eq([0, 1, 2, 0, 0, 1, 2, 3]));
        assert!(positions(None, 4).eq([0, 1, 2, 3, 0, 1, 2, 3]));
        assert!(positions(Some(&[0, 1, 1, 1, 0, 0, 0, 3]), 4).eq([0, 0, 1, 2, 0, 1, 2, 0]));
    }
}
