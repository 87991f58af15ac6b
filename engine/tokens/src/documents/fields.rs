//! Which fields of an object hold its document.

use pipezero_files::records::{COMPLETION, PROMPT};
use serde::{Deserialize, Serialize};

/// The names of the fields that a user may choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// The field that is a document.
    pub text: String,
    /// The field that is a document's beginning, which carries no loss.
    pub prompt: String,
    /// The field that is its rest.
    pub completion: String,
}

impl Default for Fields {
    fn default() -> Self {
        Self { text: "text".to_owned(), prompt: PROMPT.to_owned(), completion: COMPLETION.to_owned() }
    }
}
