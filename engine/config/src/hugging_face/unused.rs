//! Parts of a folder that training does not use.

use std::fmt;

/// A part of a folder that training does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Names of fields, tensors or files.
    pub names: String,
    /// Why they are not used.
    pub reason: String,
}

impl Unused {
    pub(super) fn new(names: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { names: names.into(), reason: reason.into() }
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.names, self.reason)
    }
}
