//! A language of counting, and the rule by which its texts are good.

use super::{NUM_WORDS, TOKENS};

/// Text `number`: each token is one or two more than the one before, with equal probability. After the last token of the vocabulary comes the first.
pub(super) fn text(number: u64) -> Vec<u32> {
    let mut bits = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    bits ^= bits >> 32;
    let mut token = (bits >> 40) as u32 % NUM_WORDS;
    let next = |place| {
        let this = token;
        token = (token + 1 + (bits >> place & 1) as u32) % NUM_WORDS;
        this
    };
    (0..TOKENS).map(next).collect()
}

/// After each token of a text: the share of even ones among those behind the first; a half before there are any.
pub(super) fn goodness(text: &[u32]) -> Vec<f32> {
    let mut num_even = 0_u8;
    let after = |(token, num_tokens): (&u32, u8)| {
        num_even += u8::from(token.is_multiple_of(2));
        f32::from(num_even) / f32::from(num_tokens)
    };
    std::iter::once(0.5).chain(text[1..].iter().zip(1..).map(after)).collect()
}
