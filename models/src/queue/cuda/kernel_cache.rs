//! Compiled kernels on disk, so that a process compiles none that another has compiled before.
//!
//! A file is named by a hash of all that the compiler was given and of its version. Its first line, a comment of PTX, has a hash of the rest,
//! so that a damaged file counts as none. A cache that cannot be read or written costs time and is no error.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// In the order in which they are asked for: the folder itself, and those of which it is a part.
const OWN_VARIABLE: &str = "PIPEZERO_CACHE";
const PARENT_VARIABLES: [(&str, &str); 2] = [("XDG_CACHE_HOME", "pipezero"), ("HOME", ".cache/pipezero")];

/// Where one compiled program is kept.
#[derive(Debug)]
pub(super) struct KernelCache {
    path: Option<PathBuf>,
}

impl KernelCache {
    /// For the result of compiling a source with a compiler of this version and these options.
    pub(super) fn of(source: &str, options: &[String], (major, minor): (i32, i32)) -> Self {
        let asked = format!("{major}.{minor}\n{}\n{source}", options.join("\n"));
        let name = format!("kernels-{:032x}.ptx", xxh3_128(asked.as_bytes()));
        Self { path: folder(|name| env::var_os(name).map(PathBuf::from)).map(|folder| folder.join(name)) }
    }

    /// What was compiled before.
    pub(super) fn read(&self) -> Option<String> {
        let text = fs::read_to_string(self.path.as_ref()?).ok()?;
        let (first, ptx) = text.split_once('\n')?;
        (first == first_line(ptx)).then(|| ptx.to_owned())
    }

    /// Keeps what was compiled. Processes may do so at once: the file appears as a whole.
    pub(super) fn write(&self, ptx: &str) {
        let Some(path) = &self.path else { return };
        let own = path.with_extension(format!("{}.tmp", std::process::id()));
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&own, format!("{}\n{ptx}", first_line(ptx))))
            .and_then(|()| fs::rename(&own, path));
        if written.is_err() {
            let _ = fs::remove_file(&own);
        }
    }
}

fn first_line(ptx: &str) -> String {
    format!("// pipezero {:016x}", xxh3_64(ptx.as_bytes()))
}

/// None where the user's own variable is empty, or no variable is set.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let is_set = |path: &PathBuf| *path != Path::new("");
    if let Some(own) = variable(OWN_VARIABLE) {
        return Some(own).filter(is_set);
    }
    PARENT_VARIABLES
        .into_iter()
        .find_map(|(name, below)| variable(name).filter(is_set).map(|parent| parent.join(below)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_variable_comes_first_and_an_empty_one_means_none() {
        let of = |variables: &[(&str, &str)]| {
            let found = |name: &str| variables.iter().find(|(key, _)| *key == name);
            folder(|name| found(name).map(|(_, path)| PathBuf::from(path)))
        };
        let [own, xdg, home] = [(OWN_VARIABLE, "/own"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/me")];
        assert_eq!(of(&[home, xdg, own]), Some(PathBuf::from("/own")));
        assert_eq!(of(&[home, xdg]), Some(PathBuf::from("/xdg/pipezero")));
        assert_eq!(of(&[("XDG_CACHE_HOME", ""), home]), Some(PathBuf::from("/me/.cache/pipezero")));
        assert_eq!(of(&[(OWN_VARIABLE, ""), home]), None);
        assert_eq!(of(&[]), None);
    }
}
