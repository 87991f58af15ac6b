//! What can be told of a run's data before it is read: whether files, tokenizer, weights and lengths go with the run.

use std::path::PathBuf;

use pipezero_config::DataConfig;
use pipezero_files::records::begins_as_json;
use pipezero_tokens::{FoundAs, TokenFile};

use super::blend::Blend;
use super::data_error::DataError;
use super::extent::{Extent, check};
use super::opener::Opener;

/// Tokens at the beginning of a file that are looked at.
const NUM_LOOKED_AT: u64 = 4096;

/// What is worth knowing of data that can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Tokens that are trained on or held out; `None` of text that a tokenizer is still to turn into tokens, and of JSON.
    pub num_tokens: Option<u64>,
    /// A file that begins as JSON does and is read as text, as its name says: the names of fields become tokens too.
    pub json_as_text: Option<PathBuf>,
    /// The chat template that makes texts of conversations, if it writes the date into them.
    pub dated_template: Option<PathBuf>,
    /// Whether there are files of tokens, and each of them says itself how it stores them.
    pub all_say_their_type: bool,
}

/// Opens what a run's data names, reads the beginning of each file of tokens, and compares lengths. Texts are found and not read, so how many
/// tokens a tokenizer makes of them is not known; of JSON the first document is read.
///
/// # Errors
/// Those with which the data would be read, as far as they can be known.
pub fn inspect(config: &DataConfig, seq_length: usize, vocab_size: usize) -> Result<Inspected, DataError> {
    let opener = Opener::new(config, vocab_size)?;
    let files = &config.files;
    let opened = |paths: &[PathBuf]| {
        let each = paths.iter().map(|path| {
            let file = opener.token_file(path)?;
            let mut first = vec![0; file.num_tokens().min(NUM_LOOKED_AT) as usize];
            file.read(0, &mut first, vocab_size)?;
            Ok(file)
        });
        each.collect::<Result<Vec<TokenFile>, DataError>>()
    };
    if !files.weights.is_empty() {
        Blend::new(&files.weights)?;
    }
    let main = opened(&files.tokens)?;
    let held_out = opened(&files.validation_tokens);
    let held_out = held_out.map_err(|error| DataError::Validation(Box::new(error)))?;
    let extents = |files: &[TokenFile]| files.iter().map(Extent::of_file).collect::<Vec<_>>();
    let mut inspected = Inspected::default();
    if files.tokens.is_empty() {
        let found = opener.find_texts()?;
        let template =
            opener.chat_template().filter(|template| found.has_conversations && template.asks_for_date());
        inspected.dated_template = template.map(|template| template.path().to_owned());
        inspected.json_as_text = found.files.into_iter().find(|path| begins_as_json(path));
        inspected.num_tokens = found.num_tokens;
        let Some(num_tokens) = found.num_tokens else { return Ok(inspected) };
        check(config, seq_length, &[Extent::of_text(num_tokens)], &extents(&held_out))?;
    } else {
        check(config, seq_length, &extents(&main), &extents(&held_out))?;
        inspected.num_tokens = Some(main.iter().map(TokenFile::num_tokens).sum());
        let says_its_type = |file: &TokenFile| file.found_as() != FoundAs::Bare;
        inspected.all_say_their_type = main.iter().chain(&held_out).all(says_its_type);
    }
    Ok(inspected)
}
