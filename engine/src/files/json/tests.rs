//! Mistakes are told by key, value and rule, at their place.

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

#[track_caller]
fn says(text: &str, line: usize, column: usize, message: &str) {
    let error = read::<Outer>(text).unwrap_err();
    assert_eq!((error.message.as_str(), error.place), (message, LineColumn { line, column }), "{text}");
}

#[test]
fn a_mistake_is_told_by_key_value_and_rule_where_it_stands() {
    read::<Outer>(r#"{"list": [{"count": 1, "kind": "one"}, {"count": 2, "kind": "two"}]}"#).unwrap();
    let count = "must be a whole number from 0 to 18446744073709551615";
    for value in ["-1", "1.5", "\"1\"", "null", "true", "18446744073709551616", "1e300"] {
        let text = format!("{{\n \"list\": [{{\"count\": {value}, \"kind\": \"one\"}}]}}");
        says(&text, 2, 21, &format!("`list[0].count` is {value}, but {count}"));
    }
    says(
        "{\"list\": [{\"count\": 1e400}]}",
        1,
        21,
        "`list[0].count` is 1e400, but numbers end at 1.8e308; write a smaller one",
    );
    says("{\"list\": [[]]}", 1, 11, "`list[0]` is a list, but must be an object");
    says("{\"list\": {}}", 1, 10, "`list` is an object, but must be a list");
    says("{\"list\": [3]}", 1, 11, "`list[0]` is 3, but must be an object");
    says("7", 1, 1, "the file is 7, but must be an object");
    says("{\"list\": [], \"is_on\": 1}", 1, 23, "`is_on` is 1, but must be true or false");
    let three = "`list[0].kind` is \"three\", and known are `one`, `two`; write one of these";
    says("{\"list\": [{\"kind\": \"three\"}]}", 1, 20, three);
    says("{\"list\": [{\"count\": 1}]}", 1, 11, "`list[0]` lacks the key `kind`; add it");
    says("{}", 1, 1, "the file lacks the key `list`; add it");
    says(
        "{\"list\": [{\"size\": 1}]}",
        1,
        12,
        "`list[0].size` is no key: there are `count`, `kind`; rename or remove it",
    );
    says("{\"list\": [], \"list\": []}", 1, 14, "`list` stands twice; keep one of the two");
    says("{\"list\": [],}", 1, 13, "this is not JSON: the comma before this has nothing behind it");
    says("", 1, 1, "this is not JSON: the text ends where a value belongs");
}

#[test]
fn what_is_written_cannot_command_a_terminal() {
    let error = read::<Outer>("{\"\\u001b[31m\u{9b}x\": 1}").unwrap_err();
    assert!(!error.message.chars().any(char::is_control), "{error:?}");
}

#[test]
fn places_are_found_by_path() {
    let text = "{\n  \"a\": [1, {\"b\": 2,\n    \"c\": 3}]\n}";
    let places = [("a", 2, 8), ("a[0]", 2, 9), ("a[1].b", 2, 18), ("a[1].c", 3, 10), ("x", 1, 1)];
    for (path, line, column) in places {
        assert_eq!(place_of(text, path), LineColumn { line, column }, "{path}");
    }
}

#[test]
fn the_mark_of_some_editors_is_no_text() {
    assert_eq!(without_mark("\u{feff}{}"), "{}");
    assert_eq!(without_mark("{}"), "{}");
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
    let form = |text: &str| read::<Forms>(&format!("{{\"form\": {text}}}")).map(|found| found.form);
    assert_eq!(form("\"name\""), Ok(Form::Name));
    assert_eq!(form("{\"number\": 1}"), Ok(Form::Number(1)));
    assert_eq!(form("{\"pair\": [1, 2]}"), Ok(Form::Pair(1, 2)));
    assert_eq!(form("{\"keys\": {\"b\": 2, \"a\": 1}}"), Ok(Form::Keys { a: 1, b: 2 }));
    let nested = read::<Forms>("{\"form\": \"name\", \"next\": {\"form\": \"name\"}}").unwrap();
    assert_eq!(nested.next.unwrap().form, Form::Name);
    let names = "`name`, `number`, `pair`, `keys`";
    for (text, column, message) in [
        ("[\"name\"]", 10, "`form` is a list, but must be a name, or an object of one key".to_owned()),
        ("7", 10, "`form` is 7, but must be a name, or an object of one key".to_owned()),
        ("{}", 10, format!("`form` has no key, and it has one of {names}; add one")),
        ("{ }", 10, format!("`form` has no key, and it has one of {names}; add one")),
        (
            "{\"number\": 1, \"name\": 1}",
            24,
            format!("`form.name` is a second key, and there is one of {names}; keep one of the two"),
        ),
        (
            "{\"nomber\": 1}",
            11,
            format!("`form.nomber` is \"nomber\", and known are {names}; write one of these"),
        ),
        (
            "{\"name\": null}",
            11,
            "`form.name` is a key, but the name alone is meant: write \"name\" in place of the object"
                .to_owned(),
        ),
        ("\"number\"", 10, "`form` is \"number\", but must be an object with this as its one key".to_owned()),
        ("{\"keys\": [1, 2]}", 19, "`form.keys` is a list, but must be an object".to_owned()),
        ("{\"pair\": {\"a\": 1}}", 19, "`form.pair` is an object, but must be a list".to_owned()),
    ] {
        let error = form(text).unwrap_err();
        assert_eq!((error.message, error.place), (message, LineColumn { line: 1, column }), "{text}");
    }
}

/// Neither parser recurses without end, and the mistake is told in the file's words all the same.
#[test]
fn what_is_nested_too_deeply_is_told() {
    let deep = |num: usize| "[".repeat(num) + &"]".repeat(num);
    let key = "`form` is a list, but must be a name, or an object of one key";
    assert_eq!(read::<Forms>(&format!("{{\"form\": {}}}", deep(100))).unwrap_err().message, key);
    for num in [1_000, 1_000_000] {
        for text in [deep(num), format!("{{\"form\": {}}}", deep(num)), "[".repeat(num)] {
            let error = read::<Forms>(&text).unwrap_err();
            assert_eq!(error.message, "this cannot be read: maximum nesting depth exceeded");
            assert!(error.place.line == 1 && error.place.column > 500, "{:?}", error.place);
        }
    }
}

/// Wherever the struct stands: in a list, in what may be left out, in the file itself.
#[test]
fn a_list_is_no_object() {
    let count = "`list[0].count` is a list, but must be a whole number from 0 to 18446744073709551615";
    says("{\"list\": [{\"count\": [[1]]}]}", 1, 21, count);
    says("[[], true]", 1, 1, "the file is a list, but must be an object");
    says("{\"list\": [\n [2, \"one\"]]}", 2, 2, "`list[0]` is a list, but must be an object");
    let error = read::<Forms>("{\"form\": \"name\", \"next\": [\"name\"]}").unwrap_err();
    assert_eq!(error.message, "`next` is a list, but must be an object");
}
