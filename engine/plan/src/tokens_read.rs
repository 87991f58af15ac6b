//! Which of the words of a micro-batch a rank needs.

use pipezero_models::layer::{LossInputs, MicroBatchShape};

use pipezero_config::Run;
use pipezero_models::Model;

/// What a rank reads of each micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokensRead {
    /// That of a micro-batch.
    pub shape: MicroBatchShape,
    /// Whether it reads inputs and targets.
    pub(crate) tokens: bool,
    /// Whether it reads where documents begin.
    pub(crate) document_starts: bool,
    /// Numbers of the largest inputs of the rank's input encoder; `None` if it has none.
    pub encoder_values: Option<usize>,
    /// What the loss reads, where the rank computes it.
    pub loss: LossInputs,
}

/// Whether layers of the run are told where documents begin: where it attends within these, and the family attends at all. Layers of a caller
/// may do with them what they like.
pub(super) fn reads_documents(run: &Run) -> bool {
    let attends = run.model.facts().attends || run.vocabulary.is_of_caller;
    run.data.document_attention && attends
}

/// What the loss of a model reads of each token beside its target.
pub(super) fn loss_inputs(model: &Model) -> LossInputs {
    model.layers.last().map_or_else(LossInputs::default, |head| head.layer.loss_inputs())
}

impl TokensRead {
    /// Whether there is anything to read.
    pub fn is_any(self) -> bool {
        self.tokens || self.document_starts || self.encoder_values.is_some()
    }

    /// Inputs of each micro-batch, and as many targets.
    pub fn num_tokens(self) -> usize {
        if self.tokens { self.shape.num_tokens() } else { 0 }
    }

    /// Values of each micro-batch that the loss reads.
    pub fn num_loss_inputs(self) -> usize {
        self.loss.per_token.saturating_mul(self.shape.num_tokens())
    }

    /// Starts of documents of each micro-batch, one for each token.
    pub fn num_document_starts(self) -> usize {
        if self.document_starts { self.shape.num_tokens() } else { 0 }
    }

    /// Words of each micro-batch for an input encoder: the numbers of its inputs, and which of their rows each token gets.
    pub(crate) fn num_encoder_words(self) -> usize {
        self.encoder_values.map_or(0, |num_values| num_values + self.shape.num_tokens())
    }
}
