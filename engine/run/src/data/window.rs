//! The tokens of a sequence and the one after them.

use pipezero_models::layer::IGNORED_TARGET;

use super::token_batch::TokenBatch;

/// `T + 1` tokens, from which the inputs and targets of a sequence are made.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) tokens: Vec<u32>,
    /// Whether a token is the first of a document, or follows a gap.
    pub(super) begins_document: Vec<bool>,
    /// Whether a token is learned.
    pub(super) has_loss: Vec<bool>,
}

/// A sequence of a micro-batch, or the beginning of one.
pub(super) struct Row<'a> {
    pub(super) inputs: &'a mut [u32],
    pub(super) targets: &'a mut [u32],
    pub(super) document_starts: &'a mut [u32],
}

impl<'a> Row<'a> {
    /// The sequences of a micro-batch.
    pub(super) fn all(batch: &'a mut TokenBatch, seq_length: usize) -> impl ExactSizeIterator<Item = Self> {
        let TokenBatch { inputs, targets, document_starts, .. } = batch;
        let rows = inputs.chunks_exact_mut(seq_length).zip(targets.chunks_exact_mut(seq_length));
        rows.zip(document_starts.chunks_exact_mut(seq_length))
            .map(|((inputs, targets), document_starts)| Self { inputs, targets, document_starts })
    }

    /// Its first tokens.
    pub(super) fn first(self, num_tokens: usize) -> Self {
        Self {
            inputs: &mut self.inputs[..num_tokens],
            targets: &mut self.targets[..num_tokens],
            document_starts: &mut self.document_starts[..num_tokens],
        }
    }
}

impl Window {
    /// A window for sequences of so many tokens.
    pub(super) fn of(seq_length: usize) -> Self {
        let len = seq_length + 1;
        Self { tokens: vec![0; len], begins_document: vec![false; len], has_loss: vec![true; len] }
    }

    /// Makes it as [`Window::of`] does.
    pub(super) fn clear(&mut self) {
        self.tokens.fill(0);
        self.begins_document.fill(false);
        self.has_loss.fill(true);
    }

    /// Fills a sequence. With `attends_in_documents` its documents are marked, and the first token of a document is no target: nothing that
    /// is seen of its row says what it is.
    pub(super) fn fill(&self, row: Row<'_>, attends_in_documents: bool) {
        let Row { inputs, targets, document_starts } = row;
        let mut document_start = 0;
        for (position, start) in document_starts.iter_mut().enumerate() {
            if attends_in_documents && self.begins_document[position] {
                document_start = position as u32;
            }
            *start = document_start;
        }
        inputs.copy_from_slice(&self.tokens[..inputs.len()]);
        for (position, target) in (1..).zip(targets) {
            let is_learned =
                self.has_loss[position] && !(attends_in_documents && self.begins_document[position]);
            *target = if is_learned { self.tokens[position] } else { IGNORED_TARGET };
        }
    }
}
