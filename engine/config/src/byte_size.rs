//! A number of bytes, plain or with a unit: `85899345920`, `"80GiB"`, `"24 GB"`.

use pipezero_files::json::{Node, Value};
use schemars::{Schema, json_schema};

use super::error::Problem;
use super::kind::{self, Kind};
use super::place::Place;

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

/// Units with their bytes: powers of 1000 and of 1024, which differ by 7% at a billion, so both are known.
const UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl Kind for ByteSize {
    fn expected() -> String {
        "a number of bytes or a string such as \"80GiB\"".to_owned()
    }

    fn example() -> String {
        "\"80GiB\"".to_owned()
    }

    fn schema() -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": "^[0-9]+([.][0-9]+)? *(([kKmMgGtT][iI]?)?[bB])?$" }
            ]
        })
    }

    fn read(node: &Node) -> Option<Self> {
        match &node.value {
            Value::Number => u64::read(node).map(Self),
            Value::String(text) => parse(text)?.map(Self),
            _ => None,
        }
    }

    fn fault(node: &Node, place: &Place) -> Option<(Place, Problem)> {
        match &node.value {
            Value::String(text) => {
                let (rule, repair) = match parse(text) {
                    Some(_) => ("sizes end at 2^64 - 1 bytes", "use a smaller one"),
                    None => (
                        "a size is a number and a unit",
                        "write one such as \"80GiB\" (of 1024) or \"80GB\" (of 1000), or bytes as a number",
                    ),
                };
                Some(kind::rule(place, &format!("\"{text}\""), rule, repair))
            }
            _ => u64::fault(node, place),
        }
    }
}

/// Digits with an optional fraction, then a unit in any case. A part of a byte is dropped. The outer `None` means that
/// the text is not a size, the inner one that the size is too large.
pub fn parse(text: &str) -> Option<Option<u64>> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let (_, scale) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    match number.parse::<u64>() {
        Ok(whole) => Some(whole.checked_mul(scale)),
        Err(_) if number.starts_with('.') || number.ends_with('.') => None,
        Err(_) => {
            let bytes = number.parse::<f64>().ok()? * scale as f64;
            Some((bytes < u64::MAX as f64).then_some(bytes as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_powers_of_1000_and_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("24GB", 24_000_000_000),
            ("80GiB", 80 << 30),
            ("80 gib", 80 << 30),
            ("1.5 KiB", 1536),
            ("0.5TB", 500_000_000_000),
            ("2MiB", 2 << 20),
            ("3mb", 3_000_000),
            ("1TiB", 1 << 40),
            ("7kB", 7000),
        ] {
            assert_eq!(parse(text), Some(Some(bytes)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "GiB", "-1", "1.GB", ".5GB", "1..5GB", "80G", "80 Gi B", "8e9", "many"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["18446744073709551615KiB", "18446744073709551616", "19000000000.5GB"] {
            assert_eq!(parse(text), Some(None), "{text}");
        }
    }
}
