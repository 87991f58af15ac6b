//! Whole numbers on the command line: an error says which numbers are accepted, and not how they are stored.

use pipezero_config::parse_bytes;

/// A text is not a whole number in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a whole number from 0 to {max}, in digits alone")]
pub(super) struct NotWhole {
    /// The largest number of the range.
    max: u64,
}

/// Reads a whole number.
pub(super) fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, NotWhole> {
    // `parse` alone accepts a sign.
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    let found = text.parse().ok().filter(|_: &u64| is_number);
    found.and_then(|found| T::try_from(found).ok()).ok_or(NotWhole { max: max_of::<T>() })
}

/// The largest number of an unsigned type.
fn max_of<T>() -> u64 {
    u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>())
}

/// Reads a whole number from 1.
pub(super) fn at_least_one<T: TryFrom<u64> + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let count = whole(text).ok().filter(|count| *count >= T::from(1));
    count.ok_or_else(|| format!("write a whole number from 1 to {}, in digits alone", max_of::<T>()))
}

/// Bytes, at least one.
pub(super) fn byte_size(text: &str) -> Result<u64, String> {
    let size = parse_bytes(text).flatten().filter(|&bytes| bytes > 0);
    size.ok_or_else(|| "it is a number of bytes, such as 200KB or 5GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_digits_and_fit() {
        assert_eq!(whole("4294967295"), Ok(u32::MAX));
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole("007"), Ok(7_u32));
        for text in ["", "-1", "+1", "1.0", "1e3", "0x10", " 1", "4294967296", "99999999999999999999"] {
            assert_eq!(whole::<u32>(text), Err(NotWhole { max: 4_294_967_295 }), "{text}");
        }
        assert_eq!(whole::<u64>("18446744073709551616"), Err(NotWhole { max: u64::MAX }));
    }
}
