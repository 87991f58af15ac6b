//! Text for a terminal: names of files, texts and what a model writes may hold characters that move the cursor, change colours or reverse the order
//! of what follows.

use std::borrow::Cow;

/// The text with each control character but line ends and tabs, each line separator of Unicode and each mark that changes the direction of writing as
/// its escape, such as `\u{1b}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character.escape_unicode().to_string())
}

/// The same for a text of JSON, in the escapes of JSON: it stays JSON and means the same.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    // All of these characters have 16 bits.
    escaped(text, |character| format!("\\u{:04x}", u32::from(character)))
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> Cow<'_, str> {
    if !has_hidden(text) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    each(text, |character, is_hidden| match is_hidden {
        true => shown.push_str(&escape(character)),
        false => shown.push(character),
    });
    Cow::Owned(shown)
}

/// The text with `?` for each byte of such a character, so that every place stays what it is.
pub(crate) fn in_place(text: &str) -> Option<String> {
    let mut shown = String::with_capacity(text.len());
    each(text, |character, is_hidden| match is_hidden {
        true => shown.extend(std::iter::repeat_n('?', character.len_utf8())),
        false => shown.push(character),
    });
    has_hidden(text).then_some(shown)
}

/// A text that comes in pieces, each of any bytes: what is shown of it.
#[derive(Debug, Default)]
pub struct PrintableStream {
    /// The first bytes of a character whose others are still to come.
    begun: Vec<u8>,
}

impl PrintableStream {
    /// The next bytes as text for a terminal. Bytes that are no UTF-8 are shown as U+FFFD, as terminals do, since some terminals take single bytes for
    /// control characters.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.begun);
        let num_begun = num_begun(&bytes);
        let (whole, begun) = bytes.split_at(bytes.len() - num_begun);
        self.begun = begun.to_vec();
        shown(whole)
    }

    /// The text for bytes at the end that form no whole character.
    pub fn finish(self) -> String {
        shown(&self.begun)
    }
}

fn shown(bytes: &[u8]) -> String {
    // A carriage return whose line end is in the next piece is escaped too.
    printable(&String::from_utf8_lossy(bytes)).into_owned()
}

/// How many of the last bytes are the beginning of a character.
fn num_begun(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        match str::from_utf8(rest) {
            Ok(_) => return 0,
            Err(error) => match error.error_len() {
                None => return rest.len() - error.valid_up_to(),
                Some(wrong) => rest = &rest[error.valid_up_to() + wrong..],
            },
        }
    }
}

fn has_hidden(text: &str) -> bool {
    let mut has = false;
    each(text, |_, is_hidden| has |= is_hidden);
    has
}

/// Calls `each` with every character, and whether it is to be escaped.
fn each(text: &str, mut each: impl FnMut(char, bool)) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        // It ends lines on some systems, and alone it goes back to the beginning of the line.
        let ends_line = character == '\r' && characters.peek() == Some(&'\n');
        each(character, is_hidden(character) && !ends_line);
    }
}

fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Line and paragraph separators.
        '\u{2028}' | '\u{2029}' => true,
        // Marks that set the direction of writing: Arabic letter mark; left-to-right and right-to-left marks; embeddings and overrides; isolates.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        character => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_seen_and_do_nothing() {
        for (text, escaped, replaced) in [
            ("runs/a.json", "runs/a.json", None),
            ("a\tb\r\nc é", "a\tb\r\nc é", None),
            (
                "a\rb\n\r",
                r"a\u{d}b
\u{d}",
                Some("a?b\n?"),
            ),
            ("a\u{1b}[31m.json", r"a\u{1b}[31m.json", Some("a?[31m.json")),
            ("\u{7}\u{9b}x\u{7f}", r"\u{7}\u{9b}x\u{7f}", Some("???x?")),
            ("a\u{2028}b\u{202e}c\u{2066}", r"a\u{2028}b\u{202e}c\u{2066}", Some("a???b???c???")),
        ] {
            assert_eq!(printable(text), escaped);
            assert_eq!(in_place(text).as_deref(), replaced);
            assert_eq!(replaced.unwrap_or(text).len(), text.len());
        }
    }

    /// Against Unicode's own list of the marks (UAX #9), and every character that is a control character in Rust's tables.
    #[test]
    fn every_control_character_and_mark_of_direction_is_escaped() {
        let marks = [
            0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069,
            0x2028, 0x2029,
        ];
        for number in 0..0x3000_u32 {
            let Some(character) = char::from_u32(number) else { continue };
            let is_escaped = (number < 0x20 && ![9, 10].contains(&number))
                || (0x7f..0xa0).contains(&number)
                || marks.contains(&number);
            let text = format!("a{character}b");
            assert_eq!(printable(&text) != text, is_escaped, "U+{number:04X}");
        }
    }

    #[test]
    fn json_stays_json_and_means_the_same() {
        let value = serde_json::json!({ "text": "\u{1b}[31m \u{9b} \u{7f} \u{202e} \u{2028} é" });
        let text = value.to_string();
        let shown = printable_json(&text);
        assert!(shown.contains("\\u009b") && shown.contains("\\u202e") && shown.contains('é'), "{shown}");
        assert_eq!(printable(&shown), shown);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    /// Cut anywhere, a text is shown as it is whole.
    #[test]
    fn pieces_of_a_text_are_shown_as_the_whole() {
        let whole = "é\u{1f980}\u{1b}[31m\u{9b}x\u{202e}\n".as_bytes();
        for wrong in [&[][..], &[0x9b], &[0xf0, 0x9f]] {
            let bytes = [whole, wrong, b"end"].concat();
            let expected = shown(&bytes);
            for first in 0..bytes.len() {
                for second in first..bytes.len() {
                    let mut stream = PrintableStream::default();
                    let parts = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    let mut found: String = parts.iter().map(|part| stream.push(part)).collect();
                    found += &stream.finish();
                    assert_eq!(found, expected, "{first} {second}");
                }
            }
        }
        let mut stream = PrintableStream::default();
        assert_eq!(stream.push(&[b'a', 0xc3]), "a");
        assert_eq!(stream.finish(), "\u{fffd}");
    }
}
