//! Files with an order of one's own, in PyTorch's pipelining CSV: how much of one is read, and what to say of what is none.

use std::path::Path;

use crate::files::input::{InputError, read_text};

/// Bytes of a file at most; the largest program that is planned has four million forwards, of ten bytes each.
const MAX_BYTES: u64 = 256 << 20;

/// The repair of a file that is no order.
pub(crate) const NAME_ONE: &str =
    "name a file in PyTorch's pipelining CSV: a row per rank, such as `0F0,0F1,0B0,0B1`";

/// The text of a file that may hold an order, or why there is none.
pub(crate) fn order_text(path: &Path) -> Result<String, InputError> {
    read_text(path, MAX_BYTES)
}
