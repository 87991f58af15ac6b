//! Every part lies on one side, and validation has its share.

use proptest::prelude::*;

use super::*;

const BLOCK: usize = BLOCK_TOKENS as usize;

/// The bytes of both sides.
struct Split {
    training: Vec<u8>,
    validation: Vec<u8>,
}

/// Splits files of text.
fn split_text(files: &[Vec<u8>], validation: f64, seq_length: usize) -> Result<Split, SplitError> {
    let stores: Vec<Store> = files.iter().map(|bytes| Store::of_bytes(bytes)).collect();
    let sides = split(&Arc::new(stores), 0..files.len(), validation, seq_length, 256)?;
    let bytes = |side: &Stream| {
        let mut bytes = Vec::new();
        side.each(|token| bytes.push(token as u8)).expect("texts are always read");
        bytes
    };
    Ok(Split { training: bytes(&sides.training), validation: bytes(&sides.validation) })
}

/// A text in which every block has other bytes than the 89 blocks around it.
fn file(first_block: usize, num_bytes: usize) -> Vec<u8> {
    let byte = |position: usize| b'!' + ((first_block + position / BLOCK) % 90) as u8;
    (0..num_bytes).map(byte).collect()
}

#[test]
fn a_quarter_is_every_fourth_block() {
    let split = split_text(&[file(0, 12 * BLOCK)], 0.25, 8).expect("long enough");
    let kept: Vec<u8> = split.validation.chunks(BLOCK).map(|block| block[0] - b'!').collect();
    // After two blocks half a block is missing, so the second one is taken; then every fourth.
    assert_eq!(kept, [1, 5, 9]);
    assert_eq!(split.training.len(), 9 * BLOCK);
}

#[test]
fn blocks_begin_with_each_file() {
    // Three files of 1.5 blocks: blocks of 4096, 2048, 4096, 2048, 4096, 2048 bytes, half of them for validation.
    let files = [0, 2, 4].map(|first| file(first, BLOCK * 3 / 2));
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
                if [training, validation].concat() != files.concat() {
                    for block in files.iter().flat_map(|file| file.chunks(BLOCK)) {
                        let side = if training.starts_with(block) { &mut training } else { &mut validation };
                        prop_assert!(side.starts_with(block));
                        *side = &side[block.len()..];
                    }
                    prop_assert!(training.is_empty() && validation.is_empty());
                }
                let error = split.validation.len() as f64 - share * total as f64;
                prop_assert!(error.abs() <= BLOCK as f64 / 2.0, "{error} bytes off");
            }
            Err(SplitError::TooShortToSplit { num_tokens, .. }) => prop_assert!(num_tokens < 4),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn a_side_without_a_sequence_is_refused_with_its_numbers() {
    let text = [file(0, 2 * BLOCK)];
    // Half of two blocks: 4096 bytes each, so sequences of 4095 tokens are the longest.
    assert!(split_text(&text, 0.5, BLOCK - 1).is_ok());
    let error = split_text(&text, 0.5, BLOCK).err().expect("4096 bytes have no 4096 targets");
    assert_eq!(
        error.to_string(),
        "the data has 8192 tokens, but a sequence to train on and one to validate on, each of seq_length 4096, need 8194 \
         with their last targets; name more data, set `data.validation` to 0 or shorten seq_length"
    );
    let error = split_text(&text, 0.05, usize::MAX).err().expect("no text is so long");
    assert!(error.to_string().contains("need 18446744073709551615 with"));
    let error = split_text(&text, 0.0, 8192).err().expect("8192 bytes have no 8192 targets");
    assert_eq!(
        error.to_string(),
        "the data has 8192 tokens, but one sequence of seq_length 8192 needs 8193 with its last target; name more data or \
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
            let Ok(Split { training, validation }) = found else { continue };
            assert_eq!(training.len() + validation.len(), num_bytes);
            assert!(training.len() > seq_length && validation.len() > seq_length, "{num_bytes} {share}");
        }
    }
    // What is held out is the end: a twentieth of 4000 bytes is 200.
    let text = file(0, 4000);
    let split = split_text(std::slice::from_ref(&text), 0.05, seq_length).expect("long enough");
    assert_eq!((&split.training[..], &split.validation[..]), text.split_at(3800));
}

#[test]
fn shares_out_of_range_are_refused() {
    for share in [1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
        let error = split_text(&[file(0, 100)], share, 8).err().expect("not a share");
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
