//! The special tokens that a post-processor writes before and behind a text.

use tokenizers::{Encoding, PostProcessor, PostProcessorWrapper, Token};

use crate::catch_panics::catch_panic;

/// Special tokens before and behind the tokens of any text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) before: Vec<u32>,
    pub(super) behind: Vec<u32>,
}

impl Around {
    /// Asks a post-processor; `None` if its result does not contain the text exactly once.
    pub(super) fn of(post_processor: Option<&PostProcessorWrapper>) -> Option<Self> {
        // No vocabulary has it.
        const TEXT: u32 = u32::MAX;
        let Some(post_processor) = post_processor else {
            return Some(Self { before: Vec::new(), behind: Vec::new() });
        };
        let text = Encoding::from_tokens(vec![Token::new(TEXT, String::new(), (0, 0))], 0);
        let written = catch_panic(|| post_processor.process(text, None, true))?.ok()?;
        let mut parts = written.get_ids().split(|&token| token == TEXT).map(<[u32]>::to_vec);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(before), Some(behind), None) => Some(Self { before, behind }),
            _ => None,
        }
    }
}
