//! What DeepSpeed's reader takes beside strict JSON (its config files are read as hjson): comments, and a comma behind the last part.

/// The text with a space for each byte of its comments and of commas behind a last part, so that every value keeps its place; `None` if
/// it has none. A comment that is never closed stays, and is no JSON.
pub(super) fn blanked(text: &str) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    // The comma that was read last, if only space and comments stand behind it, and whether a part stands before it.
    let mut comma: Option<usize> = None;
    let mut has_part = false;
    while at < bytes.len() {
        let comment = comment_end(text, at);
        let end = comment.unwrap_or_else(|| string_end(text, at).unwrap_or(at + 1));
        match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ if comment.is_some() => blank(&mut bytes[at..end]),
            b',' => {
                comma = has_part.then_some(at);
                has_part = false;
            }
            b'{' | b'[' | b':' => (comma, has_part) = (None, false),
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    blank(&mut bytes[comma..=comma]);
                }
                has_part = true;
            }
            _ => (comma, has_part) = (None, true),
        }
        at = end;
    }
    let blanked = String::from_utf8(bytes).expect("whole characters became spaces");
    (blanked != text).then_some(blanked)
}

/// The end of the comment that begins here, if one does that is closed.
fn comment_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text.as_bytes()[at..];
    match rest {
        [b'#', ..] | [b'/', b'/', ..] => {
            Some(at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()))
        }
        [b'/', b'*', ..] => text[at + 2..].find("*/").map(|close| at + close + 4),
        _ => None,
    }
}

/// The end of the string that begins here, if one does: its quote, or the end of its line or of the text.
fn string_end(text: &str, at: usize) -> Option<usize> {
    let inner = text.as_bytes()[at..].strip_prefix(b"\"")?;
    let mut is_escaped = false;
    let close = inner.iter().position(|&byte| {
        let closes = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        closes || byte == b'\n'
    });
    Some(close.map_or(text.len(), |close| at + close + 2))
}

/// Line ends stay, since they count lines.
fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
}

#[cfg(test)]
mod tests {
    use super::blanked;

    #[test]
    fn comments_and_last_commas_become_spaces() {
        for (text, expected) in [
            ("{\"a\": 1} # end", "{\"a\": 1}      "),
            ("// first\n{\"a\": 1}", "        \n{\"a\": 1}"),
            ("{/* a\r\nb */\"a\": 1}", "{    \r\n    \"a\": 1}"),
            ("{\"a\": 1,}", "{\"a\": 1 }"),
            ("{\"a\": [1, 2, ], }", "{\"a\": [1, 2  ]  }"),
            ("{\"a\": [1, // one\n]}", "{\"a\": [1        \n]}"),
            ("{\"a\": \"é\", # é\n}", "{\"a\": \"é\"      \n}"),
            ("[[1,],]", "[[1 ] ]"),
            ("{\"a\": {},}", "{\"a\": {} }"),
        ] {
            assert_eq!(blanked(text).as_deref(), Some(expected), "{text}");
            assert_eq!(expected.len(), text.len());
        }
    }

    #[test]
    fn all_else_stays_as_it_is() {
        for text in [
            r##"{"a": "# // /* */ ,]"}"##,
            r##"{"a": "\"# \\", "b": 1}"##,
            "[,]",
            "{,}",
            "[1,,]",
            "{\"a\":,}",
            "{\"a\": 1 /* open",
            "{\"a\": 1 / 2}",
            "{\"a\": \"open # \n}",
        ] {
            assert_eq!(blanked(text), None, "{text}");
        }
    }
}
