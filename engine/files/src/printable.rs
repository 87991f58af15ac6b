//! Text for a terminal: names that files have may hold control characters, which would move the cursor or change its colours.

use std::borrow::Cow;

/// The text with each control character but line ends and tabs as its escape, `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let escaped = |character: char| match is_hidden(character) {
        true => character.escape_unicode().to_string(),
        false => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// The text with `?` for each byte of such a character, so that every place stays what it is.
pub(crate) fn in_place(text: &str) -> Option<String> {
    let replaced = |character: char| match is_hidden(character) {
        true => "?".repeat(character.len_utf8()),
        false => character.to_string(),
    };
    text.contains(is_hidden).then(|| text.chars().map(replaced).collect())
}

fn is_hidden(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\r' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen_and_do_nothing() {
        for (text, escaped, replaced) in [
            ("runs/a.json", "runs/a.json", None),
            ("a\tb\r\nc é", "a\tb\r\nc é", None),
            ("a\u{1b}[31m.json", r"a\u{1b}[31m.json", Some("a?[31m.json")),
            ("\u{7}\u{9b}x\u{7f}", r"\u{7}\u{9b}x\u{7f}", Some("???x?")),
        ] {
            assert_eq!(printable(text), escaped);
            assert_eq!(in_place(text).as_deref(), replaced);
            assert_eq!(replaced.unwrap_or(text).len(), text.len());
        }
    }
}
