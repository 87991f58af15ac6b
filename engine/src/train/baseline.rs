//! Baselines: cross-entropies that need no model, on the same split.

use serde::Serialize;

use crate::run::data::{Corpus, ngram_cross_entropy};

/// Cross-entropies of the validation text in nats per byte, counted on the training text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Baselines {
    /// Each byte by its frequency.
    pub unigram: f64,
    /// Each byte by its frequency after the byte before it: what a model without attention can reach.
    pub bigram: f64,
}

impl Baselines {
    /// Counts the training text and scores the validation text; `None` without validation text.
    pub fn of(corpus: &Corpus) -> Option<Self> {
        let entropy = ngram_cross_entropy(&corpus.training, &corpus.validation)?;
        Some(Self { unigram: entropy.unigram, bigram: entropy.bigram })
    }
}
