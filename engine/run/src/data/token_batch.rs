//! The tokens of a micro-batch.

use std::ops::Range;

use pipezero_models::input_encoder::EncoderSpec;
use pipezero_models::layer::{IGNORED_TARGET, LossInputs, MicroBatchShape};

use super::encoder_batch::{EncoderBatch, EncoderFault};

/// The tokens of one micro-batch: B sequences of T tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBatch {
    /// `[B, T]` token numbers.
    pub inputs: Vec<u32>,
    /// `[B, T]` the token after each input; [`pipezero_models::layer::IGNORED_TARGET`] carries no loss.
    pub targets: Vec<u32>,
    /// `[B, T]` of each token, the position in its row at which its document begins, as
    /// [`Tokens::document_starts`](pipezero_models::layer::Tokens::document_starts) has it: 0, unless a source writes something else. It
    /// is used where the run has `data.document_attention`.
    pub document_starts: Vec<u32>,
    /// Inputs of the model's input encoder: none, unless a source adds some.
    pub encoder_inputs: EncoderBatch,
    /// `[B, T, K]` what the loss reads of each token beside its target. It is empty when the source is asked, which gives either all of them
    /// or none; for none there is a rank on which `num_loss_inputs` is 0, and a loss that can do without.
    pub loss_inputs: Vec<f32>,
    /// K, as [`Loss::num_inputs_per_row`](pipezero_models::Loss::num_inputs_per_row) says it, on ranks that compute the loss; 0 on the others,
    /// which do not read what a source gives.
    pub num_loss_inputs: usize,
}

impl TokenBatch {
    /// A micro-batch of zeros to be filled, so that a step allocates nothing.
    pub fn zeros(num_sequences: usize, seq_length: usize) -> Self {
        let num_tokens = num_sequences * seq_length;
        let zeros = || vec![0; num_tokens];
        let (inputs, targets, document_starts) = (zeros(), zeros(), zeros());
        let (encoder_inputs, loss_inputs) = (EncoderBatch::default(), Vec::new());
        Self { inputs, targets, document_starts, encoder_inputs, loss_inputs, num_loss_inputs: 0 }
    }

    /// The same, with room for so many values of each token that a loss reads.
    pub(crate) fn with_loss_inputs(self, num_loss_inputs: usize) -> Self {
        let loss_inputs = Vec::with_capacity(num_loss_inputs * self.inputs.len());
        Self { loss_inputs, num_loss_inputs, ..self }
    }

    /// Makes room for a micro-batch of so many tokens, whatever a source that failed has left, in rows of one document each.
    pub(crate) fn reset(&mut self, num_tokens: usize) {
        self.inputs.resize(num_tokens, 0);
        self.targets.resize(num_tokens, 0);
        self.document_starts.clear();
        self.document_starts.resize(num_tokens, 0);
        self.encoder_inputs.clear();
        self.loss_inputs.clear();
    }

    /// Copies a sequence of another micro-batch, `row` of its tokens, to the tokens from `first` on; behind it are zeros that carry no loss, of
    /// its last document, up to `seq_length` tokens.
    pub fn copy_row(&mut self, from: &Self, row: Range<usize>, first: usize, seq_length: usize) {
        let (own, rest) = (first..first + row.len(), first + row.len()..first + seq_length);
        self.inputs[own.clone()].copy_from_slice(&from.inputs[row.clone()]);
        self.targets[own.clone()].copy_from_slice(&from.targets[row.clone()]);
        self.document_starts[own].copy_from_slice(&from.document_starts[row.clone()]);
        self.inputs[rest.clone()].fill(0);
        self.targets[rest.clone()].fill(IGNORED_TARGET);
        let last = row.last().map_or(0, |last| from.document_starts[last]);
        self.document_starts[rest].fill(last);
    }

    /// Gives the loss zeros, for a micro-batch in which no target counts.
    pub(crate) fn clear_loss_inputs(&mut self) {
        self.loss_inputs.clear();
        self.loss_inputs.resize(self.num_loss_inputs * self.inputs.len(), 0.0);
    }

    /// Refuses a batch of another size, tokens that the layers cannot index with, documents that begin where none can, and inputs that the
    /// model's input encoder does not take.
    pub(crate) fn check(
        &self,
        shape: MicroBatchShape,
        vocab_size: usize,
        encoder: Option<&EncoderSpec>,
        loss: LossInputs,
    ) -> Result<(), BatchFault> {
        let num_tokens = shape.num_tokens();
        let (num_inputs, num_targets) = (self.inputs.len(), self.targets.len());
        if num_inputs != num_tokens || num_targets != num_tokens {
            return Err(BatchFault::Resized { num_inputs, num_targets, num_tokens });
        }
        self.check_documents(shape)?;
        self.encoder_inputs.check(encoder, shape).map_err(BatchFault::EncoderInputs)?;
        self.check_loss_inputs(num_tokens, loss)?;
        let inputs = self.inputs.iter().map(|token| ("input", token)).enumerate();
        let targets = self.targets.iter().map(|token| ("target", token)).enumerate();
        let is_unknown = |token: u32| token as usize >= vocab_size;
        for (position, (role, &token)) in inputs.chain(targets) {
            if is_unknown(token) && (role, token) != ("target", IGNORED_TARGET) {
                return Err(BatchFault::UnknownToken { token, role, position, vocab_size });
            }
        }
        Ok(())
    }

