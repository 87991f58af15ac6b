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

/// The reason where weights have more than the model, whose run has new parameters.
pub const NOT_OF_THE_MODEL: &str = "the run's model has no such parameter, or draws it, as `init.new` says";

impl Unused {
    /// Names and a reason.
    pub fn new(names: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { names: names.into(), reason: reason.into() }
    }
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.names, self.reason)
    }
}
