//! Notices about a run file that is accepted: not errors, but worth knowing.

use std::fmt;

use pipezero_files::json::{Edit, join};

use super::place::Place;

/// A line about a key that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    kind: NoticeKind,
    place: Place,
    message: String,
    /// What stands for the text at its place in the usual form.
    replacement: Option<String>,
    /// The engine that it is about, where its file is that of several.
    engine: Option<String>,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The key is `"auto"`, and the message is what became of it.
    Auto,
    /// The key is not written, and releases of the system whose default is taken have had different ones.
    Default,
    /// The key has no effect, because something else decides what it would; or more could be had from what it names.
    Hint,
    /// The run is allowed and probably not what was wanted.
    Warning,
}

impl Notice {
    /// A notice about a place.
    pub fn new(kind: NoticeKind, place: &Place, message: String) -> Self {
        Self { kind, place: place.clone(), message, replacement: None, engine: None }
    }

    /// With what stands for the text at its place in the usual form.
    pub(super) fn usually(self, replacement: Option<String>) -> Self {
        Self { replacement, ..self }
    }

    /// On a run file that stands at a key of another file.
    pub(super) fn within(mut self, prefix: &str) -> Self {
        self.place.path = join(prefix, &self.place.path);
        self
    }

    /// On a run file that several engines have: said of this one.
    pub(super) fn of_engine(self, name: &str) -> Self {
        Self { engine: Some(name.to_owned()), ..self }
    }

    /// What brings the file into the usual form.
    pub(super) fn edit(&self) -> Option<Edit> {
        Some(Edit { span: self.place.span.clone(), text: self.replacement.clone()? })
    }

    /// Where it belongs among others.
    pub fn order(&self) -> (bool, &str, usize) {
        self.place.span.order()
    }

    /// How much it matters.
    pub fn kind(&self) -> NoticeKind {
        self.kind
    }

    /// The key's path.
    pub fn path(&self) -> &str {
        &self.place.path
    }

    /// The line without place and path.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            NoticeKind::Auto => "auto",
            NoticeKind::Default => "default",
            NoticeKind::Hint => "hint",
            NoticeKind::Warning => "warning",
        };
        write!(f, "{}: {kind}: ", self.place.span)?;
        if let Some(engine) = &self.engine {
            write!(f, "engine `{engine}`: ")?;
        }
        if !self.place.path.is_empty() {
            write!(f, "`{}`: ", self.place.path)?;
        }
        if self.kind == NoticeKind::Auto {
            write!(f, "{} is ", self.place.written())?;
        }
        f.write_str(&self.message)
    }
}
