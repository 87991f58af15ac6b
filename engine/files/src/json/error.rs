//! Why a text is not JSON, or a value is not what belongs at its place.

use std::fmt;

use super::source::Span;
use super::words::{join, shorten};

/// Text that stands for a part of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The part that is replaced.
    pub span: Span,
    /// Its replacement.
    pub text: String,
}

/// A mistake in a text: its place, the key, the rule and the repair.
#[derive(Clone, Debug)]
pub struct JsonError {
    /// Its place.
    pub span: Span,
    /// The key's path, empty for the whole file. `None` where the text is not JSON, and so has no keys.
    pub path: Option<String>,
    rule: String,
    /// The repair, where there is one to name.
    pub repair: Option<String>,
    /// What mends it, where only one thing can be meant.
    pub edit: Option<Box<Edit>>,
}

impl JsonError {
    /// The text is not JSON.
    pub(super) fn syntax(span: Span, rule: String) -> Self {
        Self { span, path: None, rule, repair: None, edit: None }
    }

    /// The value at `span` breaks a rule.
    pub(super) fn value(span: &Span, rule: String) -> Self {
        Self { span: span.clone(), path: Some(String::new()), rule, repair: None, edit: None }
    }

    pub(super) fn mended_by(self, edit: Option<Edit>) -> Self {
        Self { edit: edit.map(Box::new), ..self }
    }

    pub(super) fn repair(self, repair: impl Into<String>) -> Self {
        Self { repair: Some(repair.into()), ..self }
    }

    /// The error as seen from around the key or element that it is in.
    pub(super) fn inside(self, part: &str) -> Self {
        Self { path: self.path.map(|path| join(&shorten(part), &path)), ..self }
    }

    /// Key and rule.
    pub fn message(&self) -> String {
        match self.path.as_deref() {
            None => self.rule.clone(),
            Some("") => format!("the file {}", self.rule),
            Some(path) => format!("`{path}` {}", self.rule),
        }
    }
}

/// Without the place.
impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())?;
        self.repair.iter().try_for_each(|repair| write!(f, "; {repair}"))
    }
}
