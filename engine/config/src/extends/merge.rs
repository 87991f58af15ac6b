//! Two run files as one: the keys of the later count.

use std::collections::HashMap;

use pipezero_files::json::{Entry, Node, Value, join};

use crate::auto_section;

/// The base with the keys of `later` over it, both objects. The places of sections that both have are those of the later.
pub(super) fn merged(base: Node, later: Node) -> Node {
    over("", Some(base), later)
}

/// `later`, an object that stands at `path`, over what stands there in the base.
fn over(path: &str, base: Option<Node>, later: Node) -> Node {
    let Value::Object(laters) = later.value else { return later };
    let entries = match base.map(|base| base.value) {
        Some(Value::Object(entries)) => entries,
        _ => Vec::new(),
    };
    let places: HashMap<String, usize> =
        entries.iter().enumerate().map(|(place, entry)| (entry.key.clone(), place)).collect();
    let mut merged: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
    for entry in laters {
        match places.get(&entry.key) {
            Some(&place) => merged[place] = entry_over(path, merged[place].take(), entry),
            None => merged.push(entry_over(path, None, entry)),
        }
    }
    Node { value: Value::Object(merged.into_iter().flatten().collect()), span: later.span }
}

/// `null` removes a key of the base. Where the base has no such key it stays, so that a misspelled key is found as in any file. An object changes single keys of an object;
/// all else replaces.
fn entry_over(path: &str, base: Option<Entry>, later: Entry) -> Option<Entry> {
    match &later.node.value {
        Value::Null if base.is_some() => None,
        Value::Object(_) => {
            let path = join(path, &later.key);
            let mut base = base.map(|entry| entry.node);
            base.iter_mut().for_each(|base| auto_section::expand(&path, base));
            Some(Entry { node: over(&path, base, later.node), ..later })
        }
        _ => Some(later),
    }
}
