//! Opens the texts of a run: bytes are read where they lie, and what a tokenizer or JSON says becomes tokens, which are kept on disk.

use std::fs;
use std::path::{Path, PathBuf};

use pipezero_files::records::{Layout, Records, is_json};
use pipezero_tokens::documents::Document;
use pipezero_tokens::text::{TextError, find_all};
use pipezero_tokens::{KeptTokens, StreamedText, TokenKeeper};
use rayon::prelude::*;

use super::data_error::DataError;
use super::documents::{Documents, Marks};
use super::opener::Opener;
use super::store::Store;

/// Bytes of texts that are turned into tokens at once, unless a single text or document has more. A tokenizer takes up to 230 bytes for each of
/// them.
pub(super) const AT_ONCE_BYTES: u64 = 1 << 20;

/// A file of text that was read. Tokens lie with the keeper until it has those of all files.
enum Opened {
    Bytes(StreamedText),
    Tokens,
    Documents(Marks),
}

impl Opened {
    /// Its store; `kept` are the tokens of the texts that have some there, in order.
    fn into_store(self, kept: &mut impl Iterator<Item = KeptTokens>) -> Option<Store> {
        Some(match self {
            Self::Bytes(text) => Store::Text(text),
            Self::Tokens => Store::Tokens(kept.next()?),
            Self::Documents(marks) => Store::Documents(Documents { tokens: kept.next()?, marks }),
        })
    }
}

impl Opener<'_> {
    /// The texts of a run, in order.
    ///
    /// # Errors
    /// When one cannot be read, is no text, or has no documents where it is JSON; when all are empty.
    pub(super) fn texts(&self) -> Result<Vec<Store>, DataError> {
        let files = find_all(&self.config.text)?;
        let (mut opened, mut keeper, mut num_bytes) = (Vec::with_capacity(files.len()), None, 0);
        for group in files.chunk_by(|one, next| !is_json(one) && !is_json(next)) {
            if is_json(&group[0]) {
                num_bytes += fs::metadata(&group[0]).map_or(0, |found| found.len());
                opened.push(Opened::Documents(self.json(&group[0], made(&mut keeper)?)?));
                continue;
            }
            let texts = self.opened(group, opened.len())?;
            num_bytes += texts.iter().map(StreamedText::num_bytes).sum::<u64>();
            if self.tokenizer().is_none() {
                opened.extend(texts.into_iter().map(Opened::Bytes));
            } else {
                self.keep_tokens(&texts, made(&mut keeper)?)?;
                opened.extend(texts.iter().map(|_| Opened::Tokens));
            }
        }
        if num_bytes == 0 {
            return Err(TextError::Empty { num_files: files.len() }.into());
        }
        let mut kept = keeper.map_or(Ok(Vec::new()), TokenKeeper::finish)?.into_iter();
        Ok(opened.into_iter().filter_map(|opened| opened.into_store(&mut kept)).collect())
    }

    /// Opens texts, of which `num_before` are open already.
    fn opened(&self, paths: &[PathBuf], num_before: usize) -> Result<Vec<StreamedText>, DataError> {
        let is_held =
            |number: usize| self.tokenizer().is_none() && num_before + number < StreamedText::HELD_MAX;
        let opened = paths.iter().enumerate().map(|(number, path)| StreamedText::open(path, is_held(number)));
        Ok(opened.collect::<Result<_, _>>()?)
    }

    /// Keeps the tokens of texts, in their order. Some texts are turned into tokens at once, on all cores: as many as [`AT_ONCE_BYTES`] allow.
    fn keep_tokens(&self, texts: &[StreamedText], keeper: &mut TokenKeeper) -> Result<(), DataError> {
        let mut rest = texts;
        while !rest.is_empty() {
            let (group, others) = rest.split_at(num_at_once(rest.iter().map(StreamedText::num_bytes)));
            rest = others;
            let documents = group.par_iter().map(|text| {
                self.check_text(text.path(), text.num_bytes())?;
                self.document(text.path(), &Layout::Whole, 1, Ok(text.whole()?))
            });
            for document in documents.collect::<Result<Vec<_>, _>>()? {
                keeper.begin();
                document.parts.iter().try_for_each(|(tokens, _)| keeper.append(tokens))?;
            }
        }
        Ok(())
    }

    /// Keeps the tokens of the documents of JSON. Some documents are made at once, on all cores: as many as [`AT_ONCE_BYTES`] allow.
    fn json(&self, path: &Path, keeper: &mut TokenKeeper) -> Result<Marks, DataError> {
        let unreadable = |source| TextError::unreadable(path, source);
        self.check_text(path, fs::metadata(path).map_err(unreadable)?.len())?;
        let mut records = Records::open(path).map_err(unreadable)?;
        let layout = records.layout().clone();
        let mut marks = Marks::default();
        keeper.begin();
        loop {
            let (mut group, mut num_bytes) = (Vec::new(), 0);
            while num_bytes < AT_ONCE_BYTES
                && let Some((line, record)) = records.next()
            {
                num_bytes += record.as_ref().map_or(0, |text| text.len() as u64);
                group.push((line, record));
            }
            if group.is_empty() {
                return Ok(marks);
            }
            let made = group.into_par_iter().map(|(line, record)| self.document(path, &layout, line, record));
            // The first mistake of the file is said, whichever was found first.
            for document in made.collect::<Vec<Result<Document, DataError>>>() {
                marks.push(document?, keeper)?;
            }
        }
    }
}

/// The keeper, which is made for the first text that needs it.
fn made(keeper: &mut Option<TokenKeeper>) -> Result<&mut TokenKeeper, TextError> {
    let new = keeper.take().map_or_else(TokenKeeper::new, Ok)?;
    Ok(keeper.insert(new))
}

/// How many of the first texts of these lengths are turned into tokens at once: at least one.
fn num_at_once(lengths: impl Iterator<Item = u64>) -> usize {
    let sums = lengths.scan(0, |sum: &mut u64, length| {
        *sum += length;
        Some(*sum)
    });
    sums.take_while(|&sum| sum <= AT_ONCE_BYTES).count().max(1)
}
