//! The shapes of the models that kernels are measured for.

/// A micro-batch of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelShape {
    /// B.
    pub(crate) num_sequences: usize,
    /// T.
    pub(crate) seq_length: usize,
    /// C.
    pub(crate) width: usize,
    /// H.
    pub(crate) num_heads: usize,
    /// V.
    pub(crate) vocab_size: usize,
}

/// The models by their names: GPT-2 of 124 million parameters, a GPT of 1.3 billion, and one that is measured in no time.
pub(crate) const MODELS: [(&str, ModelShape); 3] = [
    (
        "124m",
        ModelShape { num_sequences: 32, seq_length: 1024, width: 768, num_heads: 12, vocab_size: 50_304 },
    ),
    (
        "1.3b",
        ModelShape { num_sequences: 8, seq_length: 2048, width: 2048, num_heads: 32, vocab_size: 50_304 },
    ),
    ("tiny", ModelShape { num_sequences: 2, seq_length: 40, width: 32, num_heads: 2, vocab_size: 96 }),
];

impl ModelShape {
    /// N.
    pub(crate) fn num_rows(&self) -> usize {
        self.num_sequences * self.seq_length
    }

    /// Bytes that are written between two calls, so that no operand is in a cache: more than any GPU's cache has, and of a tiny model a few times its activations.
    pub(crate) fn flushed_bytes(&self) -> usize {
        (128 * self.activation()).min(256 << 20)
    }

    /// N C.
    pub(crate) fn activation(&self) -> usize {
        self.num_rows() * self.width
    }
}
