//! Which layers and parameters a key means, by their names.

use std::fmt;

use regex::Regex;
use serde::Serialize;

use crate::pattern;

/// A regular expression, found anywhere in the name of a layer or a parameter, whatever the case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NamePattern(String);

impl NamePattern {
    /// The pattern.
    ///
    /// # Errors
    /// If it is no regular expression.
    pub fn new(pattern: &str) -> Result<Self, regex::Error> {
        pattern::regex(pattern).map(|_| Self(pattern.to_owned()))
    }

    /// What finds it in names.
    pub fn regex(&self) -> Regex {
        pattern::regex(&self.0).expect("it was one when the pattern was made")
    }
}

/// As the run file spells it.
impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
