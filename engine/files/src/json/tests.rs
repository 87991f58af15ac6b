//! Mistakes are reported with key, value, rule and repair, at their place.

use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::*;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Outer {
    #[serde(rename = "list")]
    _list: Vec<Inner>,
    #[serde(rename = "is_on")]
    _is_on: Option<bool>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    #[serde(rename = "count")]
    _count: u64,
    #[serde(rename = "kind")]
    _kind: Kind,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    One,
    Two,
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    Source::file("a.json", text).read()
}

fn parsed(text: &str) -> Result<Node, JsonError> {
    parse_first(&Source::file("a.json", text))
}

/// The message about a text that is not a `T`, with its place.
#[track_caller]
fn refusal<T: DeserializeOwned>(text: &str) -> String {
    match read::<T>(text) {
        Ok(_) => panic!("{text} was read"),
        Err(error) => format!("{} {error}", error.span),
    }
}

#[track_caller]
fn says<T: DeserializeOwned>(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(refusal::<T>(text), format!("a.json:{expected}"), "{text}");
    }
}

#[test]
fn a_mistake_is_reported_by_key_value_and_rule_where_it_stands() {
    read::<Outer>(r#"{"list": [{"count": 1, "kind": "one"}, {"count": 2, "kind": "two"}]}"#).unwrap();
    let whole = "a whole number from 0 to 18446744073709551615";
    for value in ["-1", "-0", "1.5", "8.0", "8e0", "null", "true", "18446744073709551616", "1e300"] {
        let text = format!("{{\n \"list\": [{{\"count\": {value}, \"kind\": \"one\"}}]}}");
        let expected = format!("a.json:2:21 `list[0].count` must be {whole}, but is {value}");
        assert_eq!(refusal::<Outer>(&text), expected);
    }
    says::<Outer>(&[
        (
            "{\"list\": [{\"count\": \"1\"}]}",
            &format!("1:21 `list[0].count` must be {whole}, but is the string \"1\""),
        ),
        (
            "{\"list\": [{\"count\": 1e400}]}",
            "1:21 `list[0].count` is 1e400, but numbers must lie between -1.8e308 and 1.8e308; write one nearer to 0",
        ),
        ("{\"list\": [{\"count\": [[1]]}]}", &format!("1:21 `list[0].count` must be {whole}, but is a list")),
        ("{\"list\": {}}", "1:10 `list` must be a list, but is an object"),
        ("{\"list\": [3]}", "1:11 `list[0]` must be an object, but is 3"),
        ("7", "1:1 the file must be an object, but is 7"),
        ("{\"list\": [], \"is_on\": 1}", "1:23 `is_on` must be true or false, but is 1"),
        (
            "{\"list\": [{\"kind\": \"three\"}]}",
            "1:20 `list[0].kind` must be `one` or `two`, but is the string \"three\"",
        ),
        ("{\"list\": [{\"count\": 1}]}", "1:11 `list[0].kind` is missing; add it"),
        ("{}", "1:1 `list` is missing; add it"),
        ("{\"list\": [{\"cuont\": 1}]}", "1:12 `list[0].cuont` is an unknown key; did you mean `count`?"),
        (
            "{\"list\": [{\"size\": 1}]}",
            "1:12 `list[0].size` is an unknown key; remove it, or write `count` or `kind`",
        ),
        (
            "{\"é\": 0, \"list\": [], \"list\": []}",
            "1:22 `list` stands twice, first at 1:10; keep one of the two",
        ),
    ]);
}

/// Wherever the struct stands: in a list, in what may be left out, in the file itself.
#[test]
fn a_list_is_no_object() {
    says::<Outer>(&[
        ("[[], true]", "1:1 the file must be an object, but is a list"),
        ("{\"list\": [[]]}", "1:11 `list[0]` must be an object, but is a list"),
        ("{\"list\": [\n [2, \"one\"]]}", "2:2 `list[0]` must be an object, but is a list"),
    ]);
    says::<Forms>(&[(
        "{\"form\": \"name\", \"next\": [\"name\"]}",
        "1:26 `next` must be an object, but is a list",
    )]);
}

/// All of them at once, from top to bottom, each with its whole path.
#[test]
fn every_key_that_stands_twice_is_reported() {
    let text = "{\"a\": [1, {\"b\": 1, \"b\": {\"c\": 1, \"c\": 2}}],\n \"d\": 1, \"d\": 2, \"d\": 3}";
    let errors = parse(&Source::file("a.json", text)).unwrap_err();
    let found: Vec<String> =
        errors.iter().map(|error| format!("{} {}", error.span, error.message())).collect();
    assert_eq!(
        found,
        [
            "a.json:1:20 `a[1].b` stands twice, first at 1:12",
            "a.json:1:34 `a[1].b.c` stands twice, first at 1:26",
            "a.json:2:10 `d` stands twice, first at 2:2",
            "a.json:2:18 `d` stands twice, first at 2:2",
        ]
    );
}

#[test]
fn a_text_that_is_not_json_is_refused_where_it_ceases_to_be() {
    let ends = "the text ends before its";
    for (text, place, rule) in [
        ("", "1:1", "the file is empty; it must hold one JSON object"),
        (" \n ", "2:2", "the file is empty; it must hold one JSON object"),
        ("{\n  \"a\": {\n    \"b\": 1", "2:8", &format!("this object is never closed: {ends} `}}`")),
        ("{\"a\": [1, 2", "1:7", &format!("this list is never closed: {ends} `]`")),
        ("{\"a\": \"1", "1:7", &format!("this string is never closed: {ends} `\"`")),
        ("{\"a\": ", "1:1", &format!("this object is never closed: {ends} `}}`")),
        ("{\"a\": }", "1:7", "this is not JSON: a value belongs here, but `}` stands there"),
        ("{\"a\": NaN}", "1:7", "JSON knows no `NaN`; write a number"),
        ("[nul]", "1:2", "this is not JSON: a value belongs here, but `nul` stands there"),
        ("[\u{a0}1]", "1:2", "this is not JSON: a value belongs here, but the character U+00A0 stands there"),
        ("[1,,2]", "1:4", "this is not JSON: a value belongs here, but `,` stands there"),
        ("['a']", "1:2", "strings and keys of JSON are in double quotes; write `\"` in place of `'`"),
        ("[+1]", "1:2", "this is not JSON: a value belongs here, but `+` stands there"),
        ("[.5]", "1:2", "this is not JSON: a value belongs here, but `.` stands there"),
        ("[-]", "1:3", "this is not JSON: a digit belongs here, but `]` stands there"),
        ("[-Infinity]", "1:3", "this is not JSON: a digit belongs here, but `Infinity` stands there"),
        ("[5.]", "1:4", "this is not JSON: a digit belongs here, but `]` stands there"),
        ("[1e+]", "1:5", "this is not JSON: a digit belongs here, but `]` stands there"),
        ("[01]", "1:3", "a number of JSON has no leading zeros; remove them"),
        (
            "[0xff]",
            "1:3",
            "a number of JSON has digits, a point and an exponent alone, as in 1000000, 0.5 or 5e8",
        ),
        (
            "[1_000]",
            "1:3",
            "a number of JSON has digits, a point and an exponent alone, as in 1000000, 0.5 or 5e8",
        ),
        (
            "{\"a\": 64K}",
            "1:9",
            "a number of JSON has digits, a point and an exponent alone, as in 1000000, 0.5 or 5e8",
        ),
        ("[1 [2]]", "1:4", "this is not JSON: `,` or `]` belongs here, but `[` stands there"),
        ("{\"a\": 1 \"b\": 2}", "1:9", "this is not JSON: `,` or `}` belongs here, but `\"` stands there"),
        ("{\"a\": 1,}", "1:8", "a comma behind the last part is not JSON; remove it"),
        ("[1,\n]", "1:3", "a comma behind the last part is not JSON; remove it"),
        ("{a: 1}", "1:2", "a key of JSON is in quotes; write `\"a\"`"),
        ("{\"a\" 1}", "1:6", "this is not JSON: `:` belongs here, but `1` stands there"),
        ("{} {}", "1:4", "this is not JSON: the end of the file belongs here, but `{` stands there"),
        ("{} // a", "1:4", "comments are not JSON; remove it"),
        ("[1 /* a */]", "1:4", "comments are not JSON; remove it"),
        ("# a\n{}", "1:1", "comments are not JSON; remove it"),
        ("[\"a\u{1}\"]", "1:4", "a string holds the control character U+0001; escape it"),
        (
            "[\"a\n\"]",
            "1:4",
            "a string must end on the line where it begins; close it, or write the line end as `\\n`",
        ),
        ("[1\n2]", "2:1", "this is not JSON: `,` or `]` belongs here, but `2` stands there"),
        ("[-\n1]", "1:3", "this is not JSON: a digit belongs here, but the line ends"),
        ("[\"\\x41\"]", "1:3", "no such escape in a string; for a backslash write `\\\\`"),
        ("[\"\\#\"]", "1:3", "no such escape in a string; for a backslash write `\\\\`"),
        ("[\"\\é\"]", "1:3", "no such escape in a string; for a backslash write `\\\\`"),
        (
            "[\"\\u12é4\"]",
            "1:3",
            "`\\u` needs four hexadecimal digits, and both halves of a surrogate pair must be there",
        ),
        (
            "[\"\\u+123\"]",
            "1:3",
            "`\\u` needs four hexadecimal digits, and both halves of a surrogate pair must be there",
        ),
        (
            "[\"\\ud83d\\u0041\"]",
            "1:9",
            "`\\u` needs four hexadecimal digits, and both halves of a surrogate pair must be there",
        ),
        (
            "[\"\\udc00\"]",
            "1:3",
            "`\\u` needs four hexadecimal digits, and both halves of a surrogate pair must be there",
        ),
    ] {
        let error = parsed(text).unwrap_err();
        assert_eq!(format!("{} {error}", error.span), format!("a.json:{place} {rule}"), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text}");
    }
}

#[test]
fn escapes_stand_for_characters() {
    let text = r#""\\\/\" \b\f\n\r\t \u0041\u00e9\ud83d\ude00\uFFFF é""#;
    let expected = "\\/\" \u{8}\u{c}\n\r\t Aé\u{1f600}\u{ffff} é";
    assert_eq!(read::<String>(text).unwrap(), expected);
}

/// Lists and objects at most 128 deep, and no recursion without end beyond.
#[test]
fn what_is_nested_too_deeply_is_refused() {
    let deep = |num: usize| "[".repeat(num) + &"]".repeat(num);
    parsed(&deep(128)).unwrap();
    for text in [deep(129), deep(1_000_000), "[".repeat(1_000_000)] {
        let error = parsed(&text).unwrap_err();
        assert_eq!(
            format!("{} {error}", error.span),
            "a.json:1:129 lists and objects are more than 128 deep within each other"
        );
    }
}

#[test]
fn control_characters_are_replaced_in_messages() {
    for text in ["{\"\\u001b[31m\u{9b}x\": 1}", "[\u{9b}]", "{\"list\": [{\"kind\": \"\\u001b[31m\"}]}"] {
        let found = refusal::<Outer>(text);
        assert!(!found.chars().any(char::is_control), "{found:?}");
    }
}

#[test]
fn values_are_found_by_path() {
    let root = parsed("{\n  \"a\": [1, {\"b\": 2,\n    \"c\": 3}]\n}").unwrap();
    for (path, place) in [
        ("", Some((1, 1))),
        ("a", Some((2, 8))),
        ("a[0]", Some((2, 9))),
        ("a[1].b", Some((2, 18))),
        ("a[1].c", Some((3, 10))),
        ("a[2]", None),
        ("a.b", None),
        ("x", None),
    ] {
        assert_eq!(root.find(path).map(|node| node.span.line_column()), place, "{path}");
    }
}

#[test]
fn the_mark_of_some_editors_is_no_text() {
    let error = parsed("\u{feff}[,]").unwrap_err();
    assert_eq!(error.span.line_column(), (1, 2));
    assert!(parsed("\u{feff}\u{feff}[]").is_err());
}

/// Every form that a variant can have.
#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Name,
    Number(u64),
    Pair(u64, u64),
    Keys { a: u64, b: u64 },
}

