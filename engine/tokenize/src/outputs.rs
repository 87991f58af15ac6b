//! The files that are written, while they are and at the end.
//!
//! ```text
//! PREFIX.bin.partial   tokens; becomes PREFIX.bin at the end
//! PREFIX.sequences     what the index is made from; removed at the end
//! PREFIX.tokenize.json how far the work is; removed at the end
//! PREFIX.idx           written at the end
//! PREFIX.tokenizer-of-tokens.json  which tokenizer made them, written at the end
//! ```

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use pipezero_files::opened::{Own, open_own, open_regular};
use pipezero_files::partial::{Existing, PartialFile};
use pipezero_tokens::{MadeBy, TokenType, Written, write_index};

use super::error::TokenizeError;
use super::options::Start;

/// Where the files are.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    pub(super) bin: PathBuf,
    pub(super) idx: PathBuf,
    pub(super) partial: PathBuf,
    pub(super) sequences: PathBuf,
    pub(super) state: PathBuf,
    pub(super) made_by: PathBuf,
}

impl Outputs {
    pub(super) fn of(prefix: &Path) -> Self {
        let ended = |ending: &str| {
            let mut path: OsString = prefix.as_os_str().to_owned();
            path.push(ending);
            PathBuf::from(path)
        };
        Self {
            made_by: MadeBy::path(&ended(".bin")),
            bin: ended(".bin"),
            idx: ended(".idx"),
            partial: ended(".bin.partial"),
            sequences: ended(".sequences"),
            state: ended(".tokenize.json"),
        }
    }

