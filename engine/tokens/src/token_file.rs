//! A file of tokens, read by position.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pipezero_config::TokenType;
use pipezero_files::made_by::MadeBy;
use pipezero_files::opened::open_regular;

use super::error::{TokenFault, TokenFileError};
use super::index::Index;
use super::raw_file::{self, RawLayout};

/// Bytes that are read at once while a whole file is looked through.
const BLOCK_BYTES: usize = 1 << 20;

/// A file of tokens and what is known of its documents.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    file: File,
    token_type: TokenType,
    /// Where the first token lies, in bytes.
    offset: u64,
    num_tokens: u64,
    ends: Vec<u64>,
    unscored: Vec<Range<u64>>,
    found_as: FoundAs,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundAs {
    /// Megatron's: an index lies beside it.
    Indexed,
    /// llm.c's: its header says what it is.
    WithHeader,
    /// nanoGPT's: tokens and nothing else.
    Bare,
}

impl TokenFile {
    /// Looks whether there is a `.bin` of this name, or a `.bin` and a `.idx` of this prefix, and reads neither.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(path: &Path) -> Result<(), TokenFileError> {
        let bin = bin_of(path)?;
        if bin == path || bin.with_extension("idx").is_file() {
            return Ok(());
        }
        Err(TokenFileError::new(&bin, TokenFault::NoIndex))
    }

    /// Opens a `.bin`, or the `.bin` of a prefix; with the index, should one lie beside it. `token_type` is that of a file without an index
    /// and without llm.c's header.
    ///
    /// # Errors
    /// When there is no such file, or it is damaged as far as its length and its index can tell.
    pub fn open(path: &Path, token_type: TokenType) -> Result<Self, TokenFileError> {
        let (named, path) = (path, bin_of(path)?);
        let index = path.with_extension("idx");
        let fault = |fault| TokenFileError::new(&path, fault);
        let file = open_regular(&path).map_err(|error| fault(error.into()))?;
        let actual = file.metadata().map_err(|error| fault(error.into()))?.len();
        let opened = if path.extension().is_some_and(|ending| ending == "bin") && index.is_file() {
            let Index { token_type, ends, unscored } = Index::read(&index)?;
            let num_tokens = ends.last().copied().unwrap_or(0);
            let expected = u128::from(num_tokens) * token_type.num_bytes() as u128;
            if u128::from(actual) != expected {
                let what = format!("the {num_tokens} tokens of `{}`", index.display());
                return Err(fault(TokenFault::Length { actual, expected, what }));
            }
            let found_as = FoundAs::Indexed;
            Self { path: path.clone(), file, token_type, offset: 0, num_tokens, ends, unscored, found_as }
        } else if named != path {
            return Err(fault(TokenFault::NoIndex));
        } else {
            let layout = raw_file::layout(&file, token_type).map_err(fault)?;
            let RawLayout { token_type, offset, num_tokens, has_header } = layout;
            let found_as = if has_header { FoundAs::WithHeader } else { FoundAs::Bare };
            let (ends, unscored) = (vec![num_tokens], Vec::new());
            Self { path: path.clone(), file, token_type, offset, num_tokens, ends, unscored, found_as }
        };
        if opened.num_tokens == 0 {
            return Err(fault(TokenFault::Empty));
        }
        Ok(opened)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What kind of file it is.
    pub fn found_as(&self) -> FoundAs {
        self.found_as
    }

    /// Which tokenizer made it, if that lies beside it.
    pub fn made_by(&self) -> Option<MadeBy> {
        MadeBy::beside(&self.path, self.num_tokens)
    }

    /// How its tokens are stored.
    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    /// Tokens of all documents.
    pub fn num_tokens(&self) -> u64 {
        self.num_tokens
    }

    /// Where each document ends, in tokens, ascending. A file without an index is one document.
    pub fn document_ends(&self) -> &[u64] {
        &self.ends
    }

    /// Tokens that carry no loss, ascending.
    pub fn unscored(&self) -> &[Range<u64>] {
        &self.unscored
    }

    /// Reads the tokens from `position` on, as many as `tokens` has.
    ///
    /// # Errors
    /// When they cannot be read, and [`TokenFault::Token`] for one that is not below `vocab_size`.
    ///
    /// # Panics
    /// When the file has not so many.
    pub fn read(&self, position: u64, tokens: &mut [u32], vocab_size: usize) -> Result<(), TokenFileError> {
        assert!(position + tokens.len() as u64 <= self.num_tokens, "a range of the file");
        let mut bytes = vec![0; tokens.len() * self.token_type.num_bytes()];
        self.read_bytes(position, &mut bytes)?;
        let mut at = 0;
        let mut unknown = None;
        self.token_type.decode(&bytes, |token| {
            match u32::try_from(token) {
                Ok(known) if (known as usize) < vocab_size => tokens[at] = known,
                _ => unknown = unknown.or(Some((at, token))),
            }
            at += 1;
        });
        match unknown {
            None => Ok(()),
            Some((at, token)) => Err(self.unknown(position + at as u64, token, vocab_size)),
        }
    }

    /// Looks through all tokens: calls `each` with every one and its position.
    ///
    /// # Errors
    /// As [`TokenFile::read`].
    pub fn scan(&self, vocab_size: usize, mut each: impl FnMut(u64, u32)) -> Result<(), TokenFileError> {
        let block = (BLOCK_BYTES / self.token_type.num_bytes()) as u64;
        let mut tokens = vec![0; block.min(self.num_tokens) as usize];
        for start in (0..self.num_tokens).step_by(block as usize) {
            let tokens = &mut tokens[..block.min(self.num_tokens - start) as usize];
            self.read(start, tokens, vocab_size)?;
            tokens.iter().zip(start..).for_each(|(&token, position)| each(position, token));
        }
        Ok(())
    }

    /// Ends a document after each `end_token`, in a file without an index.
    ///
    /// # Errors
    /// As [`TokenFile::scan`].
    pub fn find_documents(&mut self, end_token: u32, vocab_size: usize) -> Result<(), TokenFileError> {
        let mut ends = Vec::new();
        self.scan(vocab_size, |position, token| {
            if token == end_token {
                ends.push(position + 1);
            }
        })?;
        if ends.last() != Some(&self.num_tokens) {
            ends.push(self.num_tokens);
        }
        self.ends = ends;
        Ok(())
    }

    /// Bytes of the tokens from `position` on, as they lie in the file.
    pub fn read_bytes(&self, position: u64, bytes: &mut [u8]) -> Result<(), TokenFileError> {
        let at = self.offset + position * self.token_type.num_bytes() as u64;
        self.file.read_exact_at(bytes, at).map_err(|error| {
            let fault = match error.kind() {
                io::ErrorKind::UnexpectedEof => self.shortened(),
                _ => error.into(),
            };
            TokenFileError::new(&self.path, fault)
        })
    }

    fn shortened(&self) -> TokenFault {
        TokenFault::Length {
            actual: self.file.metadata().map_or(0, |found| found.len()),
            expected: u128::from(self.offset)
                + u128::from(self.num_tokens) * self.token_type.num_bytes() as u128,
            what: format!("the {} tokens that it had when it was opened", self.num_tokens),
        }
    }

    fn unknown(&self, position: u64, token: i64, vocab_size: usize) -> TokenFileError {
        let offset = self.offset + position * self.token_type.num_bytes() as u64;
        TokenFileError::new(&self.path, TokenFault::Token { token, position, offset, vocab_size })
    }
}

/// The `.bin` that a path means: itself, or that of a prefix.
fn bin_of(path: &Path) -> Result<PathBuf, TokenFileError> {
    let fault = |fault| TokenFileError::new(path, fault);
    match fs::metadata(path) {
        Ok(found) if found.is_file() && path.extension().is_some_and(|ending| ending == "idx") => {
            return Ok(path.with_extension("bin"));
        }
        Ok(found) if found.is_file() => return Ok(path.to_owned()),
        Ok(found) if !found.is_dir() => return Err(fault(TokenFault::NotAFile)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fault(error.into())),
        _ => {}
    }
    let is_folder = path.is_dir();
    let mut bin: OsString = path.as_os_str().to_owned();
    bin.push(".bin");
    let bin = PathBuf::from(bin);
    match fs::metadata(&bin) {
        Ok(found) if found.is_file() => Ok(bin),
        Ok(_) => Err(TokenFileError::new(&bin, TokenFault::NotAFile)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(fault(match is_pattern(path) {
            true => TokenFault::Pattern,
            false if is_folder => TokenFault::Folder,
            false => TokenFault::Missing,
        })),
        Err(error) => Err(TokenFileError::new(&bin, error)),
    }
}

/// Whether a path has what means something in a glob.
fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}
