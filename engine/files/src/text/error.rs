//! Why there is no text.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The list of entries is empty.
    #[error("no text is named; name at least one file, folder or glob")]
    NoEntries,
    /// An entry is neither a file, nor a folder, nor a glob.
    #[error("`{0}` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`")]
    Missing(PathBuf),
    /// An entry is a device, a pipe or a socket, whose contents may never end.
    #[error("`{0}` is no regular file; write its text to a file and name that")]
    NotAFile(PathBuf),
    /// An entry looks like a glob but is not one.
    #[error("`{path}` is not a valid glob: {reason}; write `[*]` for a star that is meant literally")]
    Glob {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A folder or glob stands for no file.
    #[error(
        "`{0}` stands for no file; name a folder or glob with at least one file (hidden files are only found \
         where the glob spells their dot)"
    )]
    NoFiles(PathBuf),
    /// Links make many ways to one folder.
    #[error("links lead to `{path}` in more than {max} ways; name that folder itself, or remove links")]
    TooManyWays {
        /// The folder.
        path: PathBuf,
        /// How many are followed.
        max: usize,
    },
    /// A folder holds more than is looked through.
    #[error("there are more than {max} files and folders up to `{path}`; name folders with fewer")]
    TooManyEntries {
        /// Where the walk has ended.
        path: PathBuf,
        /// How many are looked through.
        max: usize,
    },
    /// A file or folder cannot be read.
    #[error("`{path}` cannot be read: {source}; make it readable or leave it out")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not UTF-8.
    #[error(
        "`{path}` is not UTF-8 text at byte {offset}; convert it, or name only the text files, with a glob such as \
         `**/*.txt`"
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is part of no character, counted from 0.
        offset: usize,
    },
    /// All files together hold nothing.
    #[error("the text is empty: all {num_files} files have 0 bytes; name files with text")]
    Empty {
        /// Number of files.
        num_files: usize,
    },
    /// A file is not the one that was opened any more.
    #[error(
        "`{0}` has changed since this process began to read it, so its samples would be others; leave a text as it is while it is read, or \
         name a copy"
    )]
    Changed(PathBuf),
    /// The tokens that a tokenizer makes of a text cannot be written.
    #[error(
        "the tokens of the text cannot be kept in `{folder}`: {source}; name a folder with more room in TMPDIR, or make a file of tokens with \
         `pipezero tokenize`"
    )]
    NotKept {
        /// Where they are written.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl TextError {
    /// A file or folder that cannot be read.
    pub fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable { path: path.to_owned(), source }
    }

    /// Tokens that cannot be written to a folder.
    pub fn not_kept(folder: &Path, source: io::Error) -> Self {
        Self::NotKept { folder: folder.to_owned(), source }
    }
}
