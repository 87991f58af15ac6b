//! How wide output may be, and whether it may have colours.

use std::env;
use std::io::{IsTerminal, stderr};

use miette::{GraphicalReportHandler, GraphicalTheme};
use terminal_size::{Width, terminal_size};

/// Columns where neither `COLUMNS` nor a terminal says how many there are: in logs and pipes.
const WIDTH: usize = 100;
/// Columns that every output takes: no word of a message is cut.
const WIDTH_MIN: usize = 40;
/// Columns that no output goes beyond: formatting counts them in 16 bits.
const WIDTH_MAX: usize = 10_000;

/// Columns that output may take: `COLUMNS`, else those of the terminal, else 100.
pub(super) fn width() -> usize {
    let of_terminal = || terminal_size().map(|(Width(columns), _)| columns.into());
    at_most(width_of(env::var("COLUMNS").ok().as_deref(), of_terminal))
}

/// These columns, or as many as output may take at most.
pub(super) fn at_most(columns: usize) -> usize {
    columns.min(WIDTH_MAX)
}

fn width_of(columns: Option<&str>, of_terminal: impl Fn() -> Option<usize>) -> usize {
    let asked = columns.and_then(|columns| columns.trim().parse().ok()).filter(|&columns| columns > 0);
    asked.or_else(of_terminal).unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// Whether stderr shows colours: a terminal does, unless `NO_COLOR` is set (no-color.org).
pub(super) fn has_colours() -> bool {
    stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// What draws an error below the line of a file.
pub(super) fn report_handler() -> GraphicalReportHandler {
    let theme = match (stderr().is_terminal(), has_colours()) {
        (false, _) => GraphicalTheme::none(),
        (true, false) => GraphicalTheme::unicode_nocolor(),
        (true, true) => GraphicalTheme::unicode(),
    };
    GraphicalReportHandler::new_themed(theme)
        .with_width(width())
        .with_break_words(false)
        .with_word_separator(textwrap::WordSeparator::AsciiSpace)
        .with_word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// The text with its lines broken between words.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    wrapped_after(text, width, 0)
}

/// A message, as wide as the terminal: what continues its first line is indented.
pub(super) fn fitted(text: &str) -> String {
    wrapped_after(text, width(), 4)
}

/// As [`wrapped`], and what continues a line of the text is indented by so many columns.
pub(super) fn wrapped_after(text: &str, width: usize, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(width)
        .subsequent_indent(&indent)
        .break_words(false)
        // The other algorithm lets a line be too long where that makes the others more even.
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    text.lines().map(|line| textwrap::fill(line, &options)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_from_the_environment_or_the_terminal() {
        let cases = [
            (None, None, 100),
            (None, Some(80), 80),
            (Some("120"), Some(80), 120),
            (Some(" 200 "), None, 200),
            (Some("0"), Some(90), 90),
            (Some("wide"), None, 100),
            (Some("3"), None, 40),
            (Some("1000000"), None, 10_000),
        ];
        for (columns, of_terminal, expected) in cases {
            let found = at_most(width_of(columns, || of_terminal));
            assert_eq!(found, expected, "{columns:?} {of_terminal:?}");
            assert!(format!("{:found$}", "").len() == expected, "formatting takes it");
        }
    }

    #[test]
    fn a_long_line_goes_on_indented() {
        let text = "run.json:3:4: hint: `a`: one two three four five six seven eight";
        let expected = "run.json:3:4: hint: `a`: one two three\n    four five six seven eight";
        assert_eq!(wrapped_after(text, 40, 4), expected);
    }
}
