//! Second names of DeepSpeed's keys: what stands below one is read as if it stood below the usual key.

use super::error::Problem;
use super::findings::{Findings, Site};
use super::place::Place;
use crate::files::json::{Entry, Node, Source, Value, join};

/// A section, the second name of a key in it, and its usual one.
struct Alias {
    section: &'static [&'static str],
    name: &'static str,
    usual: &'static str,
}

/// `bfloat16` is read where there is no `bf16` (`runtime/config.py`); ZeRO's fields are known by their own names as by their aliases
/// (`populate_by_name`, `runtime/config_utils.py`).
const ALIASES: [Alias; 3] = [
    Alias { section: &[], name: "bfloat16", usual: "bf16" },
    Alias {
        section: &["zero_optimization"],
        name: "param_persistence_threshold",
        usual: "stage3_param_persistence_threshold",
    },
    Alias {
        section: &["zero_optimization"],
        name: "model_persistence_threshold",
        usual: "stage3_model_persistence_threshold",
    },
];

/// DeepSpeed's first form of `zero_optimization`, a switch: on is ZeRO-1 (`runtime/zero/config.py:read_zero_config_deprecated`).
fn switch_of_zero(entries: &mut [Entry], findings: &Findings) {
    let Some(index) = entries.iter().position(|entry| entry.key == "zero_optimization") else { return };
    let entry = &mut entries[index];
    let Value::Bool(is_on) = entry.node.value else { return };
    let place = Place { path: entry.key.clone(), span: entry.node.span.clone() };
    let level = if is_on { "1" } else { "0" };
    let site = Site { place, findings: findings.clone() };
    site.hint(format!("read as {{\"stage\": {level}}}, the usual form"));
    let stage = Source::file("zero_optimization", level);
    let stage = Node { value: Value::Number, span: stage.span(0, 1) };
    let entry_of_stage = Entry { key: "stage".to_owned(), key_span: entry.key_span.clone(), node: stage };
    entry.node.value = Value::Object(vec![entry_of_stage]);
}

/// The interval of recomputation that DeepSpeed's pipeline engine takes from its section (`runtime/pipe/engine.py:223`); 0 is none.
fn checkpoint_interval(root: &mut Node, findings: &Findings) {
    const NAME: &str = "activation_checkpoint_interval";
    let Some(entries) = section_mut(root, &["pipeline"]) else { return };
    let Some(index) = entries.iter().position(|entry| entry.key == NAME) else { return };
    let is_on = entries[index].node.number().is_some_and(|text| text.parse::<f64>().is_ok_and(|n| n > 0.0));
    if !is_on {
        return;
    }
    let interval = entries.remove(index);
    let place = Place { path: join("pipeline", NAME), span: interval.key_span.clone() };
    let site = Site { place, findings: findings.clone() };
    let Value::Object(top) = &mut root.value else { return };
    let name = "activation_checkpointing";
    if !top.iter().any(|entry| entry.key == name) {
        let node = Node { value: Value::Object(Vec::new()), span: interval.key_span.clone() };
        top.push(Entry { key: name.to_owned(), key_span: interval.key_span.clone(), node });
    }
    let Some(entries) = section_mut(root, &[name]) else { return };
    match entries.iter().find(|entry| entry.key == "every_layers") {
        Some(usual) if !is_same(&usual.node, &interval.node) => site.error::<()>(Problem::Rule {
            value: interval.node.describe(),
            rule: format!("`{name}.every_layers` says the same, and is another value"),
            repair: format!("keep `{name}.every_layers` alone"),
        }),
        usual => {
            site.hint(format!("read as `{name}.every_layers`, the usual name of this key"));
            if usual.is_none() {
                entries.push(Entry { key: "every_layers".to_owned(), ..interval });
            }
            None
        }
    };
}

/// The file with usual names alone. Each other name gets a hint; two names of one key with different values are an error.
pub(super) fn with_usual_names(root: &Node, findings: &Findings) -> Node {
    let mut root = root.clone();
    if let Value::Object(entries) = &mut root.value {
        switch_of_zero(entries, findings);
    }
    checkpoint_interval(&mut root, findings);
    for Alias { section, name, usual } in &ALIASES {
        let path = section.join(".");
        let Some(entries) = section_mut(&mut root, section) else { continue };
        let Some(index) = entries.iter().position(|entry| entry.key == *name) else { continue };
        let second = &entries[index];
        let place = Place { path: join(&path, name), span: second.key_span.clone() };
        let site = Site { place, findings: findings.clone() };
        match entries.iter().find(|entry| entry.key == *usual) {
            Some(first) if !is_same(&first.node, &second.node) => {
                let (line, column) = first.key_span.line_column();
                site.error::<()>(Problem::Rule {
                    value: second.node.describe(),
                    rule: format!(
                        "it is a second name of `{usual}`, which is another value at {line}:{column}"
                    ),
                    repair: format!("keep `{usual}` alone"),
                });
                entries.remove(index);
            }
            first => {
                site.hint(format!("read as `{usual}`, the usual name of this key"));
                match first {
                    Some(_) => drop(entries.remove(index)),
                    None => entries[index].key = (*usual).to_owned(),
                }
            }
        }
    }
    root
}

fn section_mut<'a>(root: &'a mut Node, section: &[&str]) -> Option<&'a mut Vec<Entry>> {
    let mut node = root;
    for name in section {
        let Value::Object(entries) = &mut node.value else { return None };
        node = &mut entries.iter_mut().find(|entry| entry.key == *name)?.node;
    }
    match &mut node.value {
        Value::Object(entries) => Some(entries),
        _ => None,
    }
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
