//! Writes a `.bin`, and the `.idx` that belongs to it.
//!
//! The index begins with lists as long as the number of sequences, which is only known at the end. So what is known of each sequence is
//! first written to a file beside the `.bin`, the *list of sequences*, from which the index is made without holding one in memory.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use pipezero_config::TokenType;

use super::index::{MAGIC, NO_LOSS, VERSION};

/// How many tokens and documents have been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Tokens.
    pub num_tokens: u64,
    /// Sequences: one for each document, or one for each part of it with or without loss.
    pub num_sequences: u64,
    /// Documents.
    pub num_documents: u64,
    /// Sequences that carry no loss.
    pub num_unscored: u64,
}

impl Written {
    /// Bytes of the list of sequences.
    pub fn bytes(self) -> u64 {
        self.num_sequences * Sequence::BYTES as u64
    }
}

/// An entry of the list of sequences: a sequence's length, whether it carries loss, and whether it ends a document.
#[derive(Clone, Copy)]
struct Sequence {
    num_tokens: u32,
    is_unscored: bool,
    ends_document: bool,
}

impl Sequence {
    const BYTES: usize = 5;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.num_tokens.to_le_bytes();
        [a, b, c, d, u8::from(self.is_unscored) | u8::from(self.ends_document) << 1]
    }

    fn from_bytes([a, b, c, d, flags]: [u8; Self::BYTES]) -> Self {
        Self {
            num_tokens: u32::from_le_bytes([a, b, c, d]),
            is_unscored: flags & 1 != 0,
            ends_document: flags & 2 != 0,
        }
    }
}

/// Appends documents to a `.bin` and to a list of sequences.
#[derive(Debug)]
pub struct DocumentWriter {
    token_type: TokenType,
    bin: BufWriter<File>,
    sequences: BufWriter<File>,
    written: Written,
}

impl DocumentWriter {
    /// Appends to what has been written; both files stand at their ends.
    pub fn new(token_type: TokenType, bin: File, sequences: File, written: Written) -> Self {
        let buffered = |file| BufWriter::with_capacity(1 << 20, file);
        Self { token_type, bin: buffered(bin), sequences: buffered(sequences), written }
    }

    /// Appends a document of parts, each of which carries loss or does not; one without a token is left out.
    pub fn document<'a>(&mut self, parts: impl Iterator<Item = (&'a [u32], bool)>) -> io::Result<()> {
        let mut last: Option<Sequence> = None;
        for (tokens, has_loss) in parts.filter(|(tokens, _)| !tokens.is_empty()) {
            match self.token_type {
                TokenType::U16 => {
                    // The type was chosen for the vocabulary.
                    tokens.iter().try_for_each(|&token| self.bin.write_all(&(token as u16).to_le_bytes()))?;
                }
                _ => tokens.iter().try_for_each(|&token| self.bin.write_all(&token.to_le_bytes()))?,
            }
            let num_tokens = u32::try_from(tokens.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
            if let Some(before) =
                last.replace(Sequence { num_tokens, is_unscored: !has_loss, ends_document: false })
            {
                self.sequence(before)?;
            }
        }
        if let Some(last) = last {
            self.sequence(Sequence { ends_document: true, ..last })?;
        }
        Ok(())
    }

    fn sequence(&mut self, sequence: Sequence) -> io::Result<()> {
        self.written.num_tokens += u64::from(sequence.num_tokens);
        self.written.num_sequences += 1;
        self.written.num_documents += u64::from(sequence.ends_document);
        self.written.num_unscored += u64::from(sequence.is_unscored);
        self.sequences.write_all(&sequence.to_bytes())
    }

    /// What has been written, once it is on disk.
    pub fn sync(&mut self) -> io::Result<Written> {
        for file in [&mut self.bin, &mut self.sequences] {
            file.flush()?;
            file.get_ref().sync_data()?;
        }
        Ok(self.written)
    }

    /// What has been written.
    pub fn written(&self) -> Written {
        self.written
    }
}

/// Writes the index of a `.bin` from its list of sequences.
pub fn write_index(
    to: &mut File,
    sequences: &mut File,
    written: Written,
    token_type: TokenType,
) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(1 << 20, to);
    to.write_all(MAGIC)?;
    to.write_all(&VERSION.to_le_bytes())?;
    to.write_all(&[token_type.code()])?;
    to.write_all(&written.num_sequences.to_le_bytes())?;
    to.write_all(&(written.num_documents + 1).to_le_bytes())?;
    each_sequence(sequences, written, |sequence| to.write_all(&sequence.num_tokens.to_le_bytes()))?;
    let mut pointer = 0;
    each_sequence(sequences, written, |sequence| {
        to.write_all(&u64::to_le_bytes(pointer))?;
        pointer += u64::from(sequence.num_tokens) * token_type.num_bytes() as u64;
        Ok(())
    })?;
    to.write_all(&0_u64.to_le_bytes())?;
    let mut num_sequences = 0_u64;
    each_sequence(sequences, written, |sequence| {
        num_sequences += 1;
        if sequence.ends_document { to.write_all(&num_sequences.to_le_bytes()) } else { Ok(()) }
    })?;
    if written.num_unscored > 0 {
        each_sequence(sequences, written, |sequence| {
            to.write_all(&[if sequence.is_unscored { NO_LOSS } else { 0 }])
        })?;
    }
    to.flush()
}

/// Calls `each` with all sequences, from the first.
fn each_sequence(
    sequences: &mut File,
    written: Written,
    mut each: impl FnMut(Sequence) -> io::Result<()>,
) -> io::Result<()> {
    sequences.rewind()?;
    let mut from = BufReader::with_capacity(1 << 20, sequences);
    for _ in 0..written.num_sequences {
        let mut bytes = [0; Sequence::BYTES];
        from.read_exact(&mut bytes)?;
        each(Sequence::from_bytes(bytes))?;
    }
    Ok(())
}
