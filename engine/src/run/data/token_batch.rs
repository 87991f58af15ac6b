//! The tokens of a micro-batch.

use pipezero_models::layer::IGNORED_TARGET;

/// The tokens of one micro-batch: B sequences of T tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBatch {
    /// `[B, T]` token numbers.
    pub inputs: Vec<u32>,
    /// `[B, T]` the token after each input; [`pipezero_models::layer::IGNORED_TARGET`] carries no loss.
    pub targets: Vec<u32>,
}

impl TokenBatch {
    /// A micro-batch of zeros to be filled, so that a step allocates nothing.
    pub fn zeros(num_sequences: usize, seq_length: usize) -> Self {
        let num_tokens = num_sequences * seq_length;
        Self { inputs: vec![0; num_tokens], targets: vec![0; num_tokens] }
    }

    /// Refuses a batch of another size, and tokens that the layers cannot index with.
    pub(crate) fn check(&self, num_tokens: usize, vocab_size: usize) -> Result<(), BatchFault> {
        let (num_inputs, num_targets) = (self.inputs.len(), self.targets.len());
        if num_inputs != num_tokens || num_targets != num_tokens {
            return Err(BatchFault::Resized { num_inputs, num_targets, num_tokens });
        }
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
