//! A checksum of what a tokenizer.json says, by which two files of the same tokenizer are known as one.
//!
//! Programs write the same tokenizer in other ways: with other spaces, with keys in another order, with a length to cut texts to, which is not used here. A
//! checksum of the file's bytes would tell these apart.

use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

/// Parts that do not say which tokens a text has here.
const WITHOUT_EFFECT: [&str; 2] = ["padding", "truncation"];

/// The checksum of a tokenizer.json.
pub(super) fn content_checksum(file: &Value) -> u64 {
    let mut checksum = Xxh3::new();
    match file {
        Value::Object(parts) => {
            let mut parts: Vec<_> =
                parts.iter().filter(|(key, _)| !WITHOUT_EFFECT.contains(&key.as_str())).collect();
            parts.sort_unstable_by_key(|(key, _)| *key);
            parts.into_iter().for_each(|(key, part)| add_entry(&mut checksum, key, part));
        }
        other => add(&mut checksum, other),
    }
    checksum.digest()
}

/// Adds a value as JSON of one form: no spaces, keys in alphabetical order.
fn add(checksum: &mut Xxh3, value: &Value) {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            checksum.update(b"{");
            entries.into_iter().for_each(|(key, value)| add_entry(checksum, key, value));
            checksum.update(b"}");
        }
        Value::Array(elements) => {
            checksum.update(b"[");
            for element in elements {
                add(checksum, element);
                checksum.update(b",");
            }
            checksum.update(b"]");
        }
        Value::String(text) => add_text(checksum, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => checksum.update(value.to_string().as_bytes()),
    }
}

fn add_entry(checksum: &mut Xxh3, key: &str, value: &Value) {
    add_text(checksum, key);
    checksum.update(b":");
    add(checksum, value);
    checksum.update(b",");
}

/// The length comes first, so that no text looks like two.
fn add_text(checksum: &mut Xxh3, text: &str) {
    checksum.update(&(text.len() as u64).to_le_bytes());
    checksum.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_say_the_same_are_one_tokenizer() {
        let checksum = |text: &str| content_checksum(&serde_json::from_str(text).unwrap());
        let first = checksum(
            r#"{"model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b", "ab"]}, "truncation": null}"#,
        );
        for same in [
            "{\n  \"truncation\": null,\n  \"model\": {\"merges\": [\"a b\", \"ab\"], \"vocab\": {\"b\": 1, \"a\": 0}}\n}",
            r#"{"model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b", "ab"]}, "truncation": {"max_length": 512}, "padding": {}}"#,
            r#"{"model": {"vocab": {"\u0061": 0, "b": 1}, "merges": ["a b", "ab"]}}"#,
        ] {
            assert_eq!(checksum(same), first, "{same}");
        }
        for other in [
            r#"{"model": {"vocab": {"a": 1, "b": 0}, "merges": ["a b", "ab"]}}"#,
            r#"{"model": {"vocab": {"a": 0, "b": 1}, "merges": ["ab", "a b"]}}"#,
            r#"{"model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b,ab"]}}"#,
            r#"{"model": {"vocab": {"a": 0, "b": 1}, "merges": [["a", "b"], "ab"]}}"#,
            r#"{"model": {"vocab": {"a": 0, "b": 1}, "merges": ["a b", "ab"]}, "normalizer": null}"#,
            r#"{"model": {"vocab": {"a": 0, "b": "1"}, "merges": ["a b", "ab"]}}"#,
        ] {
            assert_ne!(checksum(other), first, "{other}");
        }
    }
}
