//! Rust source as words and signs, without comments, literals and what only tests compile.

/// A word or a sign of a source file. A literal is left out, a path's `::` is one sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    Sign(char),
    /// `::`
    Path,
}

impl Token {
    /// The word, or nothing for a sign.
    pub(super) fn word(&self) -> &str {
        match self {
            Self::Word(word) => word,
            _ => "",
        }
    }

    /// Whether this is the sign.
    pub(super) fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }
}

/// The tokens of a source file, items under `#[cfg(test)]` left out.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    without_tests(split(text))
}

/// Where a string or character literal that begins at `start` ends, or `None` where none begins.
fn end_of_literal(chars: &[char], start: usize) -> Option<usize> {
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let end_quote = |mut index: usize, quote: char| {
        while index < chars.len() && chars[index] != quote {
            index += 1 + usize::from(chars[index] == '\\');
        }
        index + 1
    };
    match at(start) {
        '"' => Some(end_quote(start + 1, '"')),
        // A character, not a lifetime: `'a'` or `'\n'`.
        '\'' if at(start + 1) == '\\' || at(start + 2) == '\'' => Some(end_quote(start + 1, '\'')),
        'b' if at(start + 1) == '"' || at(start + 1) == '\'' => end_of_literal(chars, start + 1),
        'b' if at(start + 1) == 'r' => end_of_literal(chars, start + 1),
        'r' if at(start + 1) == '"' || at(start + 1) == '#' => {
            let hashes = chars[start + 1..].iter().take_while(|&&c| c == '#').count();
            let open = start + 1 + hashes;
            if at(open) != '"' {
                return None;
            }
            let is_end =
                |&index: &usize| at(index) == '"' && (1..=hashes).all(|offset| at(index + offset) == '#');
            (open + 1..chars.len()).find(is_end).map(|end| end + 1 + hashes)
        }
        _ => None,
    }
}

/// Where a comment that begins at `start` ends, or `None` where none begins.
fn end_of_comment(chars: &[char], start: usize) -> Option<usize> {
    let ends_with = |from: usize, end: &[char]| {
        let length = chars[from..].windows(end.len()).position(|window| window == end);
        length.map_or(chars.len(), |length| from + length + end.len())
    };
    match chars[start..] {
        ['/', '/', ..] => Some(ends_with(start, &['\n'])),
        ['/', '*', ..] => Some(ends_with(start + 2, &['*', '/'])),
        _ => None,
    }
}

fn split(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (mut found, mut index) = (Vec::new(), 0);
    while index < chars.len() {
        if let Some(end) = end_of_comment(&chars, index).or_else(|| end_of_literal(&chars, index)) {
            index = end;
        } else if is_word(chars[index]) {
            let word: String = chars[index..].iter().take_while(|&&c| is_word(c)).collect();
            index += word.chars().count();
            found.push(Token::Word(word));
        } else if chars[index..].starts_with(&[':', ':']) {
            found.push(Token::Path);
            index += 2;
        } else {
            if !chars[index].is_whitespace() {
                found.push(Token::Sign(chars[index]));
            }
            index += 1;
        }
    }
    found
}

/// The index after the item that begins at `start`: after its `;`, or after the braces that close its body.
fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token {
            Token::Sign('{' | '(' | '[') => depth += 1,
            Token::Sign(sign @ ('}' | ')' | ']')) => {
                depth = depth.saturating_sub(1);
                if depth == 0 && *sign == '}' {
                    return index + 1;
                }
            }
            Token::Sign(';') if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let attribute = split("#[cfg(test)]");
    let (mut kept, mut index) = (Vec::new(), 0);
    while index < tokens.len() {
        if tokens[index..].starts_with(&attribute) {
            index = end_of_item(&tokens, index + attribute.len());
        } else {
            kept.push(tokens[index].clone());
            index += 1;
        }
    }
    kept
}

#[test]
fn comments_literals_and_tests_are_no_tokens() {
    let text = r##"
        /* super::a */ // super::b
        const A: &str = "super::c"; const B: &str = r#"super::"d""#; const C: char = '"';
        fn f<'a>(x: &'a u8) -> crate::e::E { b'\'' }
        #[cfg(test)]
        mod tests { use super::*; }
        #[cfg(test)]
        use super::f;
        mod last;
    "##;
    let words: Vec<String> =
        tokens(text).iter().map(|token| token.word().to_owned()).filter(|word| !word.is_empty()).collect();
    let expected = "const A str const B str const C char fn f a x a u8 crate e E mod last";
    assert_eq!(words.join(" "), expected);
}
