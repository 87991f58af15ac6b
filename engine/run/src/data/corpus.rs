//! The tokens of a run, found and split.

use std::path::PathBuf;
use std::sync::Arc;

use pipezero_config::{DataConfig, TokenFilesConfig};
use xxhash_rust::xxh3::Xxh3;

use super::batches::{BatchLayout, TokenBatches};
use super::blend::Blend;
use super::data_error::DataError;
use super::every_sequence::EverySequence;
use super::extent::{Extent, check};
use super::ngram::{NgramCrossEntropy, ngram_cross_entropy};
use super::opener::Opener;
use super::split::{Sides, SplitError, split};
use super::store::Store;
use super::stream::Stream;

/// Both sides of the data.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// What is trained on: one stream or, where sources have weights, one for each.
    training: Vec<Stream>,
    /// What is held out; without a token if nothing is.
    validation: Vec<Stream>,
    blend: Option<Blend>,
    seq_length: usize,
    /// How many tokens there may be.
    num_kinds: usize,
    tokenizer_checksum: Option<u64>,
    attends_in_documents: bool,
}

impl Corpus {
    /// Reads and splits the data of a run.
    ///
    /// # Errors
    /// When a file cannot be read, or a side is shorter than a sequence and its last target.
    pub fn load(config: &DataConfig, seq_length: usize, vocab_size: usize) -> Result<Self, DataError> {
        let opener = Opener::new(config, vocab_size)?;
        let files = &config.files;
        let blend = if files.weights.is_empty() { None } else { Some(Blend::new(&files.weights)?) };
        let stores = Arc::new(opener.main()?);
        let held_out = opener.validation().map_err(|error| DataError::Validation(Box::new(error)))?;
        let extents = |stores: &[Store]| stores.iter().map(Extent::of_store).collect::<Vec<_>>();
        check(config, seq_length, &extents(&stores), &extents(&held_out))?;
        let of = |range| {
            split(&stores, range, config.validation, seq_length, vocab_size).map_err(DataError::Split)
        };
        let sides = match blend {
            None => vec![of(0..stores.len())?],
            Some(_) => (0..stores.len()).map(|number| of(number..number + 1)).collect::<Result<_, _>>()?,
        };
        let sides = sides.into_iter().map(|Sides { training, validation }| (training, validation));
        let (training, mut validation): (Vec<Stream>, Vec<Stream>) = sides.unzip();
        if !held_out.is_empty() {
            let stores = Arc::new(held_out);
            let whole = split(&stores, 0..stores.len(), 0.0, seq_length, vocab_size);
            validation = vec![whole.map_err(DataError::Split)?.training];
        }
        let num_kinds = opener.num_kinds;
        let corpus = Self {
            training,
            validation,
            blend,
            seq_length,
            num_kinds,
            tokenizer_checksum: opener.tokenizer_checksum(),
            attends_in_documents: config.document_attention,
        };
        corpus.check_texts(vocab_size)?;
        Ok(corpus)
    }

    /// Reads data of which nothing is held out, as that of a run is read: files of tokens where all are, else text.
    ///
    /// # Errors
    /// As [`Corpus::load`].
    pub fn unsplit(
        paths: &[PathBuf],
        of_run: &DataConfig,
        seq_length: usize,
        vocab_size: usize,
    ) -> Result<Self, DataError> {
        let (tokens, text): (Vec<PathBuf>, Vec<PathBuf>) = paths.iter().cloned().partition(|path| {
            let ending = path.extension();
            ending.is_some_and(|ending| ending == "bin" || ending == "idx")
                || (!path.exists() && path.with_added_extension("bin").is_file())
        });
        if let ([tokens, ..], [text, ..]) = (&tokens[..], &text[..]) {
            return Err(DataError::Mixed { tokens: tokens.clone(), text: text.clone() });
        }
        let files = TokenFilesConfig {
            tokens,
            weights: Vec::new(),
            validation_tokens: Vec::new(),
            ..of_run.files.clone()
        };
        Self::load(&DataConfig { text, files, validation: 0.0, ..of_run.clone() }, seq_length, vocab_size)
    }

    /// Refuses text with a token beyond the model's. Files of tokens are looked at as they are read.
    fn check_texts(&self, vocab_size: usize) -> Result<(), DataError> {
        let largest = self.training.iter().chain(&self.validation).filter_map(Stream::largest_of_texts).max();
        match largest {
            Some(byte) if byte as usize >= vocab_size => Err(DataError::Vocabulary { byte, vocab_size }),
            _ => Ok(()),
        }
    }

