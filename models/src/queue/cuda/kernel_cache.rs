//! Compiled kernels on disk, so that a process compiles none that another has compiled before.
//!
//! A file is named by a hash of all that the compiler was given and of its version. Its first line, a comment of PTX, has a hash of the
//! rest, so that a damaged file counts as none. The default folder may be missing or full: that costs time and is no error. In a folder that
//! the user named it is one.

use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The variable that names the folder, then those that name a folder around it, in the order in which they are asked for.
const OWN_VARIABLE: &str = "PIPEZERO_CACHE";
const PARENT_VARIABLES: [(&str, &str); 2] = [("XDG_CACHE_HOME", "pipezero"), ("HOME", ".cache/pipezero")];

/// Where one compiled program is kept.
#[derive(Debug)]
pub(super) struct KernelCache {
    file: Option<PathBuf>,
    is_users: bool,
}

/// A folder for compiled kernels, and whether the user named it.
#[derive(Debug, PartialEq, Eq)]
struct Folder {
    path: PathBuf,
    is_users: bool,
}

impl KernelCache {
    /// For the result of compiling a source with a compiler of this version and these options.
    pub(super) fn of(source: &str, options: &[String], (major, minor): (i32, i32)) -> Self {
        let asked = format!("{major}.{minor}\n{}\n{source}", options.join("\n"));
        let name = format!("kernels-{:032x}.ptx", xxh3_128(asked.as_bytes()));
        match folder(|name| env::var_os(name).map(PathBuf::from)) {
            Some(Folder { path, is_users }) => Self { file: Some(path.join(name)), is_users },
            None => Self { file: None, is_users: false },
        }
    }

    /// What was compiled before.
    ///
    /// # Errors
    /// When the folder that the user named is not there and cannot be made, which is so known before anything is compiled.
    pub(super) fn read(&self) -> Result<Option<String>, String> {
        let Some(file) = &self.file else { return Ok(None) };
        if let (true, Some(folder)) = (self.is_users, file.parent()) {
            fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        }
        let text = fs::read_to_string(file).ok();
        let parts = text.as_ref().and_then(|text| text.split_once('\n'));
        let whole = parts.filter(|(first, ptx)| *first == first_line(ptx));
        Ok(whole.map(|(_, ptx)| ptx.to_owned()))
    }

    /// Keeps what was compiled. Processes of one host may do so at once: the file appears as a whole. One that two hosts have written at once
    /// fails its checksum, and is compiled again.
    ///
    /// # Errors
    /// When the folder that the user named cannot be written: which it is, and why.
    pub(super) fn write(&self, ptx: &str) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        match write_whole(file, &format!("{}\n{ptx}", first_line(ptx))) {
            Err(error) if self.is_users => Err(unwritable(file, &error)),
            _ => Ok(()),
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!(
        "{}: {error}; `{OWN_VARIABLE}` must name a folder that can be written, or be empty, so that nothing is kept",
        path.display()
    )
}

fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)?;
    let own = file.with_extension(format!("{}.tmp", process::id()));
    // A process of the same number may have left one. What has the name is removed, and never followed or opened.
    let _ = fs::remove_file(&own);
    let written = fs::File::create_new(&own)
        .and_then(|mut kept| io::Write::write_all(&mut kept, text.as_bytes()))
        .and_then(|()| fs::rename(&own, file));
    if written.is_err() {
        let _ = fs::remove_file(&own);
    }
    written
}

fn first_line(ptx: &str) -> String {
    format!("// pipezero {:016x}", xxh3_64(ptx.as_bytes()))
}

/// None where the user's own variable is empty, or no variable is set.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<Folder> {
    let is_set = |path: &PathBuf| *path != Path::new("");
    if let Some(own) = variable(OWN_VARIABLE) {
        return Some(own).filter(is_set).map(|path| Folder { path, is_users: true });
    }
    let parents = PARENT_VARIABLES.into_iter();
    let mut found = parents.filter_map(|(name, below)| Some(variable(name).filter(is_set)?.join(below)));
    found.next().map(|path| Folder { path, is_users: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_where_the_user_named_it() {
        // No file is below a file.
        let file = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml/kernels.ptx"));
        let cache = KernelCache { file: file.clone(), is_users: true };
        for error in [cache.read().unwrap_err(), cache.write("").unwrap_err()] {
            assert!(error.contains("Cargo.toml") && error.contains("PIPEZERO_CACHE"), "{error}");
        }
        let cache = KernelCache { file, is_users: false };
        assert_eq!((cache.read(), cache.write("")), (Ok(None), Ok(())));
    }

    #[test]
    fn the_users_variable_comes_first_and_an_empty_one_means_none() {
        let of = |variables: &[(&str, &str)]| {
            let found = |name: &str| variables.iter().find(|(key, _)| *key == name);
            folder(|name| found(name).map(|(_, path)| PathBuf::from(path)))
        };
        let is = |path: &str, is_users| Some(Folder { path: PathBuf::from(path), is_users });
        let [own, xdg, home] = [(OWN_VARIABLE, "/own"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/me")];
        assert_eq!(of(&[home, xdg, own]), is("/own", true));
        assert_eq!(of(&[home, xdg]), is("/xdg/pipezero", false));
        assert_eq!(of(&[("XDG_CACHE_HOME", ""), home]), is("/me/.cache/pipezero", false));
        assert_eq!(of(&[(OWN_VARIABLE, ""), home]), None);
        assert_eq!(of(&[]), None);
    }
}
