//! Which documents a file has, against serde_json, which parses all of it at once, and every way in which it has none.

use std::fs;
use std::io::BufReader;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// The form of a file of this name, and its records with their lines, or the mistake.
fn records(name: &str, bytes: &[u8]) -> (Layout, Result<Vec<(u64, String)>, String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    let records = Records::open(&path).unwrap();
    let layout = records.layout().clone();
    let each = records.map(|(line, record)| match record {
        Ok(text) => Ok((line, text)),
        Err(fault) => Err(format!("{line}: {fault}")),
    });
    (layout, each.collect())
}

fn found(name: &str, text: &str) -> (Layout, Vec<(u64, Value)>) {
    let (layout, records) = records(name, text.as_bytes());
    let records = records.unwrap_or_else(|fault| panic!("{text}: {fault}"));
    let parse = |(line, text): (u64, String)| (line, serde_json::from_str(&text).expect("a value"));
    (layout, records.into_iter().map(parse).collect())
}

#[test]
fn the_same_objects_are_found_in_every_form() {
    let [a, b] = [json!({ "a": "[{]}\\\"\u{1f600}" }), json!({ "b": [{ "c": {} }, 1.5, null, true] })];
    let (pretty_a, pretty_b) =
        (serde_json::to_string_pretty(&a).unwrap(), serde_json::to_string_pretty(&b).unwrap());
    for (name, text, layout, lines) in [
        ("a.jsonl", format!("{a}\n{b}\n"), Layout::Lines, [1, 2]),
        ("a.json", format!("{a}\n{b}"), Layout::Lines, [1, 2]),
        ("a.NDJSON", format!("\u{feff}{a}\r\n\r\n{b}\r\n"), Layout::Lines, [1, 3]),
        ("a.json", format!("\u{feff}\n {a} \n\n{b}"), Layout::Lines, [2, 4]),
        ("a.json", format!("[{a},{b}]"), Layout::List, [1, 1]),
        ("a.jsonl", format!("\u{feff}[\n{a},\n\n{b}\n]\n"), Layout::List, [2, 4]),
        ("a.json", format!("\r\n[ {pretty_a} ,\r\n{pretty_b}]\n\n"), Layout::List, [2, 5]),
        ("a.json", format!("{pretty_a}\n{pretty_b}\n"), Layout::Values, [1, 4]),
        ("a.json", format!("\u{feff}{pretty_a}{b}"), Layout::Values, [1, 3]),
        ("a.json", format!("{a} {b}"), Layout::Values, [1, 1]),
    ] {
        let expected = lines.into_iter().zip([a.clone(), b.clone()]).collect::<Vec<_>>();
        assert_eq!(found(name, &text), (layout, expected), "{text}");
    }
    for (name, text, layout) in [
        ("a.json", "", Layout::Lines),
        ("a.json", " \n\n", Layout::Lines),
        ("a.json", "[]", Layout::List),
        ("a.json", " [ \n ] \n", Layout::List),
    ] {
        assert_eq!(found(name, text), (layout, Vec::new()), "{text}");
    }
    let mixed = "[\"a\", 12 ,3,true,null,[1],{},\"b\\\\\"]";
    let values: Vec<Value> = serde_json::from_str(mixed).unwrap();
    assert_eq!(found("a.json", mixed).1.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values);
}

#[test]
fn a_file_of_another_name_is_one_text() {
    for name in ["a.txt", "a", "json", "a.json5"] {
        let text = "{\"a\": 1}\n{\"a\": 2}\n";
        assert_eq!(records(name, text.as_bytes()), (Layout::Whole, Ok(vec![(1, text.to_owned())])));
    }
}

/// A list that is no list, at its line. What is wrong within an entry is for the parser.
#[test]
fn mistakes_between_entries_are_said_at_their_line() {
    for (bytes, expected) in [
        (&b"[{}\n"[..], "2: the file ends, and its list does not: a `]` is missing"),
        (b"[", "1: the file ends, and its list does not"),
        (b"[{},", "1: the file ends, and its list does not"),
        (b"[\n{}\n{}]", "3: `{` stands where a comma or the end of the list must be"),
        (b"[{},,{}]", "1: `,` stands where an entry must be"),
        (b"[{},\n]", "2: `]` stands where an entry must be"),
        (b"[,]", "1: `,` stands where an entry must be"),
        (b"[{}]\n\n{}", "3: `{` stands behind the list"),
        (b"[{}] [{}]", "1: `[` stands behind the list"),
        (b"[\n{\"a\": \"\xff\"}]", "2: it is not UTF-8 text, 7 bytes from here"),
        (b"[\"a\" \xff]", "1: `\u{fffd}` stands where a comma or the end of the list must be"),
    ] {
        let (layout, found) = records("a.json", bytes);
        let fault = found.expect_err("no list");
        assert!(layout == Layout::List && fault.starts_with(expected), "{}: {fault}", bytes.escape_ascii());
    }
}

