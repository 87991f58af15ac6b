//! The few elements of SVG that a picture is made of. Positions are hundredths of a pixel.

use alloc::format;
use alloc::string::String;

use super::layout::hundredths;

/// Text in which nothing is markup, and nothing that XML forbids (XML 1.0, section 2.2).
pub(super) fn escaped(plain: &str) -> String {
    let mut escaped = String::with_capacity(plain.len());
    for character in plain.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' => escaped.push(' '),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A line of text.
pub(super) fn text(x: u64, y: u64, class: &str, plain: &str) -> String {
    let (x, y, plain) = (hundredths(x), hundredths(y), escaped(plain));
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{plain}</text>\n")
}

/// A rectangle: its left and upper edge, width and height.
pub(super) fn rectangle([x, y, width, height]: [u64; 4], class: &str) -> String {
    let [x, y, width, height] = [x, y, width, height].map(hundredths);
    format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>\n")
}

/// A shape, closed or not, that says what it is.
pub(super) fn titled(shape: &str, title: &str) -> String {
    let name = shape[1..].split(' ').next().unwrap_or_default();
    let open = shape.trim_end().trim_end_matches('>').trim_end_matches('/');
    format!("{open}><title>{}</title></{name}>\n", escaped(title))
}
