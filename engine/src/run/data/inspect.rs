//! What can be told of a run's data before it is read: whether files, tokenizer, weights and lengths go with the run.

use std::path::PathBuf;

use super::blend::Blend;
use super::data_error::DataError;
use super::opener::Opener;
use super::split::check_length;
use super::text::is_json_lines;
use crate::config::DataConfig;
use crate::tokens::{FoundAs, TokenFile};

/// Tokens at the beginning of a file that are looked at.
const NUM_LOOKED_AT: u64 = 4096;

/// What is worth knowing of data that can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// A text that holds JSON on each line, of which the names of fields become tokens too.
    pub json_lines: Option<PathBuf>,
    /// Whether there are files of tokens, and each of them says itself how it stores them.
    pub all_say_their_type: bool,
}

/// Opens what a run's data names, reads the beginning of each file of tokens, and compares lengths. Texts are found and not read, so how many
/// tokens a tokenizer makes of them is not known.
///
/// # Errors
/// As those with which the data would be read, as far as they can be known.
pub fn inspect(config: &DataConfig, seq_length: usize, vocab_size: usize) -> Result<Inspected, DataError> {
    let opener = Opener::new(config, vocab_size)?;
    let files = &config.files;
    if files.tokens.is_empty()
        && let Some(num_tokens) = opener.text_bytes()?
    {
        check_length(num_tokens, config.validation, seq_length).map_err(DataError::Split)?;
    }
    let opened = |paths: &[PathBuf]| {
        let each = paths.iter().map(|path| {
            let file = opener.token_file(path)?;
            begins_well(&file, vocab_size)?;
            Ok(file)
        });
        each.collect::<Result<Vec<TokenFile>, DataError>>()
    };
    let main = opened(&files.tokens)?;
    if !main.is_empty() && main.iter().all(carries_no_loss) {
        return Err(DataError::NothingToLearn);
    }
    if !files.weights.is_empty() {
        Blend::new(&files.weights)?;
        for (number, file) in (1..).zip(&main) {
            check_length(file.num_tokens(), config.validation, seq_length)
                .map_err(|error| DataError::Source { number, error })?;
        }
    } else if !main.is_empty() {
        let num_tokens = main.iter().map(TokenFile::num_tokens).sum();
        check_length(num_tokens, config.validation, seq_length).map_err(DataError::SplitTokens)?;
    }
    let in_key = |error| DataError::Validation(Box::new(error));
    let held_out = opened(&files.validation_tokens).map_err(in_key)?;
    if !held_out.is_empty() {
        let num_tokens = held_out.iter().map(TokenFile::num_tokens).sum();
        check_length(num_tokens, 0.0, seq_length).map_err(|error| in_key(DataError::SplitTokens(error)))?;
    }
    let says_its_type = |file: &TokenFile| file.found_as() != FoundAs::Bare;
    let all_say_their_type = !main.is_empty() && main.iter().chain(&held_out).all(says_its_type);
    let json_lines = config.text.iter().find(|path| is_json_lines(path)).cloned();
    Ok(Inspected { json_lines, all_say_their_type })
}

/// Refuses a file whose first tokens are not of the vocabulary.
fn begins_well(file: &TokenFile, vocab_size: usize) -> Result<(), DataError> {
    let mut tokens = vec![0; file.num_tokens().min(NUM_LOOKED_AT) as usize];
    Ok(file.read(0, &mut tokens, vocab_size)?)
}

fn carries_no_loss(file: &TokenFile) -> bool {
    file.unscored().iter().map(|range| range.end - range.start).sum::<u64>() == file.num_tokens()
}
