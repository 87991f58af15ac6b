//! What is wrong with a document.

use pipezero_tokens::{Tokenizer, TokenizerError};

/// What is wrong with a line of JSON, or a piece of text, and a repair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentFault {
    /// The tokenizer fails at it.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// It is no JSON.
    #[error("column {column}: {reason}; a line holds one JSON object")]
    Json {
        /// Where in the line, in bytes from 1.
        column: usize,
        /// What the library says.
        reason: String,
    },
    /// It is JSON, but no object.
    #[error("it is JSON, but no object; write for example {{\"text\": \"...\"}}")]
    NoObject,
    /// It has none of the forms of a document.
    #[error(
        "it has neither \"{text}\", nor \"{prompt}\" and \"{completion}\", nor \"tokens\", but {}; name the field of the text with \
         --text-field",
        listed(found)
    )]
    NoForm {
        /// The field of a text.
        text: String,
        /// The field of a prompt.
        prompt: String,
        /// The field of its completion.
        completion: String,
        /// The fields that it has.
        found: Vec<String>,
    },
    /// It has fields of two documents.
    #[error(
        "it has \"{first}\" and \"{second}\", and a line holds one document, in one form: leave one out, or let --text-field, \
         --prompt-field or --completion-field name a field that the line does not have"
    )]
    TwoForms {
        /// A field of the one.
        first: String,
        /// A field of the other.
        second: String,
    },
    /// It has a mask of nothing.
    #[error("it has \"mask\" and no \"tokens\" that it could be the mask of; write both, or neither")]
    LoneMask,
    /// What would be its document is null.
    #[error("\"{name}\" is null, and the line holds no other document; leave the line out")]
    Null {
        /// The field.
        name: String,
    },
    /// Half of a pair.
    #[error("it has \"{there}\" and no \"{missing}\"; a pair has both")]
    LoneField {
        /// The field that it has.
        there: String,
        /// The field that it has not.
        missing: String,
    },
    /// A field is no string.
    #[error("\"{name}\" is {kind}, and must be a string")]
    NoString {
        /// The field.
        name: String,
        /// What it is instead.
        kind: &'static str,
    },
    /// A field is no list.
    #[error("\"{name}\" is {kind}, and must be a list")]
    NoList {
        /// The field.
        name: String,
        /// What it is instead.
        kind: &'static str,
    },
    /// A mask of another length than the tokens.
    #[error(
        "\"mask\" has {num_entries} entries, and \"tokens\" has {num_tokens}: each token has one, 1 where it carries loss and 0 where it \
         does not"
    )]
    MaskLength {
        /// Entries of the mask.
        num_entries: usize,
        /// Tokens.
        num_tokens: usize,
    },
    /// What the tokenizer does not know.
    #[error("\"tokens\" has {entry} at {position}, and the tokenizer has whole numbers below {vocab_size}")]
    UnknownToken {
        /// The entry, as it is written.
        entry: String,
        /// Its index in the list.
        position: usize,
        /// One more than the largest token.
        vocab_size: usize,
    },
    /// An entry of a mask that means nothing.
    #[error("\"mask\" has {entry} at {position}, and must have 0 or 1")]
    MaskEntry {
        /// The entry, as it is written.
        entry: String,
        /// Its index in the list.
        position: usize,
    },
    /// It is not UTF-8.
    #[error("it is not UTF-8 text, {offset} bytes from here; convert it, or leave the file out")]
    NotUtf8 {
        /// The first byte that is part of no character, counted from 0.
        offset: usize,
    },
    /// A line is too long.
    #[error("the line is longer than {} MiB; a line holds one document", Tokenizer::TEXT_BYTES_MAX >> 20)]
    LongLine,
    /// A text is too long.
    #[error(
        "the document is longer than {} MiB: it is read whole, since its tokens depend on what stands beside them; say what stands \
         between documents, such as --separator '<|endoftext|>' or --separator '\\n\\n'",
        Tokenizer::TEXT_BYTES_MAX >> 20
    )]
    LongText,
}

/// The first fields of a line.
fn listed(fields: &[String]) -> String {
    let names: Vec<String> = fields.iter().take(6).map(|name| format!("\"{name}\"")).collect();
    if names.is_empty() { "no field".to_owned() } else { names.join(", ") }
}