    /// Whether its tokens were made of text when it was read.
    pub fn is_text(&self) -> bool {
        self.training.iter().all(Stream::is_text)
    }

    /// Tokens that are trained on, and that are held out.
    pub fn num_tokens(&self) -> [u64; 2] {
        [&self.training, &self.validation].map(|side| side.iter().map(Stream::num_tokens).sum())
    }

    /// The files of tokens, each once, in their order.
    pub fn token_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = Vec::new();
        for path in self.training.iter().chain(&self.validation).flat_map(Stream::token_files) {
            if !files.iter().any(|known| known == path) {
                files.push(path.to_owned());
            }
        }
        files
    }

    /// The checksum of the content of the run's tokenizer, if it has one.
    pub fn tokenizer_checksum(&self) -> Option<u64> {
        self.tokenizer_checksum
    }

    /// A checksum of what is trained on: of all of it where that is text; of files of tokens their lengths, their documents and blocks of
    /// them, evenly spaced.
    ///
    /// # Errors
    /// When a text or a file of tokens cannot be read.
    pub fn checksum(&self) -> Result<u64, DataError> {
        let mut checksum = Xxh3::new();
        for stream in &self.training {
            stream.add_to(&mut checksum)?;
        }
        if let Some(blend) = &self.blend {
            blend.shares().iter().for_each(|share| checksum.update(&share.to_le_bytes()));
        }
        Ok(checksum.digest())
    }

    /// The same of what is held out; `None` if nothing is.
    ///
    /// # Errors
    /// As [`Corpus::checksum`].
    pub fn validation_checksum(&self) -> Result<Option<u64>, DataError> {
        if !self.holds_out() {
            return Ok(None);
        }
        let mut checksum = Xxh3::new();
        for stream in &self.validation {
            stream.add_to(&mut checksum)?;
        }
        Ok(Some(checksum.digest()))
    }

    fn holds_out(&self) -> bool {
        self.validation.iter().any(|stream| stream.num_tokens() > 0)
    }

    /// The batches to train on.
    ///
    /// # Errors
    /// When the layout's sequences are longer than the ones that the data was checked for.
    pub fn training_batches(&self, layout: BatchLayout, seed: u64) -> Result<TokenBatches, DataError> {
        self.batches(&self.training, self.blend.clone(), layout, seed)
    }

    /// The batches to validate on, if anything is held out. Their seed differs from training's.
    ///
    /// # Errors
    /// As [`Corpus::training_batches`].
    pub fn validation_batches(
        &self,
        layout: BatchLayout,
        seed: u64,
    ) -> Result<Option<TokenBatches>, DataError> {
        if !self.holds_out() {
            return Ok(None);
        }
        // Of sources with weights, in the same proportions.
        let blend = self.blend.clone().filter(|_| self.validation.len() == self.training.len());
        self.batches(&self.validation, blend, layout, !seed).map(Some)
    }

    /// Every sequence of one side once: of what is held out, or of what is trained on.
    ///
    /// # Errors
    /// [`DataError::NoValidation`] where that side has no token.
    pub fn every_sequence(&self, layout: BatchLayout, is_held_out: bool) -> Result<EverySequence, DataError> {
        let sources = if is_held_out { &self.validation } else { &self.training };
        if sources.iter().all(|stream| stream.num_tokens() == 0) {
            return Err(DataError::NoValidation);
        }
        Ok(EverySequence::new(sources.clone(), layout, self.attends_in_documents))
    }

    /// What counting alone achieves; `None` without validation data, of sources with weights, and of very many tokens.
    ///
    /// # Errors
    /// When a text or a file of tokens cannot be read.
    pub fn baselines(&self) -> Result<Option<NgramCrossEntropy>, DataError> {
        match (&self.training[..], &self.validation[..]) {
            ([training], [validation]) => Ok(ngram_cross_entropy(training, validation, self.num_kinds)?),
            _ => Ok(None),
        }
    }

    fn batches(
        &self,
        side: &[Stream],
        blend: Option<Blend>,
        layout: BatchLayout,
        seed: u64,
    ) -> Result<TokenBatches, DataError> {
        let too_short = || {
            DataError::Split(SplitError::TooShort {
                num_tokens: side.iter().map(Stream::num_tokens).min().unwrap_or(0),
                seq_length: layout.seq_length.max(self.seq_length),
            })
        };
        let batches = TokenBatches::new(side.to_vec(), blend, layout, seed).ok_or_else(too_short)?;
        Ok(batches.in_documents(self.attends_in_documents))
    }
}