/// Text that is not JSON at its beginning is a bad line, however it goes on.
#[test]
fn text_before_objects_is_a_line() {
    for text in ["hello\n{\"a\": 1}\n", "\"a\"\n", "12", "}{"] {
        let (layout, found) = records("a.json", text.as_bytes());
        assert_eq!(layout, Layout::Lines);
        assert_eq!(found.unwrap()[0].1, text.lines().next().unwrap());
    }
    // A string that its line does not end spoils that line alone.
    assert_eq!(records("a.json", b"{\"a\": \"b\n{\"a\": 1}\n").1.unwrap().len(), 2);
    // A file that says that it holds lines does so from its first one on.
    assert_eq!(records("a.jsonl", b"{\"a\": 1\n{\"a\": 1}\n").1.unwrap().len(), 2);
}

#[test]
fn text_that_looks_like_json_is_known() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("a.txt", "{\"text\": \"a\"}", true),
        ("b", "\u{feff}\n[\n  {\n \"text\" : 1", true),
        ("c.txt", "{text}", false),
        ("d.txt", "[1] is a footnote", false),
        ("e.txt", "{\"quoted\" text}", false),
        ("f.txt", "", false),
        ("g.json", "{\"text\": \"a\"}", false),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        assert_eq!(begins_as_json(&path), expected, "{name}: {text}");
    }
    assert!(!begins_as_json(&folder.path().join("none")));
}

/// Reads a list with one more entry than fits, from a file that is made while it is read.
#[test]
fn a_record_has_a_largest_length() {
    let too_long = |begin: &'static str, layout: Layout| {
        let body = std::io::repeat(b'a').take(RECORD_BYTES_MAX as u64 + 10);
        let mut from = BufReader::new(std::io::Read::chain(begin.as_bytes(), body));
        read(&mut from, &layout, true).expect_err("too long").fault.to_string()
    };
    use std::io::Read as _;
    assert!(too_long("[\"", Layout::List).contains("longer than 64 MiB"));
    assert!(too_long("{\"", Layout::Values).contains("longer than 64 MiB"));
    assert!(too_long("{\"", Layout::Lines).contains("the line is longer than 64 MiB"));
    assert!(too_long("", Layout::Whole).contains("--separator"));
    let spaces = std::io::repeat(b' ').take(RECORD_BYTES_MAX as u64 + 10);
    let mut from = BufReader::new(spaces);
    assert!(read(&mut from, &Layout::List, true).is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[\\[\\]{},:\"\\\\ \n\ta-cé]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"]{1,3}", inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Cut anywhere, by a buffer of any size, the entries are those that serde_json finds.
    #[test]
    fn entries_are_those_of_the_whole_list(entries in prop::collection::vec(value(), 0..6), pretty: bool, size in 1_usize..20) {
        let list = Value::from(entries.clone());
        let text = if pretty { serde_json::to_string_pretty(&list).unwrap() } else { list.to_string() };
        let mut from = BufReader::with_capacity(size, text.as_bytes());
        prop_assert_eq!(Layout::of_json(&mut BufReader::with_capacity(size, text.as_bytes()), false).unwrap(), Layout::List);
        let (mut found, mut bytes) = (Vec::new(), Vec::new());
        loop {
            let record = read(&mut from, &Layout::List, bytes.is_empty()).unwrap();
            bytes.extend(record.bytes);
            if record.is_last {
                break;
            }
            found.push(serde_json::from_str::<Value>(&record.text).unwrap());
        }
        prop_assert_eq!(found, entries);
        // All but the bracket of its end, from where nothing goes on.
        prop_assert_eq!(bytes.len() + 1, text.len());
    }

    /// No bytes make a panic, and what was read is what there was.
    #[test]
    fn any_bytes_are_read_or_refused(text in "[\\[\\]{},:\"\\\\ \n\ta1é]{0,40}", layout in 0..3) {
        let layout = [Layout::Lines, Layout::Values, Layout::List][layout as usize].clone();
        let mut from = text.as_bytes();
        let mut bytes = Vec::new();
        while let Ok(record) = read(&mut from, &layout, bytes.is_empty()) {
            if record.is_last {
                break;
            }
            bytes.extend(record.bytes);
        }
        prop_assert!(text.as_bytes().starts_with(&bytes));
    }
}