    /// Refuses to write over what is there, unless that is asked for. Where nothing has been begun, nothing goes on: the work begins.
    pub(super) fn check(&self, start: Start) -> Result<Start, TokenizeError> {
        for path in [&self.state, &self.partial, &self.sequences] {
            if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
                return Err(TokenizeError::io(path)(io::Error::other("it is no regular file; remove it")));
            }
        }
        match start {
            Start::Overwrite => Ok(start),
            Start::New if self.state.exists() => Err(TokenizeError::Interrupted(self.state.clone())),
            Start::Resume if self.state.exists() => Ok(start),
            // What has no state is no work that was begun: it may be anything.
            Start::New | Start::Resume => {
                self.there().map_or(Ok(Start::New), |path| Err(TokenizeError::Exists(path)))
            }
        }
    }

    /// A file that would be written over. What a process leaves that is killed as it begins is none: empty files, and the beginning of its first
    /// state beside them.
    fn there(&self) -> Option<PathBuf> {
        let [state, idx] = [&self.state, &self.idx].map(|path| unfinished(path));
        let mut own = vec![&self.idx, &self.bin, &self.partial, &self.sequences, &idx];
        if !(self.partial.exists() && self.sequences.exists()) {
            own.push(&state);
        }
        let is_none = |found: fs::Metadata| found.is_file() && found.len() == 0;
        own.into_iter().find(|path| fs::symlink_metadata(path).is_ok_and(|found| !is_none(found))).cloned()
    }

    /// Holds the outputs against other processes, until the file is closed.
    pub(super) fn lock(&self) -> Result<File, TokenizeError> {
        if let Some(folder) = self.bin.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(TokenizeError::io(folder))?;
        }
        let sequences = opened(&self.sequences)?;
        match sequences.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(TokenizeError::InUse(self.sequences.clone())),
            // A file system without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        for path in [&self.state, &self.idx, &self.made_by] {
            // What a process that was killed has left of it.
            let left = unfinished(path);
            if fs::symlink_metadata(&left).is_ok() {
                fs::remove_file(&left).map_err(TokenizeError::io(&left))?;
            }
        }
        Ok(sequences)
    }

    /// Opens the tokens, and stands in them and in `sequences` behind what has been written; a rest that was written later is cut off. `is_done`:
    /// all inputs have become tokens.
    pub(super) fn open(
        &self,
        sequences: File,
        written: Written,
        token_type: TokenType,
        is_done: bool,
    ) -> Result<[File; 2], TokenizeError> {
        let num_bytes = written.num_tokens * token_type.num_bytes() as u64;
        let sequences = cut(sequences, &self.sequences, written.bytes())?;
        // All was done, and the work was interrupted after the tokens had got their name.
        if is_done && !self.partial.exists() && !self.idx.exists() {
            fs::rename(&self.bin, &self.partial).map_err(TokenizeError::io(&self.bin))?;
        }
        Ok([cut(opened(&self.partial)?, &self.partial, num_bytes)?, sequences])
    }

    /// Whether a path is one of these, or what is written before it.
    pub(super) fn has(&self, path: &Path) -> bool {
        let own = [&self.bin, &self.idx, &self.partial, &self.sequences, &self.state, &self.made_by];
        let of_own = |own: &PathBuf| [own.clone(), unfinished(own)];
        own.into_iter().flat_map(of_own).any(|own| is_same(path, &own))
    }

    /// Leaves nothing of work that cannot go on.
    pub(super) fn remove_begun(&self) {
        for path in [&self.state, &self.partial, &self.sequences] {
            // A state that is left is an error of the next start, which names it; what else is left is written over.
            let _ = fs::remove_file(path);
        }
    }

    /// Gives the tokens their name, and writes their index and what made them, once all tokens are on disk.
    pub(super) fn finish(
        &self,
        written: Written,
        token_type: TokenType,
        made_by: &MadeBy,
    ) -> Result<(), TokenizeError> {
        // So that it never lies beside tokens that another tokenizer made.
        if let Err(error) = fs::remove_file(&self.made_by)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(TokenizeError::io(&self.made_by)(error));
        }
        let index = TokenizeError::io(&self.idx);
        // An index of other tokens is worse than none; it comes back where its tokens cannot be replaced.
        let replaced = self.idx.with_added_extension("replaced");
        let has_index = match fs::rename(&self.idx, &replaced) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(index(error)),
            renamed => renamed.is_ok(),
        };
        if let Err(error) = fs::rename(&self.partial, &self.bin) {
            if has_index {
                fs::rename(&replaced, &self.idx).map_err(&index)?;
            }
            return Err(TokenizeError::io(&self.bin)(error));
        }
        let mut sequences = open_regular(&self.sequences).map_err(TokenizeError::io(&self.sequences))?;
        let mut file = PartialFile::create(&self.idx, Existing::Replaced).map_err(&index)?;
        write_index(file.file(), &mut sequences, written, token_type).map_err(&index)?;
        file.finish().map_err(&index)?;
        let text = serde_json::to_string_pretty(made_by).expect("a path, words and a number");
        PartialFile::create(&self.made_by, Existing::Replaced)
            .and_then(|file| file.finish_with(text))
            .map_err(TokenizeError::io(&self.made_by))?;
        for path in [&self.state, &self.sequences, &replaced] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TokenizeError::io(path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a file is called until it is complete.
fn unfinished(path: &Path) -> PathBuf {
    PartialFile::partial_of(path)
}

/// Whether two paths are those of one file that is there, such as `data.bin` and `./data.bin`.
fn is_same(path: &Path, other: &Path) -> bool {
    let real = |path| fs::canonicalize(path).ok();
    path.file_name() == other.file_name() && real(path).is_some_and(|path| Some(path) == real(other))
}

fn opened(path: &Path) -> Result<File, TokenizeError> {
    open_own(path, Own::Kept).map_err(TokenizeError::io(path))
}

/// Cuts a file to its first bytes, and stands at their end.
fn cut(mut file: File, path: &Path, num_bytes: u64) -> Result<File, TokenizeError> {
    let failed = TokenizeError::io(path);
    let found = file.metadata().map_err(&failed)?.len();
    if found < num_bytes {
        let reason = format!("`{}` has {found} bytes of the {num_bytes} that were written", path.display());
        return Err(TokenizeError::State { path: path.to_owned(), reason });
    }
    file.set_len(num_bytes).map_err(&failed)?;
    file.seek(SeekFrom::End(0)).map_err(&failed)?;
    Ok(file)
}