    fn check_loss_inputs(&self, num_tokens: usize, loss: LossInputs) -> Result<(), BatchFault> {
        let (per_token, num_values) = (self.num_loss_inputs, self.loss_inputs.len());
        let is_left_out = num_values == 0 && !loss.needed;
        if per_token == 0 || is_left_out || num_values == per_token * num_tokens {
            return Ok(());
        }
        Err(BatchFault::LossInputs { num_values, per_token, num_tokens })
    }

    fn check_documents(&self, shape: MicroBatchShape) -> Result<(), BatchFault> {
        let (num_starts, num_tokens) = (self.document_starts.len(), shape.num_tokens());
        if num_starts != num_tokens {
            return Err(BatchFault::ResizedDocuments { num_starts, num_tokens });
        }
        for (row, starts) in self.document_starts.chunks_exact(shape.seq_length).enumerate() {
            let mut before = 0;
            for (position, &start) in starts.iter().enumerate() {
                if start != before && start as usize != position {
                    return Err(BatchFault::DocumentStart { start, row, position, before });
                }
                before = start;
            }
        }
        Ok(())
    }
}

/// What is wrong with a micro-batch that a source filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchFault {
    /// The source changed its size.
    #[error(
        "the source left {num_inputs} inputs and {num_targets} targets in a micro-batch of {num_tokens} tokens; fill the \
         vectors, do not resize them"
    )]
    Resized {
        /// Inputs after the source filled it.
        num_inputs: usize,
        /// Targets after the source filled it.
        num_targets: usize,
        /// Tokens of a micro-batch.
        num_tokens: usize,
    },
    /// The source changed how many starts of documents there are.
    #[error(
        "the source left {num_starts} starts of documents in a micro-batch of {num_tokens} tokens; fill the vector, do not resize it"
    )]
    ResizedDocuments {
        /// Starts after the source filled it.
        num_starts: usize,
        /// Tokens of a micro-batch.
        num_tokens: usize,
    },
    /// Not the values that the loss reads.
    #[error(
        "the source gave {num_values} values for the loss of a micro-batch of {num_tokens} tokens, and the loss reads {per_token} of each: \
         append {} to `TokenBatch::loss_inputs`",
        num_tokens * per_token
    )]
    LossInputs {
        /// Values that the source gave.
        num_values: usize,
        /// K.
        per_token: usize,
        /// Tokens of a micro-batch.
        num_tokens: usize,
    },
    /// A document that begins where none can.
    #[error(
        "the source says that the document of token {position} of row {row} begins at {start}, but a token's document is that of the \
         token before it, which begins at {before}, or begins with it; write {before} or {position}"
    )]
    DocumentStart {
        /// What the source wrote.
        start: u32,
        /// The row.
        row: usize,
        /// The token's position in it.
        position: usize,
        /// Where the document of the token before it begins; 0 for the first token.
        before: u32,
    },
    /// A length that the micro-batch cannot have.
    #[error(
        "the source says that its sequences have {seq_length} tokens, which must be 1 to {longest}, the model's seq_length"
    )]
    SeqLength {
        /// What it said.
        seq_length: usize,
        /// What is allocated.
        longest: usize,
    },
    /// Inputs that the model's input encoder does not take.
    #[error("{0}")]
    EncoderInputs(EncoderFault),
    /// A token outside the vocabulary.
    #[error(
        "the source gave token {token} as {role} {position}, but the model knows tokens below vocab_size {vocab_size}"
    )]
    UnknownToken {
        /// The token.
        token: u32,
        /// `input` or `target`.
        role: &'static str,
        /// Its index in the micro-batch.
        position: usize,
        /// V.
        vocab_size: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: MicroBatchShape = MicroBatchShape { num_sequences: 2, seq_length: 3 };

    fn check(document_starts: &[u32]) -> Result<(), BatchFault> {
        TokenBatch { document_starts: document_starts.to_vec(), ..TokenBatch::zeros(2, 3) }.check(
            SHAPE,
            1,
            None,
            LossInputs::default(),
        )
    }

    /// All starts below 5 of one row of three tokens, beside the definition: a row is cut into documents behind some of its tokens.
    #[test]
    fn documents_begin_where_a_row_can_be_cut_and_nowhere_else() {
        let valid = [[0, 0, 0], [0, 0, 2], [0, 1, 1], [0, 1, 2]];
        for starts in (0..125).map(|code| [code % 5, code / 5 % 5, code / 25]) {
            for row in 0..2 {
                let mut all = [0; 6];
                all[3 * row..][..3].copy_from_slice(&starts);
                assert_eq!(check(&all).is_ok(), valid.contains(&starts), "{starts:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        assert_eq!(
            check(&[0, 0, 2, 0, 1, 0]).unwrap_err().to_string(),
            "the source says that the document of token 2 of row 1 begins at 0, but a token's document is that of the token before it, \
             which begins at 1, or begins with it; write 1 or 2"
        );
        assert_eq!(
            check(&[0; 5]).unwrap_err().to_string(),
            "the source left 5 starts of documents in a micro-batch of 6 tokens; fill the vector, do not resize it"
        );
    }
}
