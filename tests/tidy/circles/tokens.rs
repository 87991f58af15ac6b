//! Rust source as words and signs, without comments, literals and what only tests compile.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

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
    let mut found = Vec::new();
    add(text.parse().unwrap_or_else(|error| panic!("{error}: {text}")), &mut found);
    found
}

fn add(stream: TokenStream, found: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let mut is_next = |wanted: &str| trees.peek().is_some_and(|next| next.to_string() == wanted);
        match tree {
            TokenTree::Literal(_) => {}
            TokenTree::Ident(word) => found.push(Token::Word(word.to_string())),
            // The item ends with its body or its `;`.
            TokenTree::Punct(sign) if sign.as_char() == '#' && is_next("[cfg (test)]") => {
                drop(trees.find(|tree| tree.to_string() == ";" || is_in_braces(tree)));
            }
            TokenTree::Punct(sign) if sign.as_char() == ':' && is_next(":") => {
                trees.next();
                found.push(Token::Path);
            }
            TokenTree::Punct(sign) => found.push(Token::Sign(sign.as_char())),
            TokenTree::Group(group) => {
                let signs = match group.delimiter() {
                    Delimiter::Brace => ['{', '}'],
                    Delimiter::Bracket => ['[', ']'],
                    Delimiter::Parenthesis => ['(', ')'],
                    Delimiter::None => [' '; 2],
                };
                found.push(Token::Sign(signs[0]));
                add(group.stream(), found);
                found.push(Token::Sign(signs[1]));
            }
        }
    }
}

fn is_in_braces(tree: &TokenTree) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
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
