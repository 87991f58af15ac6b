//! A valid run file, and the host that it is for: what tests here and in other crates change a key of.

use crate::{HostGpu, Notice, NoticeKind, Resources};

/// A host of 8 cores on which the engine starts its own ranks.
pub const RESOURCES: Resources =
    Resources { cores: 8, memory_bytes: None, gpu: HostGpu::Absent, ranks: None, part: None };

/// A valid file, one key per line: `model` is line 2, `data` 3, `train_batch_size` 4, `steps` 5.
pub(crate) const BASE: &[(&str, &str)] = &[
    (
        "model",
        r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16}"#,
    ),
    ("data", r#"{"text": "a.md"}"#),
    ("train_batch_size", "8"),
    ("steps", "10"),
];

/// The notices but for those on defaults, which nearly every file has.
pub fn beside_defaults(notices: &[Notice]) -> impl Iterator<Item = &Notice> {
    notices.iter().filter(|notice| notice.kind() != NoticeKind::Default)
}

/// The valid file with some keys at the top level replaced or added; an empty value leaves a key out.
pub fn file(changes: &[(&str, &str)]) -> String {
    let mut keys = BASE.to_vec();
    for &(key, value) in changes {
        match keys.iter_mut().find(|(name, _)| *name == key) {
            Some(entry) => entry.1 = value,
            None => keys.push((key, value)),
        }
    }
    let written = keys.iter().filter(|(_, value)| !value.is_empty());
    let lines: Vec<String> = written.map(|(key, value)| format!("  \"{key}\": {value}")).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}
