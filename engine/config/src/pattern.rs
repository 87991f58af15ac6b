//! Regular expressions of names of layers, which several keys have.

use regex::{Regex, RegexBuilder};

/// Patterns of a list at most: each plan of a run compiles each of them.
pub(crate) const MOST_IN_LIST: usize = 256;

/// Bytes of a compiled pattern at most, so that none takes more than milliseconds: some thousand letters, or a class repeated some hundred times.
const COMPILED_BYTES_MAX: usize = 256 << 10;

/// The pattern, found anywhere in a name, whatever the case.
///
/// # Errors
/// If it is no regular expression, which a run file's reader refuses.
pub fn regex(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).size_limit(COMPILED_BYTES_MAX).build()
}

/// The rule that a text breaks which is no regular expression.
pub(crate) fn broken_rule(pattern: &str) -> Option<String> {
    let error = regex(pattern).err()?.to_string();
    // The crate draws the pattern over several lines and names the mistake on the last.
    let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    Some(format!("that is no regular expression: {}", reason.trim_end_matches('.')))
}
