//! The header of a safetensors file: which tensors it has, and where.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::opened::open_regular;

/// No header of a model that fits anywhere is longer.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// An element of a tensor by dimension, given its place in row-major order.
pub fn index_of(shape: &[usize], element: usize) -> Vec<usize> {
    let mut rest = element;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let here = rest % size.max(1);
            rest /= size.max(1);
            here
        })
        .collect();
    index.reverse();
    index
}

/// A header, and where the data behind it begins.
#[derive(Debug)]
pub struct Header {
    /// Names, types, shapes and places of the tensors.
    pub metadata: Metadata,
    /// The byte of the file at which the data begins.
    pub data_start: u64,
}

/// Why a header was not read.
#[derive(Debug)]
pub enum HeaderError {
    /// The system refused.
    Io(std::io::Error),
    /// The file is not a complete safetensors file.
    Damaged(String),
}

impl Header {
    /// Reads the header of a file, and checks that the file has as many bytes as it says.
    pub fn read(path: &Path) -> Result<Self, HeaderError> {
        let damaged = |reason| Err(HeaderError::Damaged(reason));
        let mut file = match open_regular(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return damaged(error.to_string()),
            opened => opened.map_err(HeaderError::Io)?,
        };
        let file_bytes = file.metadata().map_err(HeaderError::Io)?.len();
        let mut length = [0; 8];
        match file.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return damaged(format!("it has {file_bytes} bytes, a header 8 or more"));
            }
            read => read.map_err(HeaderError::Io)?,
        }
        let header_bytes = u64::from_le_bytes(length);
        if header_bytes > HEADER_BYTES_MAX || header_bytes + 8 > file_bytes {
            return damaged(format!("its header claims {header_bytes} bytes, the file has {file_bytes}"));
        }
        let mut header = vec![0; header_bytes as usize];
        file.read_exact(&mut header).map_err(HeaderError::Io)?;
        let metadata: Metadata = match serde_json::from_slice(&header) {
            Ok(metadata) => metadata,
            Err(error) => return damaged(error.to_string()),
        };
        let end = metadata.tensors().values().map(|info| info.data_offsets.1 as u64).max().unwrap_or(0);
        let data_start = header_bytes + 8;
        if data_start.checked_add(end) != Some(file_bytes) {
            return damaged(format!(
                "its header describes {} bytes, the file has {file_bytes}",
                data_start.saturating_add(end)
            ));
        }
        Ok(Self { metadata, data_start })
    }
}

/// The header of a safetensors file with these parameters in f32, one behind the other, up to where their data begins.
pub fn f32_header<'a>(parameters: impl Iterator<Item = (&'a str, &'a [usize])>) -> io::Result<Vec<u8>> {
    header_of(Dtype::F32, parameters)
}

/// The same for elements of a type of whole bytes.
pub fn header_of<'a>(
    dtype: Dtype,
    parameters: impl Iterator<Item = (&'a str, &'a [usize])>,
) -> io::Result<Vec<u8>> {
    let mut end = 0;
    let tensors = parameters.map(|(name, shape)| {
        let start = end;
        end += dtype.bitsize() / 8 * shape.iter().product::<usize>();
        (name.to_owned(), TensorInfo { dtype, shape: shape.to_vec(), data_offsets: (start, end) })
    });
    // PyTorch's readers look for this key.
    let about = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let metadata = Metadata::new(Some(about), tensors.collect()).map_err(io::Error::other)?;
    let mut header = serde_json::to_vec(&metadata)?;
    // The format wants the tensors to start at a multiple of 8 bytes; spaces may follow the header.
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok([&(header.len() as u64).to_le_bytes()[..], &header].concat())
}

#[cfg(test)]
mod tests {
    use super::index_of;

    /// Against all elements, counted one after the other.
    #[test]
    fn elements_are_counted_with_the_last_dimension_fastest() {
        let mut element = 0;
        for i in 0..3 {
            for j in 0..4 {
                for k in 0..2 {
                    assert_eq!(index_of(&[3, 4, 2], element), [i, j, k]);
                    element += 1;
                }
            }
        }
        assert_eq!(index_of(&[5], 4), [4]);
        assert_eq!(index_of(&[], 0), [0; 0]);
    }
}
