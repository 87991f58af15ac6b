//! Second names of keys, DeepSpeed's and PyTorch's: what stands below one is read as if it stood below the usual key.

use pipezero_files::json::{Entry, Node, Source, Value, join};

use super::auto_section;
use super::error::Problem;
use super::findings::{Findings, Site};
use super::place::Place;

/// A second name of a key, and its usual one, each in its section.
struct Alias {
    section: &'static str,
    name: &'static str,
    usual_section: &'static str,
    usual: &'static str,
}

/// `bfloat16` is read where there is no `bf16` (`runtime/config.py`); ZeRO's fields are known by their own names as by their aliases
/// (`populate_by_name`, `runtime/config_utils.py`); the pipeline engine takes its interval of recomputation from its own section
/// (`runtime/pipe/engine.py:223`). `allow_tf32` is PyTorch's (`torch.backends.cuda.matmul`).
const ALIASES: [Alias; 5] = [
    Alias { section: "", name: "allow_tf32", usual_section: "", usual: "tf32" },
    Alias { section: "", name: "bfloat16", usual_section: "", usual: "bf16" },
    Alias {
        section: "zero_optimization",
        name: "param_persistence_threshold",
        usual_section: "zero_optimization",
        usual: "stage3_param_persistence_threshold",
    },
    Alias {
        section: "zero_optimization",
        name: "model_persistence_threshold",
        usual_section: "zero_optimization",
        usual: "stage3_model_persistence_threshold",
    },
    Alias {
        section: "pipeline",
        name: CHECKPOINT_INTERVAL,
        usual_section: "activation_checkpointing",
        usual: "every_layers",
    },
];

/// Whether a key of a section is another name of a usual one.
pub(super) fn is_second_name(section: &str, name: &str) -> bool {
    ALIASES.iter().any(|alias| (alias.section, alias.name) == (section, name))
}

/// Its value 0 switches recomputation off, and so says nothing that the usual key does.
const CHECKPOINT_INTERVAL: &str = "activation_checkpoint_interval";

/// DeepSpeed's first form of `zero_optimization`, a switch: on is ZeRO-1 (`runtime/zero/config.py:read_zero_config_deprecated`).
fn switch_of_zero(entries: &mut [Entry], findings: &Findings) {
    let Some(index) = entries.iter().position(|entry| entry.key == "zero_optimization") else { return };
    let entry = &mut entries[index];
    let Value::Bool(is_on) = entry.node.value else { return };
    let place = Place { path: entry.key.clone(), span: entry.node.span.clone() };
    let level = if is_on { "1" } else { "0" };
    let site = Site { place, findings: findings.clone() };
    let usual = format!("{{\"stage\": {level}}}");
    site.read_as(format!("read as {usual}, the usual form"), Some(usual));
    let stage = Source::file("zero_optimization", level);
    let stage = Node { value: Value::Number, span: stage.span(0, 1) };
    let entry_of_stage = Entry { key: "stage".to_owned(), key_span: entry.key_span.clone(), node: stage };
    entry.node.value = Value::Object(vec![entry_of_stage]);
}

/// The file with usual names alone. Each other name gets a hint; two names of one key with different values are an error.
pub(super) fn with_usual_names(root: &Node, findings: &Findings) -> Node {
    let mut root = root.clone();
    if let Value::Object(entries) = &mut root.value {
        switch_of_zero(entries, findings);
        entries.iter_mut().for_each(|entry| auto_section::expand(&entry.key, &mut entry.node));
    }
    for alias in &ALIASES {
        rename(&mut root, alias, findings);
    }
    root
}

fn rename(root: &mut Node, alias: &Alias, findings: &Findings) {
    let Alias { section, name, usual_section, usual } = *alias;
    let Some(entries) = section_mut(root, section) else { return };
    let Some(index) = entries.iter().position(|entry| entry.key == name) else { return };
    if name == CHECKPOINT_INTERVAL && !is_positive(&entries[index].node) {
        return;
    }
    let second = entries.remove(index);
    let place = Place { path: join(section, name), span: second.key_span.clone() };
    let site = Site { place, findings: findings.clone() };
    // Inside its own section a key is named by itself.
    let usual_path = if section == usual_section { usual.to_owned() } else { join(usual_section, usual) };
    let Some(entries) = section_or_new(root, usual_section, &second) else { return };
    match entries.iter().find(|entry| entry.key == usual) {
        Some(first) if !is_same(&first.node, &second.node) => {
            let place = first.key_span.seen_from(&second.key_span);
            site.error::<()>(Problem::Rule {
                value: second.node.describe(),
                rule: format!("it is a second name of `{usual_path}`, which is another value at {place}"),
                repair: format!("keep `{usual_path}` alone"),
            });
        }
        first => {
            let in_place = (first.is_none() && section == usual_section).then(|| format!("\"{usual}\""));
            site.read_as(format!("read as `{usual_path}`, the usual name of this key"), in_place);
            if first.is_none() {
                entries.push(Entry { key: usual.to_owned(), ..second });
            }
        }
    }
}

fn is_positive(node: &Node) -> bool {
    node.number().is_some_and(|text| text.parse::<f64>().is_ok_and(|number| number > 0.0))
}

/// The entries of a section at the top level, or of the file where `name` is empty.
fn section_mut<'a>(root: &'a mut Node, name: &str) -> Option<&'a mut Vec<Entry>> {
    let Value::Object(top) = &mut root.value else { return None };
    if name.is_empty() {
        return Some(top);
    }
    match &mut top.iter_mut().find(|entry| entry.key == name)?.node.value {
        Value::Object(entries) => Some(entries),
        _ => None,
    }
}

/// As [`section_mut`], and where the section is absent, a new one that stands where `entry` does.
fn section_or_new<'a>(root: &'a mut Node, name: &str, entry: &Entry) -> Option<&'a mut Vec<Entry>> {
    if let Value::Object(top) = &mut root.value
        && !name.is_empty()
        && !top.iter().any(|section| section.key == name)
    {
        let key_span = entry.key_span.clone();
        let node = Node { value: Value::Object(Vec::new()), span: key_span.clone() };
        top.push(Entry { key: name.to_owned(), key_span, node });
    }
    section_mut(root, name)
}

/// Whether two values are the same, however they are spelled.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Number, Value::Number) => {
            let number = |node: &Node| node.number().and_then(|text| text.parse::<f64>().ok());
            number(one) == number(other)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let twin = |entry: &Entry| other.iter().find(|twin| twin.key == entry.key);
            one.len() == other.len()
                && one.iter().all(|entry| twin(entry).is_some_and(|twin| is_same(&entry.node, &twin.node)))
        }
        _ => false,
    }
}
