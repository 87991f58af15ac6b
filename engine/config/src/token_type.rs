//! The whole numbers that tokens are stored as.

use std::fmt;

/// How a token is stored, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenType {
    /// One byte.
    U8,
    /// One byte, from -128.
    I8,
    /// Two bytes, as nanoGPT writes, and Megatron for vocabularies below 65,500.
    U16,
    /// Two bytes, from -32,768.
    I16,
    /// Four bytes, as llm.c writes for Llama 3.
    U32,
    /// Four bytes, from -2^31, as Megatron writes for larger vocabularies.
    I32,
    /// Eight bytes, from -2^63.
    I64,
}

impl TokenType {
    /// The one that Megatron chooses for a vocabulary.
    pub fn of_vocabulary(vocab_size: usize) -> Self {
        if vocab_size < 65_500 { Self::U16 } else { Self::I32 }
    }

    /// The one that an index of Megatron means by a number; `None` if that is no whole number.
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::U8,
            2 => Self::I8,
            3 => Self::I16,
            4 => Self::I32,
            5 => Self::I64,
            8 => Self::U16,
            _ => return None,
        })
    }

    /// The number by which an index of Megatron means it.
    ///
    /// # Panics
    /// For u32, which such an index does not know.
    pub fn code(self) -> u8 {
        match self {
            Self::U8 => 1,
            Self::I8 => 2,
            Self::I16 => 3,
            Self::I32 => 4,
            Self::I64 => 5,
            Self::U16 => 8,
            Self::U32 => unreachable!("an index is written for u16 and i32 alone"),
        }
    }

    /// Bytes of a token.
    pub fn num_bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// The tokens in these bytes.
    pub fn decode(self, bytes: &[u8], each: impl FnMut(i64)) {
        match self {
            Self::U8 => bytes.iter().map(|&byte| i64::from(byte)).for_each(each),
            Self::I8 => bytes.iter().map(|&byte| i64::from(byte.cast_signed())).for_each(each),
            Self::U16 => words(bytes).map(u16::from_le_bytes).map(i64::from).for_each(each),
            Self::I16 => words(bytes).map(i16::from_le_bytes).map(i64::from).for_each(each),
            Self::U32 => words(bytes).map(u32::from_le_bytes).map(i64::from).for_each(each),
            Self::I32 => words(bytes).map(i32::from_le_bytes).map(i64::from).for_each(each),
            Self::I64 => words(bytes).map(i64::from_le_bytes).for_each(each),
        }
    }
}

impl fmt::Display for TokenType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::I64 => "i64",
        })
    }
}

/// The words of `N` bytes; a rest is left out.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}
