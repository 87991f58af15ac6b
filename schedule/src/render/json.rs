//! The little of JSON that a trace needs.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

/// A string in quotation marks, with what must be escaped escaped (RFC 8259, section 7).
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\u{0}'..='\u{1f}' => {
                write!(quoted, "\\u{:04x}", u32::from(character)).expect("a string takes any text");
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Nanoseconds as microseconds, exactly.
pub(super) fn microseconds(time_ns: u64) -> String {
    format!("{}.{:03}", time_ns / 1000, time_ns % 1000)
}
