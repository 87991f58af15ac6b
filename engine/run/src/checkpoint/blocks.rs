//! Checksums of blocks of bytes.

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a file's data that share a checksum. A reader of a few elements reads a block around them.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;

/// Hexadecimal digits of a checksum.
pub(super) const DIGITS: usize = 16;

/// XXH3's 64 bits of some bytes, in hexadecimal: chance finds damage equal to the original once in 2^64. It is no protection against
/// anyone who wants to deceive.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    digits(xxh3_64(bytes))
}

/// A checksum as files have it.
pub fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}

/// Number of blocks of some bytes.
pub(super) fn num_blocks(num_bytes: u64) -> usize {
    num_bytes.div_ceil(BLOCK_BYTES as u64) as usize
}
