//! The file as it was meant: each mistake that can mean one thing alone is mended in the text, and nothing else of it is touched.

use std::path::Path;

use pipezero_files::json::{Edit, Source, SourceKind, shorten};

use super::data_path::DataPath;
use super::error::{ConfigError, ConfigErrors};
use super::master::{GivenFile, MasterFile};
use super::notice::Notice;
use super::resources::Resources;
use super::run_file::RunFile;
use super::run_text::parse_text;
use super::several::key_of_master;

/// Mistakes that are mended one after the other at most: a text that is not JSON shows one at a time.
const ROUNDS_MAX: usize = 10_000;

/// A file with its mistakes mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The text, with its comments.
    pub text: String,
    /// What was changed, in the order in which it was found.
    pub changes: Vec<Change>,
}

/// A file in which something is left that needs a decision.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{errors}")]
pub struct Unfixed {
    /// Everything that is wrong with the file, or, where it is not JSON, with the text in which as much was mended as was needed for that.
    pub errors: ConfigErrors,
    /// How many of the errors are in the file itself and have a single meaning, so that they can be mended.
    pub num_fixable: usize,
    /// How many parts of the text were mended before.
    pub num_mended: usize,
}

impl From<ConfigErrors> for Unfixed {
    fn from(errors: ConfigErrors) -> Self {
        Self { errors, num_fixable: 0, num_mended: 0 }
    }
}

/// A part of a file that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The line, counted from 1; no change adds or removes one.
    pub line: usize,
    /// What stood there; nothing where something was added.
    pub from: String,
    /// What stands there now.
    pub to: String,
}

impl GivenFile {
    /// The file with every mistake mended that can mean one thing alone, and with usual names for second ones, as it is to stand in
    /// `folder`; `fault` is that of [`RunFile::resolve_with`]. Files that it extends are read and not mended. Of a master file the run files of its engines are not looked at, in braces or in files of their own.
    ///
    /// # Errors
    /// [`Unfixed`] where something is left that needs a decision.
    pub fn fixed(
        path: &Path,
        folder: &Path,
        resources: Resources,
        fault: &dyn Fn(DataPath<'_>) -> Option<String>,
    ) -> Result<Fixed, Unfixed> {
        let (name, text, _) = RunFile::read(path)?;
        // What is said of a text without mistakes.
        let of_text = |text: &str| -> Result<Vec<Notice>, ConfigErrors> {
            let root = parse_text(&name, text)?;
            if key_of_master(&root).is_some() {
                let file = MasterFile::of_node(&root, path, folder.to_owned())?;
                return file.find_files().map(|()| Vec::new());
            }
            RunFile::of_node(root, folder.to_owned())?
                .resolve_with(resources, fault)
                .map(|(_, notices)| notices)
        };
        // The errors of the first text that is JSON: they stand where the file has them, or nearly.
        let mut of_file = None;
        let source = Source::relaxed_file(&name, &text);
        let mut fixed = Fixed { text: source.text.clone(), changes: Vec::new() };
        let of_this_file =
            |edit: &Edit| edit.span.source.kind == SourceKind::File && edit.span.source.name == source.name;
        let edit_of = |error: &ConfigError| error.edit().filter(of_this_file);
        for _ in 0..ROUNDS_MAX {
            let (edits, errors): (Vec<Edit>, _) = match of_text(&fixed.text) {
                Ok(notices) => (notices.iter().filter_map(Notice::edit).filter(of_this_file).collect(), None),
                Err(errors) => (errors.iter().filter_map(edit_of).collect(), Some(errors)),
            };
            let num_before = fixed.changes.len();
            let is_changed = fixed.apply(edits);
            let Some(errors) = errors else {
                if is_changed {
                    continue;
                }
                return Ok(fixed);
            };
            if of_file.is_none() && !errors.iter().any(ConfigError::is_syntax) {
                of_file = Some((errors.clone(), num_before));
            }
            if !is_changed {
                // Where all of those are mended, what is left shows behind them.
                let is_left = |of: &(ConfigErrors, usize)| of.0.iter().any(|error| edit_of(error).is_none());
                let (errors, num_mended) = of_file.filter(is_left).unwrap_or((errors, num_before));
                let num_fixable = errors.iter().filter_map(edit_of).count();
                return Err(Unfixed { errors, num_fixable, num_mended });
            }
        }
        of_text(&fixed.text)?;
        Ok(fixed)
    }
}

impl Fixed {
    /// Applies edits from the end of the text to its beginning, none within another. Whether there were any.
    fn apply(&mut self, mut edits: Vec<Edit>) -> bool {
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.span.start));
        let mut changes = Vec::new();
        let mut end = self.text.len();
        for Edit { span, text } in edits {
            if span.end > end || self.text.get(span.start..span.end) == Some(&text) {
                continue;
            }
            let from = shorten(&self.text[span.start..span.end]);
            changes.push(Change { line: span.line_column().0, from, to: text.clone() });
            self.text.replace_range(span.start..span.end, &text);
            end = span.start;
        }
        let is_changed = !changes.is_empty();
        self.changes.extend(changes.into_iter().rev());
        is_changed
    }
}
