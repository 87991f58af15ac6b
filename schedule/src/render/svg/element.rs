//! The few elements of SVG that a picture is made of. Positions are hundredths of a pixel.

use alloc::format;
use alloc::string::String;
use core::fmt::{Display, Write as _};

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

/// A rectangle or path with its attributes.
pub(super) struct Shape {
    name: &'static str,
    attributes: String,
}

impl Shape {
    /// A shape without attributes.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, attributes: String::new() }
    }

    /// With one attribute more, whose value holds no markup.
    pub(super) fn with(mut self, attribute: &str, value: impl Display) -> Self {
        write!(self.attributes, " {attribute}=\"{value}\"").expect("a string takes any text");
        self
    }

    /// With its left and upper edge, width and height.
    pub(super) fn at(self, area: [u64; 4]) -> Self {
        let [x, y, width, height] = area.map(hundredths);
        self.with("x", x).with("y", y).with("width", width).with("height", height)
    }

    /// Its element.
    pub(super) fn element(&self) -> String {
        format!("<{}{}/>\n", self.name, self.attributes)
    }

    /// Its element, with a title that viewers show and read aloud.
    pub(super) fn titled(&self, title: &str) -> String {
        let Self { name, attributes } = self;
        format!("<{name}{attributes}><title>{}</title></{name}>\n", escaped(title))
    }
}

/// A rectangle: its left and upper edge, width and height.
pub(super) fn rectangle(area: [u64; 4], class: &str) -> String {
    Shape::new("rect").with("class", class).at(area).element()
}
