//! Splits the text into training and validation: interleaved blocks, the same on every grid.
//!
//! Each file is cut into blocks of [`BLOCK_BYTES`] (its last block may be shorter) and every block goes to one side as a
//! whole. The choice spreads the rounding error over the blocks, as Bresenham's line does over pixels: a block goes to
//! validation as soon as that brings validation's share closer to the wanted one. So all parts of the text appear on
//! both sides, validation has its share to within half a block, and many small files are treated like a few large ones.
//!
//! A text of so few blocks that a side would have no sequence is not cut into blocks: its end is held out, as much as the share is and at
//! least a sequence.

use super::text::TextFile;

/// Bytes of a block: long against a sequence's context, short against a text.
pub const BLOCK_BYTES: usize = 4096;

/// The two sides of the text, each the concatenation of its blocks in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSplit {
    /// What is trained on.
    pub training: Vec<u8>,
    /// What is held out.
    pub validation: Vec<u8>,
}

/// Why the text cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SplitError {
    /// The share is not from 0 to below 1.
    #[error(
        "a validation share of {share} leaves nothing to train on; write a number from 0 to below 1, such as 0.05"
    )]
    Share {
        /// The share.
        share: f64,
    },
    /// It has no whole sequence.
    #[error(
        "the text has {num_bytes} tokens (bytes), but one sequence of seq_length {seq_length} needs {} with its last target; name more \
         text or shorten seq_length",
        seq_length.saturating_add(1)
    )]
    TooShort {
        /// Bytes of the text.
        num_bytes: usize,
        /// T: tokens of a sequence.
        seq_length: usize,
    },
    /// It has no two sequences, one for each side.
    #[error(
        "the text has {num_bytes} tokens (bytes), but a sequence to train on and one to validate on, each of seq_length {seq_length}, \
         need {} with their last targets; name more text, set `data.validation` to 0 or shorten seq_length",
        seq_length.saturating_add(1).saturating_mul(2)
    )]
    TooShortToSplit {
        /// Bytes of the text.
        num_bytes: usize,
        /// T: tokens of a sequence.
        seq_length: usize,
    },
}

