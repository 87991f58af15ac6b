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
        let end = end_of_token(text, at);
        match bytes[at] {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'#' | b'/' if is_comment(text, at) => blank(&mut bytes[at..end]),
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

/// The end of the string, comment or single character that begins at `at`.
fn end_of_token(text: &str, at: usize) -> usize {
    let rest = &text.as_bytes()[at..];
    let until = |found: Option<usize>| at + found.unwrap_or(rest.len());
    match rest {
        [b'"', ..] => {
            let mut is_escaped = false;
            let close = rest.iter().skip(1).position(|&byte| {
                let closes = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                closes || byte == b'\n'
            });
            until(close.map(|close| close + 2))
        }
        [b'#', ..] | [b'/', b'/', ..] => until(rest.iter().position(|&byte| byte == b'\n')),
        [b'/', b'*', ..] => until(text[at + 2..].find("*/").map(|close| close + 4)),
        _ => at + 1,
    }
}

/// Whether a comment begins here, and ends.
fn is_comment(text: &str, at: usize) -> bool {
    match &text.as_bytes()[at..] {
        [b'#', ..] | [b'/', b'/', ..] => true,
        [b'/', b'*', ..] => text[at + 2..].contains("*/"),
        _ => false,
    }
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
