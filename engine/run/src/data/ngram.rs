//! What counting alone achieves: the cross-entropy of unigrams and bigrams, the mark that a model has to beat.
//!
//! With counts `c` of the training tokens and add-one smoothing over the `V` tokens that there may be (Laplace's rule of succession), the
//! probability of a token `b` after a token `a` is
//!
//! ```text
//! unigram  p(b)     = (c(b) + 1) / (N + V)            N training tokens; V = 256 where tokens are bytes
//! bigram   p(b | a) = (c(a b) + 1) / (c(a *) + V)     c(a *) tokens that have a successor and are a
//! ```
//!
//! and the cross-entropy is the mean of `-ln p` over every validation token but the first, which has none before it: the same tokens for
//! both, in nats per token like the model's loss.
//!
//! Only pairs that occur in the validation tokens matter, so only those are counted in the training tokens: what is held does not grow with these.

use std::collections::BTreeMap;

use super::read_error::ReadError;
use super::stream::Stream;

/// Tokens that are counted at most: more would take longer than the first steps, and a model that has so many needs no such mark.
pub(super) const COUNTED_MAX: u64 = 1 << 25;

/// Different pairs of validation tokens that are counted at most, in some 50 bytes each.
pub(super) const PAIRS_MAX: u64 = 1 << 20;

/// Pairs that are sorted at once, in 8 bytes each.
pub(super) const PAIRS_AT_ONCE: u64 = 1 << 20;

/// Cross-entropy of the validation tokens under counts of the training tokens, in nats per token.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct NgramCrossEntropy {
    /// From the frequency of each token.
    pub unigram: f64,
    /// From the frequency of each token after the one before it.
    pub bigram: f64,
}

/// Counts the training tokens and measures the validation tokens; `None` if there are too many, or too few for a pair. `num_kinds` is V.
///
/// Added up by value, not by position, so the result does not depend on the order of equal pairs.
///
/// # Errors
/// When a text or a file of tokens cannot be read.
pub(super) fn ngram_cross_entropy(
    training: &Stream,
    validation: &Stream,
    num_kinds: usize,
) -> Result<Option<NgramCrossEntropy>, ReadError> {
    if training.num_tokens() + validation.num_tokens() > COUNTED_MAX {
        return Ok(None);
    }
    let mut pairs: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
    each_pair(validation, |pair, times| {
        // One more than may be says that there are too many.
        if pairs.len() as u64 <= PAIRS_MAX {
            pairs.entry(pair).or_default().measured += times;
        }
    })?;
    if pairs.len() as u64 > PAIRS_MAX {
        return Ok(None);
    }
    let mut counts = Counts { num_tokens: training.num_tokens(), ..Counts::default() };
    training.each(|token| *counts.tokens.entry(token).or_default() += 1)?;
    each_pair(training, |pair, times| {
        if let Some(found) = pairs.get_mut(&pair) {
            found.counted += times;
        }
        *counts.successors.entry(pair.0).or_default() += times;
    })?;
    let num_targets = validation.num_tokens().saturating_sub(1);
    Ok((num_targets > 0).then(|| cross_entropy(&counts, &pairs, num_targets, num_kinds as u64)))
}

fn cross_entropy(
    counts: &Counts,
    pairs: &BTreeMap<(u32, u32), Pair>,
    num_targets: u64,
    num_kinds: u64,
) -> NgramCrossEntropy {
    let surprise = |count: u64, total: u64| ((total + num_kinds) as f64 / (count + 1) as f64).ln();
    let mut sum = NgramCrossEntropy { unigram: 0.0, bigram: 0.0 };
    for (&(before, token), &Pair { measured, counted }) in pairs {
        let alone = counts.tokens.get(&token).copied().unwrap_or(0);
        let num_successors = counts.successors.get(&before).copied().unwrap_or(0);
        sum.unigram += measured as f64 * surprise(alone, counts.num_tokens);
        sum.bigram += measured as f64 * surprise(counted, num_successors);
    }
    let mean = |sum: f64| sum / num_targets as f64;
    NgramCrossEntropy { unigram: mean(sum.unigram), bigram: mean(sum.bigram) }
}

/// How often a pair occurs.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// In the validation tokens.
    measured: u64,
    /// In the training tokens.
    counted: u64,
}

