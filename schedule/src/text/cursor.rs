//! A place in a line of text, word by word.

use alloc::string::String;
use core::str::FromStr;

use super::{ParseError, Problem};

/// Longest piece of the text that an error repeats, in characters.
const MAX_QUOTED: usize = 40;

/// The rest of one line.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    line: usize,
    /// The column of the rest, from 1.
    column: usize,
    /// The words that are left; `None` after the last one.
    rest: Option<&'a str>,
    /// The column of the word taken last.
    word_column: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a line; `line` counts from 1.
    pub(super) fn new(line: usize, text: &'a str) -> Self {
        Self { line, column: 1, rest: Some(text), word_column: 1 }
    }

    /// The inside of a line, after two spaces.
    pub(super) fn indented(line: usize, inside: &'a str) -> Self {
        Self { line, column: 3, rest: Some(inside), word_column: 3 }
    }

    /// Takes the next word; words are separated by single spaces.
    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        // After the last word the column stands one past the end of the line, as if a space had followed.
        self.word_column = if self.rest.is_some() { self.column } else { self.column - 1 };
        let Some(rest) = self.rest.filter(|rest| !rest.is_empty()) else {
            return Err(self.problem(Problem::EndOfLine { expected }));
        };
        let (word, rest) = match rest.split_once(' ') {
            Some((word, rest)) => (word, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        self.column += word.chars().count() + 1;
        if word.is_empty() {
            return Err(self.problem(Problem::Word { found: String::from(" "), expected }));
        }
        Ok(word)
    }

    /// The next word, which is not taken.
    pub(super) fn next_word(mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        self.word(expected)
    }

    /// Takes the next word if it is this one, given with its spelling in backquotes.
    pub(super) fn literal(&mut self, word: &str, expected: &'static str) -> Result<(), ParseError> {
        self.one_of(&[(word, ())], expected)
    }

    /// Takes the next word and returns what it stands for.
    pub(super) fn one_of<T: Copy>(
        &mut self,
        words: &[(&str, T)],
        expected: &'static str,
    ) -> Result<T, ParseError> {
        let found = self.word(expected)?;
        let meaning = words.iter().find(|(word, _)| *word == found);
        meaning.map(|&(_, value)| value).ok_or_else(|| self.unexpected(found, expected))
    }

    /// Takes a number, as large as its type can hold.
    pub(super) fn number<T: FromStr>(&mut self, expected: &'static str) -> Result<T, ParseError> {
        let found = self.word(expected)?;
        parse_number(found).ok_or_else(|| self.not_a_number(found, 8 * size_of::<T>() as u32, expected))
    }

    /// Takes a number with a letter before it.
    pub(super) fn id(&mut self, prefix: char, expected: &'static str) -> Result<u32, ParseError> {
        let found = self.word(expected)?;
        parse_id(found, prefix).ok_or_else(|| self.not_a_number(found, u32::BITS, expected))
    }

    fn not_a_number(&self, found: &str, bits: u32, expected: &'static str) -> ParseError {
        self.problem(Problem::Number { found: quoted(found), bits, expected })
    }

    /// Whether another word follows.
    pub(super) fn has_more(&self) -> bool {
        self.rest.is_some()
    }

    /// The line must end here.
    pub(super) fn end(self) -> Result<(), ParseError> {
        match self.rest {
            None => Ok(()),
            Some(rest) => {
                // The space that separates the rest belongs to it: it may be all there is.
                let problem = Problem::MoreOnLine { found: quoted(&format!(" {rest}")) };
                Err(ParseError { line: self.line, column: self.column - 1, problem })
            }
        }
    }

    /// The word taken last is not one that could stand there.
    pub(super) fn unexpected(&self, found: &str, expected: &'static str) -> ParseError {
        self.problem(Problem::Word { found: quoted(found), expected })
    }

    /// A problem with the word taken last.
    pub(super) fn problem(&self, problem: Problem) -> ParseError {
        ParseError { line: self.line, column: self.word_column, problem }
    }
}

/// A piece of the text, short enough to repeat and without control characters.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    for (position, character) in text.chars().enumerate() {
        if position == MAX_QUOTED {
            quoted.push_str("...");
            break;
        }
        if character.is_control() {
            quoted.extend(character.escape_default());
        } else {
            quoted.push(character);
        }
    }
    quoted
}

/// A number in plain decimal: digits, no leading zero.
fn parse_number<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

/// A number with a letter before it.
pub(super) fn parse_id(text: &str, prefix: char) -> Option<u32> {
    parse_number(text.strip_prefix(prefix)?)
}
