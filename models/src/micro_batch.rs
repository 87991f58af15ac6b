//! The shape of a micro-batch, what its random masks depend on, and its loss.

/// The target of a position that carries no loss.
pub const IGNORED_TARGET: u32 = u32::MAX;

/// The shape of every micro-batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroBatchShape {
    /// B: sequences.
    pub num_sequences: usize,
    /// T: tokens of each sequence.
    pub seq_length: usize,
}

impl MicroBatchShape {
    /// N = B * T.
    pub fn num_tokens(self) -> usize {
        self.num_sequences * self.seq_length
    }
}

/// Which random masks a micro-batch gets: the same wherever and however often they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskKey {
    /// The run's seed.
    pub seed: u64,
    /// The step, so that every step has its own masks.
    pub step: u64,
    /// The place of the micro-batch's first sequence in the step's global batch; the others follow.
    pub first_sequence: u64,
}

/// The loss of one micro-batch: a sum, so that the mean can be taken once over a whole step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSum {
    /// Sum of the negative log-likelihoods in nats, added in row order in f64.
    pub sum: f64,
    /// Number of targets that carry loss.
    pub num_targets: u64,
}

impl LossSum {
    /// Words of `u32` that hold a loss on a device.
    pub const NUM_WORDS: usize = 4;

    /// The words, low ones first.
    pub fn to_words(self) -> [u32; Self::NUM_WORDS] {
        let words = |number: u64| [number as u32, (number >> 32) as u32];
        let ([a, b], [c, d]) = (words(self.sum.to_bits()), words(self.num_targets));
        [a, b, c, d]
    }

    /// The loss that these are the words of.
    pub fn from_words([a, b, c, d]: [u32; Self::NUM_WORDS]) -> Self {
        let number = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Self { sum: f64::from_bits(number(a, b)), num_targets: number(c, d) }
    }
}
