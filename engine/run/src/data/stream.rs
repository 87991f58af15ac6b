//! Tokens of one side of a split, one after the other, wherever they lie.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::read_error::ReadError;
use super::store::Store;
use super::window::Window;

/// Parts of stores, read as one text.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    stores: Arc<Vec<Store>>,
    parts: Vec<Part>,
    num_tokens: u64,
    vocab_size: usize,
}

/// How many blocks of files of tokens are read for a checksum.
const CHECKED_BLOCKS: u64 = 1024;

/// Bytes that a process holds for a part of a store.
pub(super) const PART_BYTES: u64 = size_of::<Part>() as u64;

/// A part of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    store: usize,
    range: Range<u64>,
    /// Where it begins in the stream.
    at: u64,
}

impl Stream {
    /// A stream without a token, of tokens below `vocab_size`.
    pub(super) fn new(stores: Arc<Vec<Store>>, vocab_size: usize) -> Self {
        Self { stores, parts: Vec::new(), num_tokens: 0, vocab_size }
    }

    /// Appends a part of a store.
    pub(super) fn push(&mut self, store: usize, range: Range<u64>) {
        let num_tokens = range.end - range.start;
        if num_tokens == 0 {
            return;
        }
        match self.parts.last_mut() {
            Some(last) if last.store == store && last.range.end == range.start => last.range.end = range.end,
            _ => self.parts.push(Part { store, range, at: self.num_tokens }),
        }
        self.num_tokens += num_tokens;
    }

    /// The files of tokens that it reads, each once where its parts follow each other.
    pub(super) fn token_files(&self) -> impl Iterator<Item = &Path> {
        let mut stores: Vec<usize> = self.parts.iter().map(|part| part.store).collect();
        stores.dedup();
        stores.into_iter().filter_map(|store| match &self.stores[store] {
            Store::File(file) => Some(file.path()),
            _ => None,
        })
    }

    /// Tokens of all parts.
    pub(crate) fn num_tokens(&self) -> u64 {
        self.num_tokens
    }

    /// The last tokens, as a stream of their own, without which this one goes on.
    pub(super) fn split_off(&mut self, num_tokens: u64) -> Self {
        let mut end = Self::new(Arc::clone(&self.stores), self.vocab_size);
        let mut first = Self::new(Arc::clone(&self.stores), self.vocab_size);
        let boundary = self.num_tokens - num_tokens;
        for Part { store, range, at } in &self.parts {
            let cut = (range.start + boundary.saturating_sub(*at)).min(range.end);
            if range.start < cut {
                first.push(*store, range.start..cut);
            }
            if cut < range.end {
                end.push(*store, cut..range.end);
            }
        }
        *self = first;
        end
    }

    /// Fills the first `num_tokens` of a window with the tokens from `at` on.
    ///
    /// # Errors
    /// When a text or a file of tokens cannot be read, or the file has a token beyond the vocabulary.
    pub(super) fn read(&self, at: u64, num_tokens: usize, window: &mut Window) -> Result<(), ReadError> {
        window.clear();
        let first = self.part_of(at);
        let mut filled = 0;
        for part in &self.parts[first..] {
            let skipped = (at + filled as u64) - part.at;
            let start = part.range.start + skipped;
            let len = ((part.range.end - start) as usize).min(num_tokens - filled);
            let to = filled..filled + len;
            self.stores[part.store].read(start, window, to, self.vocab_size)?;
            if skipped == 0 {
                window.begins_document[filled] = true;
            }
            filled += len;
            if filled == num_tokens {
                break;
            }
        }
        Ok(())
    }

    /// Adds what tells these tokens from others to a checksum: all of texts; of files of tokens where documents lie, and
    /// [`CHECKED_BLOCKS`] blocks, evenly spaced.
    pub(super) fn add_to(&self, checksum: &mut Xxh3) -> Result<(), ReadError> {
        for part in &self.parts {
            self.stores[part.store].add_to(checksum, part.range.clone())?;
        }
        for number in 0..CHECKED_BLOCKS.min(self.num_tokens) {
            // In 128 bits no product overflows.
            let at = u128::from(self.num_tokens) * u128::from(number)
                / u128::from(CHECKED_BLOCKS.min(self.num_tokens));
            let part = &self.parts[self.part_of(at as u64)];
            self.stores[part.store].add_block_to(checksum, part.range.start + at as u64 - part.at)?;
        }
        Ok(())
    }

    /// The part that a token of the stream is in.
    fn part_of(&self, at: u64) -> usize {
        self.parts.partition_point(|part| part.at <= at) - 1
    }

    /// Calls `each` with all tokens, in order.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub(super) fn each(&self, mut each: impl FnMut(u32)) -> Result<(), ReadError> {
        const NUM_TOKENS: usize = 1 << 16;
        let mut window = Window::of(NUM_TOKENS);
        for at in (0..self.num_tokens).step_by(NUM_TOKENS) {
            let num_tokens = NUM_TOKENS.min((self.num_tokens - at) as usize);
            self.read(at, num_tokens, &mut window)?;
            window.tokens[..num_tokens].iter().for_each(|&token| each(token));
        }
        Ok(())
    }

    /// Whether all of it is text.
    pub(super) fn is_text(&self) -> bool {
        self.parts.iter().all(|part| !matches!(self.stores[part.store], Store::File(_)))
    }

    /// The largest token of the texts that it has parts of.
    pub(super) fn largest_of_texts(&self) -> Option<u32> {
        self.parts.iter().filter_map(|part| self.stores[part.store].largest_of_text()).max()
    }
}
