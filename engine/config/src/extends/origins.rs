//! The file and the line in which each value of a run is written, if the run has several files.

use std::fmt;

use pipezero_files::json::{Node, SourceKind, Value, join};

use crate::run_file::RunFile;

/// A key and the file in which its value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueOrigin {
    /// The key's path.
    pub key: String,
    /// The file; `--set` if the value is from the command line.
    pub file: String,
    /// The line, counted from 1; `None` for the command line.
    pub line: Option<usize>,
}

/// `base.json:3`, or `--set`.
impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        self.line.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

impl RunFile {
    /// Where each value comes from, if the file extends another: `--set` arguments included, comments left out.
    pub fn origins(&self) -> Vec<ValueOrigin> {
        let mut origins = Vec::new();
        if self.has_base {
            add("", &self.root, &mut origins);
        }
        origins
    }
}

/// Adds the values below `path`; a list is one.
fn add(path: &str, node: &Node, origins: &mut Vec<ValueOrigin>) {
    match &node.value {
        Value::Object(entries) if path.is_empty() || !entries.is_empty() => {
            for entry in entries.iter().filter(|entry| !entry.key.starts_with(['_', '$'])) {
                add(&join(path, &entry.key), &entry.node, origins);
            }
        }
        _ => {
            let source = &node.span.source;
            let line = (source.kind == SourceKind::File).then(|| node.span.line_column().0);
            origins.push(ValueOrigin { key: path.to_owned(), file: source.name.clone(), line });
        }
    }
}