/// How often training tokens occur.
#[derive(Debug, Default)]
struct Counts {
    num_tokens: u64,
    tokens: BTreeMap<u32, u64>,
    /// Those that have a successor.
    successors: BTreeMap<u32, u64>,
}

/// Calls `each` with the pairs of neighbouring tokens and how often each occurs, perhaps several times with the same one.
fn each_pair(stream: &Stream, mut each: impl FnMut((u32, u32), u64)) -> Result<(), ReadError> {
    let mut pairs = Vec::with_capacity(PAIRS_AT_ONCE.min(stream.num_tokens()) as usize);
    let mut count = |pairs: &mut Vec<(u32, u32)>| {
        pairs.sort_unstable();
        pairs.chunk_by(|a, b| a == b).for_each(|run| each(run[0], run.len() as u64));
        pairs.clear();
    };
    let mut before = None;
    stream.each(|token| {
        if let Some(before) = before.replace(token) {
            pairs.push((before, token));
            if pairs.len() as u64 == PAIRS_AT_ONCE {
                count(&mut pairs);
            }
        }
    })?;
    count(&mut pairs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::store::Store;
    use super::*;

    fn cross_entropy_of(training: &[u8], validation: &[u8]) -> Option<NgramCrossEntropy> {
        let stream = |text: &[u8]| {
            let mut stream = Stream::new(Arc::new(vec![Store::of_bytes(text)]), 256);
            stream.push(0, 0..text.len() as u64);
            stream
        };
        ngram_cross_entropy(&stream(training), &stream(validation), 256).expect("texts are always read")
    }

    #[test]
    fn texts_worked_by_hand() {
        let cases: [(&[u8], &[u8], f64, f64); 3] = [
            // Trained on `abab`: a and b twice each of 4; `ab` twice, `ba` once. The targets are b after a,
            // (2 + 1) / (2 + 256), and b after b, (0 + 1) / (1 + 256).
            (b"abab", b"abb", 260.0 / 3.0, (258.0_f64 / 3.0 * 257.0).sqrt()),
            // Nothing learned is uniform.
            (b"", b"xyz", 256.0, 256.0),
            // A text of one byte is nearly certain.
            (&[7; 10_000], &[7; 10_000], 10_256.0 / 10_001.0, 10_255.0 / 10_000.0),
        ];
        for (training, validation, unigram, bigram) in cases {
            let entropy = cross_entropy_of(training, validation).expect("two targets or more");
            for (actual, wanted) in [(entropy.unigram, unigram.ln()), (entropy.bigram, bigram.ln())] {
                // A few roundings of f64 each.
                assert!((actual - wanted).abs() <= 1e-13 * wanted.abs(), "{actual} against {wanted}");
            }
        }
    }

    /// Against the definition, byte by byte, on a text with many different pairs.
    #[test]
    fn agrees_with_the_definition() {
        let byte = |position: u64| (position * position / 7 % 251) as u8;
        let training: Vec<u8> = (0..3000).map(byte).collect();
        let validation: Vec<u8> = (5000..5400).map(byte).collect();
        let count =
            |wanted: &[u8]| training.windows(wanted.len()).filter(|window| *window == wanted).count() as f64;
        let (mut unigram, mut bigram) = (0.0, 0.0);
        for pair in validation.windows(2) {
            unigram -= ((count(&pair[1..]) + 1.0) / (3000.0 + 256.0)).ln();
            let with_successor = training[..2999].iter().filter(|&&byte| byte == pair[0]).count() as f64;
            bigram -= ((count(pair) + 1.0) / (with_successor + 256.0)).ln();
        }
        let entropy = cross_entropy_of(&training, &validation).expect("many targets");
        // 399 additions in another order.
        assert!((entropy.unigram - unigram / 399.0).abs() < 1e-12);
        assert!((entropy.bigram - bigram / 399.0).abs() < 1e-12);
        assert!(entropy.bigram < entropy.unigram);
    }

    #[test]
    fn without_a_target_there_is_no_mean() {
        assert_eq!(cross_entropy_of(b"abc", b""), None);
        assert_eq!(cross_entropy_of(b"abc", b"a"), None);
    }
}
