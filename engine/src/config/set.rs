//! `--set key.path=value`: one key of the run file from the command line.

use std::sync::Arc;

use super::error::{ConfigError, Problem};
use super::source::{Entry, Node, Source, SourceKind, Span, Value, parse_from};

/// Parts of a key at most: more than any key has, and few enough to go down by recursion.
const MAX_KEYS: usize = 16;

/// Applies one argument to the file. The value is read as JSON and, where it is not JSON, as a string.
pub(crate) fn apply(root: &mut Node, argument: &str) -> Result<(), Box<ConfigError>> {
    let source =
        Arc::new(Source { name: "--set".to_owned(), text: argument.to_owned(), kind: SourceKind::Argument });
    let span = |start, end| Span { source: Arc::clone(&source), start, end };
    let Some((path, text)) = argument.split_once('=') else {
        let message = "it has no value: write --set key.path=value".to_owned();
        return Err(Box::new(ConfigError::new(span(0, argument.len()), "", Problem::Syntax { message })));
    };
    let keys: Vec<&str> = path.split('.').collect();
    if keys.iter().any(|key| key.is_empty()) {
        let message = "a part of its key is empty: write --set key.path=value".to_owned();
        return Err(Box::new(ConfigError::new(span(0, argument.len()), "", Problem::Syntax { message })));
    }
    if keys.len() > MAX_KEYS {
        let message =
            format!("its key has {} parts; no key of a run file has more than {MAX_KEYS}", keys.len());
        return Err(Box::new(ConfigError::new(span(0, argument.len()), "", Problem::Syntax { message })));
    }
    let value_start = path.len() + 1;
    let value = parse_from(&source, value_start).unwrap_or_else(|_| Node {
        value: Value::String(text.to_owned()),
        span: span(value_start, argument.len()),
    });
    insert(root, &keys, 0, span(0, path.len()), value)
}

/// Puts `value` below `keys[depth..]` of `section`, which stands at `keys[..depth]`.
fn insert(
    section: &mut Node,
    keys: &[&str],
    depth: usize,
    key_span: Span,
    value: Node,
) -> Result<(), Box<ConfigError>> {
    let found = section.describe();
    let Value::Object(entries) = &mut section.value else {
        let problem = Problem::Rule {
            value: found,
            rule: "only a section has keys".to_owned(),
            repair: "set that key itself".to_owned(),
        };
        return Err(Box::new(ConfigError::new(key_span, &keys[..depth].join("."), problem)));
    };
    let key = keys[depth];
    let index = entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
        let node = Node { value: Value::Object(Vec::new()), span: key_span.clone() };
        entries.push(Entry { key: key.to_owned(), key_span: key_span.clone(), node });
        entries.len() - 1
    });
    if depth + 1 < keys.len() {
        return insert(&mut entries[index].node, keys, depth + 1, key_span, value);
    }
    entries[index] = Entry { key: key.to_owned(), key_span, node: value };
    Ok(())
}
