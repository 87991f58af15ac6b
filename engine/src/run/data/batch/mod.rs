//! Micro-batches: what the engine asks of data, and how text answers.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::ops::Range;

use pipezero_models::layer::IGNORED_TARGET;

use crate::run::data::sampler::Permutation;

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

    /// Bytes of inputs and targets.
    pub(crate) fn num_bytes(&self) -> u64 {
        (size_of_val(self.inputs.as_slice()) + size_of_val(self.targets.as_slice())) as u64
    }
}

/// Micro-batches of zeros: for models that read no tokens.
#[derive(Clone, Copy, Debug)]
pub struct Zeros;

impl BatchSource for Zeros {
    fn micro_batch(
        &self,
        _step: u64,
        _data_rank: usize,
        _micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        batch.inputs.fill(0);
        batch.targets.fill(0);
        Ok(())
    }

    fn epoch(&self, _step: u64) -> f64 {
        0.0
    }
}

/// What is wrong with a micro-batch that a source gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchFault {
    /// It has another size than it was handed out with.
    #[error(
        "the source left {num_inputs} inputs and {num_targets} targets in a micro-batch of {num_tokens} tokens; fill the \
         vectors, do not resize them"
    )]
    Resized {
        /// Inputs that came back.
        num_inputs: usize,
        /// Targets that came back.
        num_targets: usize,
        /// Tokens of a micro-batch.
        num_tokens: usize,
    },
    /// A token that the model does not know.
    #[error(
        "the source gave token {token} as {role} {position}, but the model knows tokens below vocab_size {vocab_size}"
    )]
    UnknownToken {
        /// The token.
        token: u32,
        /// `input` or `target`.
        role: &'static str,
        /// Its place in the micro-batch.
        position: usize,
        /// V.
        vocab_size: usize,
    },
}

impl TokenBatch {
    /// Refuses what the layers could not index with.
    pub(crate) fn check(&self, num_tokens: usize, vocab_size: usize) -> Result<(), BatchFault> {
        let (num_inputs, num_targets) = (self.inputs.len(), self.targets.len());
        if num_inputs != num_tokens || num_targets != num_tokens {
            return Err(BatchFault::Resized { num_inputs, num_targets, num_tokens });
        }
        let is_unknown = |token: u32| token as usize >= vocab_size;
        if let Some(position) = self.inputs.iter().position(|&token| is_unknown(token)) {
            let token = self.inputs[position];
            return Err(BatchFault::UnknownToken { token, role: "input", position, vocab_size });
        }
        let is_unknown = |token: u32| token != IGNORED_TARGET && is_unknown(token);
        if let Some(position) = self.targets.iter().position(|&token| is_unknown(token)) {
            let token = self.targets[position];
            return Err(BatchFault::UnknownToken { token, role: "target", position, vocab_size });
        }
        Ok(())
    }
}

/// Why a source has no micro-batch.
pub type BatchError = Box<dyn Error + Send + Sync>;

/// Where micro-batches come from; users implement it for data of their own.
///
/// Several threads ask at once, and the first and the last pipeline stage both ask for the same micro-batch: the answer
/// must depend on the arguments alone.
pub trait BatchSource: Send + Sync {
    /// Fills `batch` with micro-batch `micro_batch` of data rank `data_rank` at `step`, which counts from 1.
    ///
    /// # Errors
    /// Whatever keeps the source from filling it; the run stops with it.
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError>;

    /// How often the data has been read through once this step has ended: 1.5 after one and a half passes.
    fn epoch(&self, step: u64) -> f64;
}

/// How the samples of a step are dealt out. A step's batch is contiguous, a data rank takes a contiguous share of it,
/// and a micro-batch is contiguous within that share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLayout {
    /// Data ranks.
    pub data_degree: usize,
    /// Micro-batches of a step on each data rank.
    pub num_micro_batches: usize,
    /// B: sequences of a micro-batch.
    pub micro_batch_size: usize,
    /// T: tokens of a sequence.
    pub seq_length: usize,
}

impl BatchLayout {
    /// Sequences of a step over all data ranks.
    pub fn train_batch_size(&self) -> usize {
        self.data_degree * self.num_micro_batches * self.micro_batch_size
    }

    /// The places of a micro-batch's sequences in the step's batch.
    fn places(&self, data_rank: usize, micro_batch: usize) -> Range<usize> {
        let first = (data_rank * self.num_micro_batches + micro_batch) * self.micro_batch_size;
        first..first + self.micro_batch_size
    }
}

/// Micro-batches of a text whose tokens are its bytes.
///
/// Sample `i` is the window of `T + 1` tokens that begins at `i * T`: inputs and targets overlap in all but one token,
/// and every token is a target once per epoch. Sequence `i` of step `s` is number
/// `(s - 1) * train_batch_size + i` of the seeded permutations, whatever the grid.
#[derive(Clone, Debug)]
pub struct TextBatches {
    text: Vec<u8>,
    layout: BatchLayout,
    permutation: Permutation,
}

impl TextBatches {
    /// Micro-batches of this text; `None` if it is shorter than `seq_length + 1` or `seq_length` is 0.
    pub fn new(text: Vec<u8>, layout: BatchLayout, seed: u64) -> Option<Self> {
        let num_samples = text.len().checked_sub(1)?.checked_div(layout.seq_length)?;
        let permutation = Permutation::new(num_samples as u64, seed)?;
        Some(Self { text, layout, permutation })
    }

    /// Number of samples of an epoch, at least one.
    pub fn num_samples(&self) -> u64 {
        self.permutation.num_samples()
    }
}

impl BatchSource for TextBatches {
    /// # Panics
    /// If `step` is 0 or `batch` is not of the layout's size.
    fn micro_batch(
        &self,
        step: u64,
        data_rank: usize,
        micro_batch: usize,
        batch: &mut TokenBatch,
    ) -> Result<(), BatchError> {
        let seq_length = self.layout.seq_length;
        let first_of_step = (step - 1) * self.layout.train_batch_size() as u64;
        let rows = batch.inputs.chunks_exact_mut(seq_length).zip(batch.targets.chunks_exact_mut(seq_length));
        let places = self.layout.places(data_rank, micro_batch);
        assert_eq!(rows.len(), places.len(), "a micro-batch has micro_batch_size sequences");
        for (place, (inputs, targets)) in places.zip(rows) {
            let sample = self.permutation.sample(first_of_step + place as u64) as usize;
            let window = &self.text[sample * seq_length..][..seq_length + 1];
            for (position, (input, target)) in inputs.iter_mut().zip(targets).enumerate() {
                *input = u32::from(window[position]);
                *target = u32::from(window[position + 1]);
            }
        }
        Ok(())
    }

    fn epoch(&self, step: u64) -> f64 {
        step as f64 * self.layout.train_batch_size() as f64 / self.num_samples() as f64
    }
}
