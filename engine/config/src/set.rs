//! `--set key.path=value`: one key of the run file from the command line.

use pipezero_files::json::{Entry, Node, Source, Span, Value, parse_from, shorten};

use super::auto_section;
use super::error::{ConfigError, Problem};
use super::known_key::is_known;
use super::place::Place;

/// Parts of a key at most: more than any key has, and few enough to go down by recursion.
const MAX_KEYS: usize = 16;

/// Applies one argument to the file. The value is read as JSON and, where it is not JSON, as a string; `null` takes the key
/// away, so that its default holds; where no run file has such a key, that is found later. The first `skipped` bytes of the key lead to the run file.
pub(crate) fn apply(root: &mut Node, argument: &str, skipped: usize) -> Result<(), Box<ConfigError>> {
    let source = Source::argument(argument);
    let span = |start, end| source.span(start, end);
    let Some((path, text)) = argument.split_once('=') else {
        let repair = format!("write --set {}=VALUE", shorten(argument));
        return Err(refused(span(0, argument.len()), "a key without a value".to_owned(), repair));
    };
    let keys: Vec<&str> = path.get(skipped..).unwrap_or_default().split('.').collect();
    if keys.iter().any(|key| key.is_empty()) {
        let repair = "write --set key.path=value".to_owned();
        return Err(refused(span(0, argument.len()), "a part of its key is empty".to_owned(), repair));
    }
    if keys.len() > MAX_KEYS {
        let message = format!("its key has {} parts, of at most {MAX_KEYS}", keys.len());
        let repair = "write a key of docs/run-file.md".to_owned();
        return Err(refused(span(0, argument.len()), message, repair));
    }
    let value_start = path.len() + 1;
    let value = parse_from(&source, value_start).unwrap_or_else(|_| Node {
        value: Value::String(text.to_owned()),
        span: span(value_start, argument.len()),
    });
    insert(root, &keys, 0, span(0, path.len()), value)
}

fn refused(span: Span, message: String, repair: String) -> Box<ConfigError> {
    let place = Place { path: String::new(), span };
    Box::new(ConfigError::new(place, Problem::Syntax { message, repair: Some(repair) }))
}

/// Puts `value` below `keys[depth..]` of `section`, which stands at `keys[..depth]`.
fn insert(
    section: &mut Node,
    keys: &[&str],
    depth: usize,
    key_span: Span,
    value: Node,
) -> Result<(), Box<ConfigError>> {
    let described = section.describe();
    let Value::Object(entries) = &mut section.value else {
        let problem = Problem::Rule {
            value: described,
            rule: "only a section has keys".to_owned(),
            repair: "set that key itself".to_owned(),
        };
        let place = Place { path: keys[..depth].join("."), span: key_span };
        return Err(Box::new(ConfigError::new(place, problem)));
    };
    let key = keys[depth];
    let found = entries.iter().position(|entry| entry.key == key);
    if matches!(value.value, Value::Null) && (found.is_none() || depth + 1 == keys.len()) {
        entries.retain(|entry| entry.key != key);
        // A misspelled key stays, so that it is found as in a file.
        if found.is_none() && !is_known(&keys[..=depth].join(".")) {
            let node = Node { value: Value::Null, span: key_span.clone() };
            entries.push(Entry { key: key.to_owned(), key_span, node });
        }
        return Ok(());
    }
    let index = found.unwrap_or_else(|| {
        let node = Node { value: Value::Object(Vec::new()), span: key_span.clone() };
        entries.push(Entry { key: key.to_owned(), key_span: key_span.clone(), node });
        entries.len() - 1
    });
    if depth + 1 < keys.len() {
        auto_section::expand(&keys[..=depth].join("."), &mut entries[index].node);
        return insert(&mut entries[index].node, keys, depth + 1, key_span, value);
    }
    entries[index] = Entry { key: key.to_owned(), key_span, node: value };
    Ok(())
}
