//! Where something of a run file stands.

use pipezero_files::json::{Span, shorten};

/// A key's path and where its value stands; for an absent key, where its section stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) path: String,
    pub(crate) span: Span,
}

impl Place {
    /// What stands there, as it was written.
    pub fn written(&self) -> String {
        shorten(self.span.written())
    }

    /// The same in quotes, whether it was written with them, as in a file, or without, as on the command line.
    pub fn in_quotes(&self) -> String {
        format!("\"{}\"", self.written().trim_matches('"'))
    }
}
