//! The header of a rank's file: where each piece lies, and the checksums of the data's blocks.

use std::collections::HashMap;
use std::io;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::blocks::{DIGITS, num_blocks};
use super::piece::Piece;

/// The key of the blocks' checksums, one behind the other.
const BLOCKS: &str = "blocks";

/// Bytes of an element.
pub(super) const ELEMENT_BYTES: u64 = 4;

/// The bytes of a header, the eight with its length in front.
pub(super) fn encode(pieces: &[Piece], blocks: &[String]) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let tensors = pieces.iter().map(|piece| {
        let start = end;
        end += ELEMENT_BYTES as usize * piece.range.len();
        let info =
            TensorInfo { dtype: Dtype::F32, shape: vec![piece.range.len()], data_offsets: (start, end) };
        (piece.to_string(), info)
    });
    let about = HashMap::from([(BLOCKS.to_owned(), blocks.concat())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    // The format wants the tensors to start at a multiple of 8 bytes; spaces may follow the header.
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok([&(header.len() as u64).to_le_bytes()[..], &header].concat())
}

/// What a header says.
#[derive(Debug)]
pub(super) struct ShardHeader {
    /// Each piece with the place of its first byte in the data.
    pub(super) pieces: Vec<(Piece, u64)>,
    /// The checksum of each block.
    pub(super) blocks: Vec<String>,
    /// Bytes of data.
    pub(super) num_data_bytes: u64,
}

impl ShardHeader {
    /// Reads a header without its length.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let metadata: Metadata = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut pieces = Vec::new();
        let mut num_data_bytes = 0;
        for (name, info) in metadata.tensors() {
            let piece: Piece =
                name.parse().map_err(|_| format!("`{name}` is no name of elements of a parameter"))?;
            let (start, end) = info.data_offsets;
            let needed = piece.range.len().checked_mul(ELEMENT_BYTES as usize);
            let found = end.checked_sub(start);
            if info.dtype != Dtype::F32 || found.is_none() || found != needed {
                return Err(format!("`{name}` is {:?} in bytes {start} to {end}", info.dtype));
            }
            num_data_bytes = num_data_bytes.max(end as u64);
            pieces.push((piece, start as u64));
        }
        let digits = metadata.metadata().as_ref().and_then(|about| about.get(BLOCKS)).cloned();
        let digits = digits.ok_or_else(|| format!("it has no `{BLOCKS}`"))?;
        let blocks =
            digits.as_bytes().chunks(DIGITS).map(|block| String::from_utf8_lossy(block).into_owned());
        let blocks: Vec<String> = blocks.collect();
        if blocks.len() != num_blocks(num_data_bytes) {
            return Err(format!("it has {} checksums for {num_data_bytes} bytes", blocks.len()));
        }
        Ok(Self { pieces, blocks, num_data_bytes })
    }
}
