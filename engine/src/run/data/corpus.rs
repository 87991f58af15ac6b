//! The text of a run, read and split.

use std::path::PathBuf;

use super::source::BatchError;
use super::split::{SplitError, split_text};
use super::text::{TextError, read_text};
use super::text_batches::{BatchLayout, TextBatches};
use super::token_batch::BatchFault;
use crate::config::DataConfig;

/// Both sides of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// What is trained on.
    pub training: Vec<u8>,
    /// What is held out; may be empty.
    pub validation: Vec<u8>,
    seq_length: usize,
}

/// Why there are no batches.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The text cannot be read.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The text is too short.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Nothing is held out.
    #[error("the run holds out no validation text (`data.validation` is 0); name text to score with --data")]
    NoValidation,
    /// The text has bytes that the model has no tokens for.
    #[error(
        "the text holds the byte {byte}, but the model knows tokens below vocab_size {vocab_size}; text is read as bytes, so \
         use 256"
    )]
    Vocabulary {
        /// The largest byte of the text.
        byte: u8,
        /// V.
        vocab_size: usize,
    },
    /// The user's source failed.
    #[error("the source failed: {0}")]
    Source(BatchError),
    /// The user's source returned a micro-batch that cannot be used.
    #[error(transparent)]
    Batch(BatchFault),
}

impl Corpus {
    /// Reads and splits the text of a run.
    ///
    /// # Errors
    /// When a file cannot be read, is not UTF-8, or a side is shorter than a sequence and its last target.
    pub fn load(config: &DataConfig, seq_length: usize) -> Result<Self, DataError> {
        let split = split_text(&read_text(&config.text)?, config.validation, seq_length)?;
        Ok(Self { training: split.training, validation: split.validation, seq_length })
    }

    /// Reads text of which nothing is held out.
    ///
    /// # Errors
    /// As [`Corpus::load`].
    pub fn unsplit(text: &[PathBuf], seq_length: usize) -> Result<Self, DataError> {
        Self::load(
            &DataConfig { text: text.to_vec(), validation: 0.0, document_attention: false },
            seq_length,
        )
    }

    /// Refuses text with a byte that is not a token of the model.
    ///
    /// # Errors
    /// [`DataError::Vocabulary`].
    pub fn check_vocabulary(&self, vocab_size: usize) -> Result<(), DataError> {
        match self.training.iter().chain(&self.validation).max() {
            Some(&byte) if usize::from(byte) >= vocab_size => Err(DataError::Vocabulary { byte, vocab_size }),
            _ => Ok(()),
        }
    }

    /// The batches to train on.
    ///
    /// # Errors
    /// When the layout's sequences are longer than the ones that the text was checked for.
    pub fn training_batches(&self, layout: BatchLayout, seed: u64) -> Result<TextBatches, DataError> {
        self.batches(&self.training, layout, seed)
    }

    /// The batches to validate on, if anything is held out. Their seed differs from training's.
    ///
    /// # Errors
    /// As [`Corpus::training_batches`].
    pub fn validation_batches(
        &self,
        layout: BatchLayout,
        seed: u64,
    ) -> Result<Option<TextBatches>, DataError> {
        if self.validation.is_empty() {
            return Ok(None);
        }
        self.batches(&self.validation, layout, !seed).map(Some)
    }

    fn batches(&self, text: &[u8], layout: BatchLayout, seed: u64) -> Result<TextBatches, DataError> {
        let too_short = || {
            DataError::Split(SplitError::TooShort {
                num_bytes: text.len(),
                seq_length: layout.seq_length.max(self.seq_length),
            })
        };
        TextBatches::new(text.to_vec(), layout, seed).ok_or_else(too_short)
    }
}
