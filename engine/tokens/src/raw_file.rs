//! `.bin` files without an index: llm.c's, which say what they are, and nanoGPT's, which hold nothing but tokens.
//!
//! llm.c's begin with 256 numbers of i32: a magic number, a version, the number of tokens, and zeros (llm.c, dev/data/data_common.py). Those
//! of GPT-2 hold u16, those of Llama 3 u32. Where the first number is neither magic number, the file is tokens from its first byte on, of
//! u16 as nanoGPT writes (data/openwebtext/prepare.py), or of the type that the run file names.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use pipezero_config::TokenType;

use super::error::TokenFault;

/// llm.c's numbers for files of GPT-2's and of Llama 3's tokens, each with its version.
const LLM_C: [(u32, u32, TokenType); 2] = [(20_240_520, 1, TokenType::U16), (20_240_801, 7, TokenType::U32)];

/// Bytes of llm.c's header.
const HEADER_BYTES: u64 = 1024;

/// How files begin that are often taken for tokens, and what they are.
const OTHER_FILES: [(&[u8], &str); 7] = [
    (b"MMIDIDX", "an index of Megatron's, which belongs beside its .bin under the name .idx"),
    (b"\x93NUMPY", "an array that numpy saved with a header; write it with `tofile`"),
    (b"\x1f\x8b\x08", "compressed by gzip; unpack it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"\xfd7zXZ\0", "compressed by xz; unpack it"),
    (b"BZh91AY", "compressed by bzip2; unpack it"),
];

/// Bytes at the beginning of a file that are looked at, and the fewest that say something.
const LOOKED_AT: Range<usize> = 64..4096;

/// What the tokens of a file are, and where.
#[derive(Debug, PartialEq)]
pub(super) struct RawLayout {
    pub(super) token_type: TokenType,
    /// Where the first token lies, in bytes.
    pub(super) offset: u64,
    pub(super) num_tokens: u64,
    /// Whether the file says what it is.
    pub(super) has_header: bool,
}

/// Finds out what a file without an index holds; `token_type` is that of files without a header.
pub(super) fn layout(file: &File, token_type: TokenType) -> Result<RawLayout, TokenFault> {
    let actual = file.metadata()?.len();
    if actual >= HEADER_BYTES {
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, 0)?;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if LLM_C.iter().any(|&(magic, ..)| word(0).swap_bytes() == magic) {
            return Err(TokenFault::Swapped);
        }
        if let Some(&(_, known, token_type)) = LLM_C.iter().find(|&&(magic, ..)| word(0) == magic) {
            if word(4) != known {
                return Err(TokenFault::LlmCVersion { version: word(4), known });
            }
            let num_tokens = u64::from(word(8));
            let expected = HEADER_BYTES + num_tokens * token_type.num_bytes() as u64;
            if actual != expected {
                let what = format!("the {num_tokens} tokens that its header says");
                return Err(TokenFault::Length { actual, expected: expected.into(), what });
            }
            return Ok(RawLayout { token_type, offset: HEADER_BYTES, num_tokens, has_header: true });
        }
    }
    check_is_tokens(file, actual, token_type)?;
    let type_bytes = token_type.num_bytes() as u64;
    if !actual.is_multiple_of(type_bytes) {
        return Err(TokenFault::Fraction { num_bytes: actual, token_type });
    }
    Ok(RawLayout { token_type, offset: 0, num_tokens: actual / type_bytes, has_header: false })
}

/// Refuses a file whose first bytes are those of another kind of file, text, or tokens of another width.
fn check_is_tokens(file: &File, num_bytes: u64, token_type: TokenType) -> Result<(), TokenFault> {
    let mut bytes = vec![0; num_bytes.min(LOOKED_AT.end as u64) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    if let Some((_, kind)) = OTHER_FILES.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(TokenFault::OtherFile { kind });
    }
    if bytes.len() < LOOKED_AT.start {
        return Ok(());
    }
    if bytes[3..10] == *b"\0\0\0\0\0{\"" {
        return Err(TokenFault::OtherFile { kind: "a file of safetensors" });
    }
    if is_text(&bytes) {
        return Err(TokenFault::OtherFile {
            kind: "text; name it as `data.text`, or make tokens of it with `pipezero tokenize`",
        });
    }
    let wider = [TokenType::I64, TokenType::U32, TokenType::U16].into_iter();
    let mut wider = wider.filter(|wider| wider.num_bytes() > token_type.num_bytes());
    match wider.find(|&wider| looks_like(wider, &bytes)) {
        Some(stored) => Err(TokenFault::Wider { stored, token_type }),
        None => Ok(()),
    }
}

/// Whether the first bytes of a file are UTF-8 without other control characters than white space. The last character may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let whole = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or("\0")
        }
        Err(_) => return false,
    };
    whole.chars().all(|letter| !letter.is_control() || letter.is_whitespace())
}

/// Whether the first bytes of a file are those of tokens of a type: the upper half of each is next to nothing, and the lower half is not.
fn looks_like(token_type: TokenType, bytes: &[u8]) -> bool {
    let half = token_type.num_bytes() / 2;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    // No vocabulary has four times 2^16 tokens.
    let is_small = |bytes: &[u8]| number(bytes) < 4;
    let mut tokens = bytes.chunks_exact(2 * half);
    tokens.clone().all(|token| is_small(&token[half..])) && !tokens.all(|token| is_small(&token[..half]))
}