/// Keeps the share `validation` of the text for validation; each side holds at least one sequence of `seq_length` tokens
/// and its last target. A share of 0 keeps nothing for validation.
///
/// # Errors
/// [`SplitError::Share`] unless `0 <= validation < 1`; [`SplitError::TooShort`], [`SplitError::TooShortToSplit`].
pub fn split_text(files: &[TextFile], validation: f64, seq_length: usize) -> Result<TextSplit, SplitError> {
    if !(0.0..1.0).contains(&validation) {
        return Err(SplitError::Share { share: validation });
    }
    let mut split = TextSplit { training: Vec::new(), validation: Vec::new() };
    let mut num_bytes = 0;
    for block in files.iter().flat_map(|file| file.text.as_bytes().chunks(BLOCK_BYTES)) {
        num_bytes += block.len();
        let missing = validation * num_bytes as f64 - split.validation.len() as f64;
        let side =
            if 2.0 * missing >= block.len() as f64 { &mut split.validation } else { &mut split.training };
        side.extend_from_slice(block);
    }
    let has_validation = validation > 0.0;
    let has_sequence = |text: &[u8]| text.len() > seq_length;
    if has_sequence(&split.training) && (!has_validation || has_sequence(&split.validation)) {
        return Ok(split);
    }
    if !has_validation {
        return Err(SplitError::TooShort { num_bytes, seq_length });
    }
    if num_bytes / 2 <= seq_length {
        return Err(SplitError::TooShortToSplit { num_bytes, seq_length });
    }
    let needed = seq_length + 1;
    let num_held_out = ((validation * num_bytes as f64).round() as usize).clamp(needed, num_bytes - needed);
    let mut training: Vec<u8> = files.iter().flat_map(|file| file.text.bytes()).collect();
    let validation = training.split_off(num_bytes - num_held_out);
    Ok(TextSplit { training, validation })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A text in which every block has other bytes than the 89 blocks around it.
    fn file(first_block: usize, num_bytes: usize) -> TextFile {
        let byte = |position: usize| char::from(b'!' + ((first_block + position / BLOCK_BYTES) % 90) as u8);
        TextFile { path: format!("{first_block}.txt").into(), text: (0..num_bytes).map(byte).collect() }
    }

    #[test]
    fn a_quarter_is_every_fourth_block() {
        let split = split_text(&[file(0, 12 * BLOCK_BYTES)], 0.25, 8).expect("long enough");
        let kept: Vec<u8> = split.validation.chunks(BLOCK_BYTES).map(|block| block[0] - b'!').collect();
        // After two blocks half a block is missing, so the second one is taken; then every fourth.
        assert_eq!(kept, [1, 5, 9]);
        assert_eq!(split.training.len(), 9 * BLOCK_BYTES);
    }

    #[test]
    fn blocks_begin_with_each_file() {
        // Three files of 1.5 blocks: blocks of 4096, 2048, 4096, 2048, 4096, 2048 bytes, half of them for validation.
        let files = [0, 2, 4].map(|first| file(first, BLOCK_BYTES * 3 / 2));
        let split = split_text(&files, 0.5, 8).expect("long enough");
        let mut kept = split.validation.clone();
        kept.dedup();
        let mut rest = split.training.clone();
        rest.dedup();
        assert_eq!((kept.as_slice(), rest.as_slice()), (&b"!$%"[..], &b"\"#&"[..]));
    }

    proptest! {
        /// Every block lies on exactly one side, in order, and validation has its share to within half a block.
        #[test]
        fn the_sides_partition_the_text(sizes in prop::collection::vec(1_usize..30_000, 1..12), percent in 1_u32..100) {
            let files: Vec<_> = sizes.iter().enumerate().map(|(first, &size)| file(8 * first, size)).collect();
            let share = f64::from(percent) / 100.0;
            let total: usize = sizes.iter().sum();
            match split_text(&files, share, 1) {
                Ok(split) => {
                    let (mut training, mut validation) = (&split.training[..], &split.validation[..]);
                    // A text of few blocks is cut once instead.
                    let whole: String = files.iter().map(|file| file.text.as_str()).collect();
                    if [training, validation].concat() != whole.as_bytes() {
                        for block in files.iter().flat_map(|file| file.text.as_bytes().chunks(BLOCK_BYTES)) {
                            let side = if training.starts_with(block) { &mut training } else { &mut validation };
                            prop_assert!(side.starts_with(block));
                            *side = &side[block.len()..];
                        }
                        prop_assert!(training.is_empty() && validation.is_empty());
                    }
                    let error = split.validation.len() as f64 - share * total as f64;
                    prop_assert!(error.abs() <= BLOCK_BYTES as f64 / 2.0, "{error} bytes off");
                }
                Err(SplitError::TooShortToSplit { num_bytes, .. }) => prop_assert!(num_bytes < 4),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }

    #[test]
    fn a_side_without_a_sequence_is_refused_with_its_numbers() {
        let text = [file(0, 2 * BLOCK_BYTES)];
        // Half of two blocks: 4096 bytes each, so sequences of 4095 tokens are the longest.
        assert!(split_text(&text, 0.5, BLOCK_BYTES - 1).is_ok());
        let error = split_text(&text, 0.5, BLOCK_BYTES).expect_err("4096 bytes have no 4096 targets");
        assert_eq!(
            error.to_string(),
            "the text has 8192 tokens (bytes), but a sequence to train on and one to validate on, each of seq_length 4096, need 8194 \
             with their last targets; name more text, set `data.validation` to 0 or shorten seq_length"
        );
        let error = split_text(&text, 0.05, usize::MAX).expect_err("no text is so long");
        assert!(error.to_string().contains("need 18446744073709551615 with"));
        let error = split_text(&text, 0.0, 8192).expect_err("8192 bytes have no 8192 targets");
        assert_eq!(
            error.to_string(),
            "the text has 8192 tokens (bytes), but one sequence of seq_length 8192 needs 8193 with its last target; name more text or \
             shorten seq_length"
        );
    }

    /// Every length from that of two sequences on, with every share; below it, none.
    #[test]
    fn a_text_of_any_length_with_two_sequences_is_split() {
        let seq_length = 64;
        for num_bytes in (100..200).chain((200..40_000).step_by(97)) {
            for share in [0.001, 0.05, 0.1, 0.5] {
                let files = [file(0, num_bytes / 3), file(3, num_bytes - num_bytes / 3)];
                let found = split_text(&files, share, seq_length);
                assert_eq!(found.is_ok(), num_bytes >= 2 * (seq_length + 1), "{num_bytes} {share}");
                let Ok(TextSplit { training, validation }) = found else { continue };
                assert_eq!(training.len() + validation.len(), num_bytes);
                assert!(training.len() > seq_length && validation.len() > seq_length, "{num_bytes} {share}");
            }
        }
        // What is held out is the end: a twentieth of 4000 bytes is 200.
        let text = file(0, 4000);
        let split = split_text(std::slice::from_ref(&text), 0.05, seq_length).expect("long enough");
        assert_eq!((&split.training[..], &split.validation[..]), text.text.as_bytes().split_at(3800));
    }

    #[test]
    fn shares_out_of_range_are_refused() {
        for share in [1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
            let error = split_text(&[file(0, 100)], share, 8).expect_err("not a share");
            assert!(matches!(error, SplitError::Share { .. }));
        }
        assert_eq!(
            SplitError::Share { share: 1.0 }.to_string(),
            "a validation share of 1 leaves nothing to train on; write a number from 0 to below 1, such as 0.05"
        );
    }

    #[test]
    fn no_share_keeps_everything_for_training() {
        let split = split_text(&[file(0, 100)], 0.0, 99).expect("long enough");
        assert_eq!((split.training.len(), split.validation.len()), (100, 0));
    }
}
