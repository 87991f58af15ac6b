//! The equal parts that a collective's range is cut into, one per member.

use std::ops::Range;

use super::error::CommError;

/// The part of `range` that the member at `position` of `size` owns.
///
/// # Errors
/// [`CommError::Indivisible`] if the parts would not be equal.
pub(super) fn part(range: &Range<usize>, size: usize, position: usize) -> Result<Range<usize>, CommError> {
    if !range.len().is_multiple_of(size) {
        return Err(CommError::Indivisible { num_elements: range.len(), group_size: size });
    }
    let len = range.len() / size;
    let start = range.start + position * len;
    Ok(start..start + len)
}
