//! Schedule files: orders of compute in PyTorch's pipelining CSV.

use std::path::Path;

use pipezero_files::input::{InputError, read_text};
use pipezero_schedule::{ComputeOrder, CsvError};

/// Bytes of a file at most; the longest step that is planned has a million computes, of ten bytes each.
const MAX_BYTES: u64 = 16 << 20;

/// The repair of a file that is not an order.
pub(crate) const NAME_ONE: &str =
    "name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`";

/// Why a file does not hold an order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderFileError {
    /// It cannot be read.
    #[error("cannot be read: {0}; {NAME_ONE}")]
    Unread(String),
    /// Its text is not an order that can run.
    #[error(transparent)]
    Invalid(Box<CsvError>),
}

/// The text of a file that may hold an order.
pub(crate) fn order_text(path: &Path) -> Result<String, InputError> {
    read_text(path, MAX_BYTES)
}

/// The order in a file.
pub fn read_order(path: &Path) -> Result<ComputeOrder, OrderFileError> {
    let text = order_text(path).map_err(|error| OrderFileError::Unread(error.to_string()))?;
    ComputeOrder::from_csv(&text).map_err(|error| OrderFileError::Invalid(Box::new(error)))
}
