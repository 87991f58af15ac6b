//! Weights that a run begins with.

use std::path::PathBuf;

use serde::Serialize;

use super::NamePattern;

/// Weights that a run begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InitConfig {
    /// Where they are read; `None` = they are drawn from the seed.
    pub from: Option<PathBuf>,
    /// Parameters that are drawn all the same.
    pub new: Vec<NamePattern>,
}

impl InitConfig {
    /// Whether the run file says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
