//! What is wrong with a document.

use pipezero_files::records::RecordFault;

use super::fields::Fields;
use crate::TokenizerError;
use crate::chat::ChatFault;

/// What is wrong with a piece of text, or a value in JSON, and a repair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentFault {
    /// The tokenizer fails at it.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// It is a conversation that the tokenizer's chat template makes no text of.
    #[error(transparent)]
    Chat(#[from] ChatFault),
    /// It cannot be read.
    #[error(transparent)]
    Record(#[from] RecordFault),
    /// It is no JSON.
    #[error(
        "{}column {column}: {reason}; {}",
        if *line > 1 { format!("line {line} of the value, ") } else { String::new() },
        if *is_line { "a line holds one JSON object" } else { "the value that begins here must be a JSON object" }
    )]
    Json {
        /// Where in the value, from 1.
        line: usize,
        /// Where in this line, in bytes from 1.
        column: usize,
        /// What the library says.
        reason: String,
        /// Whether values are told apart by lines.
        is_line: bool,
    },
    /// It is JSON, but no object.
    #[error("it is JSON, but no object: it is {kind}; write for example {{\"text\": \"...\"}}")]
    NoObject {
        /// What it is instead.
        kind: &'static str,
    },
    /// It has none of the forms of a document.
    #[error(
        "it has neither \"{}\", nor \"messages\", nor \"{}\" and \"{}\", nor \"instruction\" and \"output\", nor \"tokens\", but {}; name the field of the text with --text-field of \
         `pipezero tokenize`, or leave the file out",
        fields.text, fields.prompt, fields.completion, listed(found)
    )]
    NoForm {
        /// The fields of a document.
        fields: Fields,
        /// The fields that it has.
        found: Vec<String>,
    },
    /// It is one object around a list of them.
    #[error(
        "it is one object, and a list of objects is inside of it, in \"{name}\"; write that list to a file of its own, for example with `jq \
         -c '.[\"{name}\"][]' FILE > NEW.jsonl`"
    )]
    InnerList {
        /// The field of the list.
        name: String,
    },
    /// It has fields of two documents.
    #[error(
        "it has \"{first}\" and \"{second}\", and an object holds one document, in one form: leave one out, or let --text-field, \
         --prompt-field or --completion-field of `pipezero tokenize` name a field that it does not have"
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
    #[error("\"{name}\" is null, and it holds no other document; leave it out")]
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
}

/// The first fields of an object.
fn listed(fields: &[String]) -> String {
    let names: Vec<String> = fields.iter().take(6).map(|name| format!("\"{name}\"")).collect();
    if names.is_empty() { "no field".to_owned() } else { names.join(", ") }
}
