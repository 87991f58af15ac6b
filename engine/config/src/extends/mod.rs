//! `extends`: a run file has the keys of another file, its base, and says what differs.
//!
//! Files are merged as JSON, before any key is read: an object key by key, anything else as a whole, and `null` takes a key away, as `--set` does. Each value keeps its
//! place in the file in which it is written. Relative paths are made to start at the folder of the first file, so that the merged run has one folder as
//! any other. Rejected: a folder for each value, which every reader of a path would have to ask for.

mod fault;
mod merge;
mod origins;
mod paths;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use pipezero_files::input::{is_stdio, read_text};
use pipezero_files::json::{Node, Span, Value};

use self::fault::Fault;
pub use self::origins::ValueOrigin;
pub(super) use self::paths::ABSOLUTE_IN_RECORDS;
use super::error::{ConfigError, ConfigErrors, Problem};
use super::place::Place;
use super::run_text::{MAX_BYTES, MAX_VALUES, num_values, parse_text};
use super::several::key_of_master;

/// The key that names the base of a file.
pub(super) const EXTENDS: &str = "extends";

/// Files behind the first one at most.
const MAX_BASES: usize = 8;

/// A run file with all its bases.
pub(super) struct Extended {
    /// The merged file, without `extends`.
    pub(super) root: Node,
    /// Whether there is a base.
    pub(super) has_base: bool,
}

/// Reads the bases of a file, one after the other, and merges them.
///
/// # Errors
/// One, at the `extends` whose file cannot be a base; all that is wrong with the text of a base, at its places there.
pub(super) fn extended(mut root: Node, folder: &Path) -> Result<Extended, ConfigErrors> {
    let mut chain = Chain::from(&root, folder);
    let mut next = take_base(&mut root)?;
    let mut layers = vec![root];
    while let Some(Named { path, span }) = next {
        let text = chain.read(&path).map_err(|fault| one_error(&span, fault.of(&path, &chain.shown())))?;
        let mut base = parse_text(&chain.name_of_last(), &text)?;
        check(&base).map_err(|fault| one_error(&span, fault.of(&path, &chain.shown())))?;
        paths::start_at(&mut base, &chain.way);
        next = take_base(&mut base)?;
        layers.push(base);
    }
    let has_base = layers.len() > 1;
    let merged = layers.into_iter().rev().reduce(merge::merged);
    Ok(Extended { root: merged.expect("the first file is a layer"), has_base })
}

/// A base, as a file names it.
struct Named {
    path: PathBuf,
    span: Span,
}

/// Removes `extends` from a file; the base that it names.
fn take_base(root: &mut Node) -> Result<Option<Named>, ConfigErrors> {
    let Value::Object(entries) = &mut root.value else { return Ok(None) };
    let Some(index) = entries.iter().position(|entry| entry.key == EXTENDS) else { return Ok(None) };
    let node = entries.remove(index).node;
    match &node.value {
        Value::String(path) => Ok(Some(Named { path: path.into(), span: node.span })),
        Value::Null => Ok(None),
        _ => Err(one_error(
            &node.span,
            Problem::WrongType {
                expected: "the path of a run file".to_owned(),
                found: node.describe(),
                repair: "write the path of one file, in quotes; that file may extend another".to_owned(),
                replacement: None,
            },
        )),
    }
}

fn one_error(span: &Span, problem: Problem) -> ConfigErrors {
    let place = Place { path: EXTENDS.to_owned(), span: span.clone() };
    ConfigErrors::new(vec![ConfigError::new(place, problem)])
}

/// The files that have been read, each the base of the one before it.
struct Chain {
    /// As messages call them.
    names: Vec<PathBuf>,
    /// As the system knows them.
    places: Vec<PathBuf>,
    /// The folder of the first file.
    folder: PathBuf,
    /// From there to the folder of the last one.
    way: PathBuf,
    num_bytes: u64,
    num_values: usize,
}

impl Chain {
    fn from(root: &Node, folder: &Path) -> Self {
        let name = PathBuf::from(&root.span.source.name);
        let place = folder.join(name.file_name().unwrap_or_default());
        let text = &root.span.source.text;
        Self {
            places: vec![place.canonicalize().unwrap_or(place)],
            names: vec![name],
            folder: folder.to_owned(),
            way: PathBuf::new(),
            num_bytes: text.len() as u64,
            num_values: num_values(text),
        }
    }

    /// `run.json -> base.json -> other.json`
    fn shown(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| name.display().to_string()).collect();
        names.join(" -> ")
    }

    fn name_of_last(&self) -> String {
        self.names.last().map(|name| name.display().to_string()).unwrap_or_default()
    }

    /// Reads the base that the last file names, which is the last file then.
    fn read(&mut self, named: &Path) -> Result<String, Fault> {
        if is_stdio(named) {
            return Err(Fault::Stdin);
        }
        let folder_of_last = self.names.last().and_then(|name| name.parent()).unwrap_or(Path::new(""));
        let name = folder_of_last.join(named);
        let path = self.folder.join(&self.way).join(named);
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_again = self.places.contains(&place);
        self.names.push(name);
        if is_again {
            return Err(Fault::Circle);
        }
        if self.names.len() > MAX_BASES + 1 {
            return Err(Fault::Deep);
        }
        let text = read_text(&path, MAX_BYTES.saturating_sub(self.num_bytes)).map_err(Fault::Unread)?;
        self.num_bytes += text.len() as u64;
        self.num_values += num_values(&text);
        if self.num_values > MAX_VALUES {
            return Err(Fault::ManyValues);
        }
        self.places.push(place);
        self.way.push(named.parent().unwrap_or(Path::new("")));
        Ok(text)
    }
}

/// Whether a file is the run file of one model, as far as its form shows.
fn check(base: &Node) -> Result<(), Fault> {
    if !matches!(base.value, Value::Object(_)) {
        return Err(Fault::NoObject(base.describe()));
    }
    if key_of_master(base).is_some() { Err(Fault::Master) } else { Ok(()) }
}
