//! What a run file says otherwise than the one with which a run was last started.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use serde_json::Value;

/// A key whose value differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedKey {
    /// Its path, as `--set` takes it.
    pub key: String,
    /// What it was; `None` if it was not in the file.
    pub before: Option<Value>,
    /// What it is; `None` if it is not in the file.
    pub now: Option<Value>,
}

impl ChangedKey {
    /// The keys that two run files say differently, in alphabetical order; lists are compared as a whole.
    pub(super) fn between(before: &Value, now: &Value) -> Vec<Self> {
        let (mut before, now) = (leaves(before), leaves(now));
        let mut changed = Vec::new();
        for (key, now) in now {
            let before = before.remove(&key);
            if before != Some(now) {
                changed.push(Self { key, before: before.cloned(), now: Some(now.clone()) });
            }
        }
        changed.extend(before.into_iter().map(|(key, before)| Self {
            key,
            before: Some(before.clone()),
            now: None,
        }));
        changed.sort_by(|one, other| one.key.cmp(&other.key));
        changed
    }
}

impl Display for ChangedKey {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        let written = |value: &Option<Value>| value.as_ref().map_or("(not set)".to_owned(), Value::to_string);
        write!(f, "{} {} -> {}", self.key, written(&self.before), written(&self.now))
    }
}

fn leaves(file: &Value) -> BTreeMap<String, &Value> {
    let mut leaves = BTreeMap::new();
    let mut open = vec![(String::new(), file)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                let dot = if path.is_empty() { "" } else { "." };
                open.extend(entries.iter().map(|(key, value)| (format!("{path}{dot}{key}"), value)));
            }
            leaf => {
                leaves.insert(path, leaf);
            }
        }
    }
    leaves
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_were_changed_added_and_removed() {
        let before = json!({"steps": 3, "seed": 1, "parallel": {"data": 2, "pipeline": 2}, "text": ["a"]});
        let now = json!({"steps": 5, "parallel": {"data": 2, "pipeline": 4}, "text": ["a", "b"], "zero": {"stage": 3}});
        let changed: Vec<String> =
            ChangedKey::between(&before, &now).iter().map(ChangedKey::to_string).collect();
        let expected = [
            "parallel.pipeline 2 -> 4",
            "seed 1 -> (not set)",
            "steps 3 -> 5",
            r#"text ["a"] -> ["a","b"]"#,
            "zero.stage (not set) -> 3",
        ];
        assert_eq!(changed, expected);
        assert_eq!(ChangedKey::between(&now, &now), []);
    }
}