#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Forms {
    form: Form,
    #[serde(default)]
    next: Option<Box<Forms>>,
}

#[test]
fn each_type_has_one_form() {
    let form = |text: &str| read::<Forms>(&format!("{{\"form\": {text}}}")).unwrap().form;
    assert_eq!(form("\"name\""), Form::Name);
    assert_eq!(form("{\"number\": 1}"), Form::Number(1));
    assert_eq!(form("{\"pair\": [1, 2]}"), Form::Pair(1, 2));
    assert_eq!(form("{\"keys\": {\"b\": 2, \"a\": 1}}"), Form::Keys { a: 1, b: 2 });
    let nested = read::<Forms>("{\"form\": \"name\", \"next\": {\"form\": \"name\"}}").unwrap();
    assert_eq!(nested.next.unwrap().form, Form::Name);
    let names = "`name`, `number`, `pair` or `keys`";
    let whole = "a whole number from 0 to 18446744073709551615";
    for (text, column, rule) in [
        ("[\"name\"]", 10, "`form` must be a name, or an object of one key, but is a list"),
        ("7", 10, "`form` must be a name, or an object of one key, but is 7"),
        ("{}", 10, &format!("`form` is an object, but has no key: it needs one of {names}")),
        ("\"nome\"", 10, &format!("`form` must be {names}, but is the string \"nome\"")),
        (
            "{\"number\": 1, \"name\": 1}",
            24,
            "`form.name` is a second key, and only one belongs here; keep one of the two",
        ),
        ("{\"nomber\": 1}", 11, "`form.nomber` is an unknown key; did you mean `number`?"),
        (
            "{\"name\": null}",
            19,
            "`form.name` is null, but the name alone belongs here; write it in place of the object",
        ),
        ("\"number\"", 10, "`form` must be an object with this as its one key, but is the string \"number\""),
        ("{\"number\": \"a\"}", 21, &format!("`form.number` must be {whole}, but is the string \"a\"")),
        ("{\"keys\": [1, 2]}", 19, "`form.keys` must be an object, but is a list"),
        ("{\"keys\": {\"a\": 1}}", 19, "`form.keys.b` is missing; add it"),
        ("{\"pair\": {\"a\": 1}}", 19, "`form.pair` must be a list, but is an object"),
        ("{\"pair\": [1]}", 19, "`form.pair` is a list, but has 1 elements and needs more"),
        ("{\"pair\": [1, 2, 3]}", 19, "`form.pair` is a list, but has more than 2 elements"),
        ("{\"pair\": [1, -2]}", 23, &format!("`form.pair[1]` must be {whole}, but is -2")),
    ] {
        let text = format!("{{\"form\": {text}}}");
        assert_eq!(refusal::<Forms>(&text), format!("a.json:1:{column} {rule}"), "{text}");
    }
}

