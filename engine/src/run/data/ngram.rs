//! What counting alone achieves: the cross-entropy of unigrams and bigrams, the mark that a model has to beat.
//!
//! With counts `c` of the training text and add-one smoothing over the 256 bytes (Laplace's rule of succession), the
//! probability of a byte `b` after a byte `a` is
//!
//! ```text
//! unigram  p(b)     = (c(b) + 1) / (N + 256)            N bytes of training text
//! bigram   p(b | a) = (c(a b) + 1) / (c(a *) + 256)     c(a *) bytes that have a successor and are a
//! ```
//!
//! and the cross-entropy is the mean of `-ln p` over every byte of the validation text but the first, which has no byte
//! before it: the same bytes for both, in nats per byte like the model's loss.

/// Byte values.
pub const VOCAB_SIZE: usize = 256;

/// Cross-entropy of the validation text under counts of the training text, in nats per byte.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct NgramCrossEntropy {
    /// From the frequency of each byte.
    pub unigram: f64,
    /// From the frequency of each byte after the one before it.
    pub bigram: f64,
}

/// Counts the training text and measures the validation text; `None` if that has no byte with a byte before it.
///
/// Added up by value, not by position, so the result does not depend on the order of equal pairs.
pub fn ngram_cross_entropy(training: &[u8], validation: &[u8]) -> Option<NgramCrossEntropy> {
    let num_targets = validation.len().checked_sub(1).filter(|&targets| targets > 0)?;
    let (counted, measured) = (count_pairs(training), count_pairs(validation));
    let mut counts = [0_u64; VOCAB_SIZE];
    for &byte in training {
        counts[usize::from(byte)] += 1;
    }
    let mut sum = NgramCrossEntropy { unigram: 0.0, bigram: 0.0 };
    for (counted, measured) in counted.chunks_exact(VOCAB_SIZE).zip(measured.chunks_exact(VOCAB_SIZE)) {
        let num_successors = counted.iter().sum();
        for (byte, &times) in measured.iter().enumerate().filter(|&(_, &times)| times > 0) {
            sum.unigram += times as f64 * surprise(counts[byte], training.len() as u64);
            sum.bigram += times as f64 * surprise(counted[byte], num_successors);
        }
    }
    let mean = |sum: f64| sum / num_targets as f64;
    Some(NgramCrossEntropy { unigram: mean(sum.unigram), bigram: mean(sum.bigram) })
}

/// `-ln p` of a byte that was seen `count` times in `total`, in nats.
fn surprise(count: u64, total: u64) -> f64 {
    ((total + VOCAB_SIZE as u64) as f64 / (count + 1) as f64).ln()
}

/// `[256, 256]`: how often the second byte follows the first.
fn count_pairs(text: &[u8]) -> Vec<u64> {
    let mut pairs = vec![0; VOCAB_SIZE * VOCAB_SIZE];
    for pair in text.windows(2) {
        pairs[usize::from(pair[0]) * VOCAB_SIZE + usize::from(pair[1])] += 1;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let entropy = ngram_cross_entropy(training, validation).expect("two targets or more");
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
        let entropy = ngram_cross_entropy(&training, &validation).expect("many targets");
        // 399 additions in another order.
        assert!((entropy.unigram - unigram / 399.0).abs() < 1e-12);
        assert!((entropy.bigram - bigram / 399.0).abs() < 1e-12);
        assert!(entropy.bigram < entropy.unigram);
    }

    #[test]
    fn without_a_target_there_is_no_mean() {
        assert_eq!(ngram_cross_entropy(b"abc", b""), None);
        assert_eq!(ngram_cross_entropy(b"abc", b"a"), None);
    }
}
