//! Where something of a run file stands.

use crate::files::json::{Span, shorten};

/// A key's path and where its value stands; for an absent key, where its section stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) span: Span,
}

impl Place {
    /// What stands there, as it was written.
    pub(crate) fn written(&self) -> String {
        shorten(self.span.written())
    }
}