/// Any value, as a tree that `serde_json` also reads.
fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        ".{0,8}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec((".{0,4}", inner), 0..6)
                .prop_map(|entries| serde_json::Value::Object(serde_json::Map::from_iter(entries))),
        ]
    })
}

proptest! {
    /// Against `serde_json`: what it writes is read as what it was, and what it refuses is refused.
    #[test]
    fn json_is_read_as_serde_json_reads_it(tree in tree(), at in any::<prop::sample::Index>(), byte in 0_u8..128) {
        for text in [tree.to_string(), serde_json::to_string_pretty(&tree).unwrap()] {
            let found = read::<serde_json::Value>(&text);
            prop_assert_eq!(found.as_ref().ok(), Some(&tree), "{}", text);
            let mut bytes = text.into_bytes();
            let index = at.index(bytes.len());
            bytes[index] = byte;
            let Ok(text) = String::from_utf8(bytes) else { return Ok(()) };
            let is_json = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            // `serde_json` keeps the last of two equal keys.
            let is_doubled = parse(&Source::file("a.json", &text)).is_err_and(|errors| errors[0].path.is_some());
            let is_read = read::<serde_json::Value>(&text).is_ok();
            prop_assert_eq!(is_read || is_doubled, is_json, "{}", text);
        }
    }
}
