//! Tokens that a run has made of its texts, in a file without a name, from which they are read by position.
//!
//! How many tokens a text has is known only once a tokenizer has made them, and all of them may be more than memory holds. So they are written to disk
//! as they are made. The file has no name, so the system removes it when the process ends, however it ends. It lies in the folder that `TMPDIR`
//! names or else in `/var/tmp`, since `/tmp` is memory on many systems.

use std::env;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::text::TextError;

/// Bytes of a token in the file.
const TOKEN_BYTES: usize = 4;

/// Bytes that are read or written at once.
const BLOCK_BYTES: usize = 1 << 18;

/// Writes the tokens of one text after the other.
#[derive(Debug)]
pub struct TokenKeeper {
    folder: PathBuf,
    file: BufWriter<File>,
    texts: Vec<Text>,
    num_tokens: u64,
}

#[derive(Clone, Debug)]
struct Text {
    range: Range<u64>,
    largest: Option<u32>,
}

impl TokenKeeper {
    /// A file without a token.
    ///
    /// # Errors
    /// [`TextError::NotKept`] when it cannot be made.
    pub fn new() -> Result<Self, TextError> {
        Self::within(&folder())
    }

    fn within(folder: &Path) -> Result<Self, TextError> {
        let made = tempfile::tempfile_in(folder).map_err(|source| TextError::not_kept(folder, source))?;
        let file = BufWriter::with_capacity(BLOCK_BYTES, made);
        Ok(Self { folder: folder.to_owned(), file, texts: Vec::new(), num_tokens: 0 })
    }

    /// Begins a text, which has no token yet.
    pub fn begin(&mut self) {
        self.texts.push(Text { range: self.num_tokens..self.num_tokens, largest: None });
    }

    /// Appends tokens to the text that was begun last; without one they belong to none.
    ///
    /// # Errors
    /// [`TextError::NotKept`] when the disk is full.
    pub fn append(&mut self, tokens: &[u32]) -> Result<(), TextError> {
        for token in tokens {
            let written = self.file.write_all(&token.to_le_bytes());
            written.map_err(|source| TextError::not_kept(&self.folder, source))?;
        }
        self.num_tokens += tokens.len() as u64;
        if let Some(text) = self.texts.last_mut() {
            text.range.end = self.num_tokens;
            text.largest = text.largest.max(tokens.iter().copied().max());
        }
        Ok(())
    }

    /// The tokens of each text, in order.
    ///
    /// # Errors
    /// As [`TokenKeeper::append`].
    pub fn finish(self) -> Result<Vec<KeptTokens>, TextError> {
        let file = self.file.into_inner();
        let file = file.map_err(|error| TextError::not_kept(&self.folder, error.into_error()))?;
        let (file, folder) = (Arc::new(file), Arc::<Path>::from(self.folder));
        let kept = |Text { range, largest }| KeptTokens {
            folder: Arc::clone(&folder),
            file: Arc::clone(&file),
            range,
            largest,
        };
        Ok(self.texts.into_iter().map(kept).collect())
    }
}

/// The tokens of one text.
#[derive(Debug)]
pub struct KeptTokens {
    folder: Arc<Path>,
    file: Arc<File>,
    range: Range<u64>,
    largest: Option<u32>,
}

impl KeptTokens {
    /// How many there are.
    pub fn num_tokens(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The largest of them; `None` where there is none.
    pub fn largest(&self) -> Option<u32> {
        self.largest
    }

    /// Reads the tokens from `position` on, as many as `tokens` has.
    ///
    /// # Errors
    /// When the disk fails.
    ///
    /// # Panics
    /// When the text has not so many.
    pub fn read(&self, position: u64, tokens: &mut [u32]) -> Result<(), TextError> {
        let mut bytes = vec![0; tokens.len() * TOKEN_BYTES];
        self.read_bytes(position, &mut bytes)?;
        let words = bytes.as_chunks().0;
        tokens.iter_mut().zip(words).for_each(|(token, &word)| *token = u32::from_le_bytes(word));
        Ok(())
    }

    /// Calls `each` with the tokens of a range as bytes, little-endian, block by block.
    ///
    /// # Errors
    /// As [`KeptTokens::read`].
    pub fn each_block(&self, range: Range<u64>, mut each: impl FnMut(&[u8])) -> Result<(), TextError> {
        let at_once = BLOCK_BYTES / TOKEN_BYTES;
        let mut block = vec![0; BLOCK_BYTES.min((range.end - range.start) as usize * TOKEN_BYTES)];
        for start in range.clone().step_by(at_once) {
            let num_tokens = at_once.min((range.end - start) as usize);
            let bytes = &mut block[..num_tokens * TOKEN_BYTES];
            self.read_bytes(start, bytes)?;
            each(bytes);
        }
        Ok(())
    }

    fn read_bytes(&self, position: u64, bytes: &mut [u8]) -> Result<(), TextError> {
        let num_tokens = (bytes.len() / TOKEN_BYTES) as u64;
        assert!(position + num_tokens <= self.num_tokens(), "a range of the text");
        let at = (self.range.start + position) * TOKEN_BYTES as u64;
        self.file.read_exact_at(bytes, at).map_err(|source| TextError::unreadable(&self.folder, source))
    }
}

/// Where the file lies.
fn folder() -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    match env::var_os("TMPDIR").filter(|named| !named.is_empty()) {
        Some(named) => named.into(),
        None if on_disk.is_dir() => on_disk.to_owned(),
        None => env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_were_kept_and_no_file_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let texts: Vec<Vec<u32>> =
            [0, 1, 70_000, 5].map(|len: u32| (0..len).map(|token| token * 7 % 50_257).collect()).to_vec();
        let mut keeper = TokenKeeper::within(folder.path()).unwrap();
        for tokens in &texts {
            let (first, rest) = tokens.split_at(tokens.len() / 3);
            keeper.begin();
            [first, rest].iter().for_each(|tokens| keeper.append(tokens).unwrap());
        }
        let kept = keeper.finish().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for (text, kept) in texts.iter().zip(&kept) {
            assert_eq!(kept.num_tokens(), text.len() as u64);
            assert_eq!(kept.largest(), text.iter().copied().max());
            let mut tokens = vec![0; text.len()];
            kept.read(0, &mut tokens).unwrap();
            assert_eq!(&tokens, text);
            let mut bytes = Vec::new();
            kept.each_block(0..kept.num_tokens(), |block| bytes.extend_from_slice(block)).unwrap();
            assert!(bytes.iter().copied().eq(text.iter().flat_map(|token| token.to_le_bytes())));
        }
        let mut middle = [0; 3];
        kept[2].read(66_000, &mut middle).unwrap();
        assert_eq!(middle, texts[2][66_000..66_003]);
    }

    #[test]
    fn a_folder_that_takes_no_file_is_an_error_that_names_it() {
        let error = TokenKeeper::within(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.starts_with("the tokens of the text cannot be kept in `/nowhere`: "), "{error}");
    }
}
