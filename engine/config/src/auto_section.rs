//! Sections in whose place the word `"auto"` may stand, as the value of one of their keys.

use pipezero_files::json::{Entry, Node, Value};

/// Each section of the top level with the key whose value the word is.
const SECTIONS: [(&str, &str); 1] = [("activation_checkpointing", "enabled")];

/// Whether the word may stand in place of this section.
pub(super) fn is_one(section: &str) -> bool {
    SECTIONS.iter().any(|(name, _)| *name == section)
}

/// Makes the section of the word, if `value` is the word in place of this section.
pub(super) fn expand(section: &str, value: &mut Node) {
    let Some((_, key)) = SECTIONS.iter().find(|(name, _)| *name == section) else { return };
    if matches!(&value.value, Value::String(word) if word == "auto") {
        let entry = Entry { key: (*key).to_owned(), key_span: value.span.clone(), node: value.clone() };
        value.value = Value::Object(vec![entry]);
    }
}
