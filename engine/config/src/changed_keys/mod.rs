//! Keys of a resumed run whose value differs from that of the run which wrote its checkpoint, and what that means.

mod table;
#[cfg(test)]
mod tests;

use std::fmt::{Display, Formatter};

use serde_json::Value;

use table::TABLE;

/// A key whose value differs.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedKey {
    /// Its path, as `--set` takes it; `ranks`, `loss` and `teacher` are said by a task of a master file.
    pub key: &'static str,
    /// The consequence for the resumed run.
    pub effect: Effect,
    /// The value of the run that wrote the checkpoint; `None` if it had none.
    pub before: Option<Value>,
    /// The value of the resumed run; `None` if it has none.
    pub now: Option<Value>,
}

/// The consequence of a changed key for a resumed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The training is the same, except for rounding.
    None,
    /// The training differs; the text says how, as half a sentence.
    Learned(&'static str),
    /// The training differs if the learning rate of any step does.
    Rate,
    /// The same, but only together with a changed key whose path begins so.
    RateThrough(&'static str),
    /// The training differs if the training data does; the text says how.
    Data(&'static str),
    /// The training differs if the contents of a file do.
    Content {
        /// The place of their checksum in a resolved run.
        checksum_at: &'static str,
        /// How the training differs, as half a sentence.
        how: &'static str,
    },
}

/// A key of the run file.
struct Row {
    /// Its path.
    key: &'static str,
    /// The place of its value in a resolved run, as JSON: keys joined by dots, `*` for the only entry of an object, a key with `?` for one that may be missing in the
    /// path. Empty for a key without a value of its own.
    at: &'static str,
    /// How the value there is read.
    value: ValueOf,
    effect: Effect,
}

/// How a value of a resolved run is read.
#[derive(Clone, Copy)]
enum ValueOf {
    /// All of it.
    Whole,
    /// The name of the variant: a word, or the key of an object with one entry.
    Variant,
    /// Whether the variant has this name.
    IsVariant(&'static str),
    /// This many times the number, or the seconds.
    Times(f64),
    /// A loss scale that does not change; 0 for one that does, as the run file has it.
    StaticScale,
    /// The logarithm to the base 2 of the first of changing loss scales.
    FirstScalePower,
}

impl ChangedKey {
    /// The keys in which two resolved runs differ, as JSON, in the order of the table. A file whose contents alone differ is among them.
    pub fn between(before: &Value, now: &Value) -> Vec<Self> {
        let changed = |row: &Row| {
            let (old, new) = (row.value_in(before), row.value_in(now));
            let (is_learned, effect) = match row.effect {
                Effect::Content { checksum_at, how } => {
                    let names_none = [&old, &new].iter().all(|value| value.as_ref().is_none_or(is_empty));
                    // A checkpoint of an earlier version has no checksum.
                    let checksums = found_at(before, checksum_at).zip(found_at(now, checksum_at));
                    let is_other = !names_none && checksums.is_some_and(|(before, now)| before != now);
                    (is_other, if is_other { Effect::Learned(how) } else { Effect::None })
                }
                effect => (false, effect),
            };
            (is_learned || old != new).then(|| Self { key: row.key, effect, before: old, now: new })
        };
        TABLE.iter().filter_map(changed).collect()
    }
}

impl Display for ChangedKey {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        let written = |value: &Option<Value>| value.as_ref().map_or("(not set)".to_owned(), Value::to_string);
        match self.before == self.now {
            true => write!(f, "{} {}", self.key, written(&self.now)),
            false => write!(f, "{} {} -> {}", self.key, written(&self.before), written(&self.now)),
        }
    }
}

impl Row {
    fn value_in(&self, run: &Value) -> Option<Value> {
        let found = found_at(run, self.at)?;
        let is_dynamic = || found["is_dynamic"].as_bool();
        let scale = || found["initial_scale"].as_f64();
        match self.value {
            ValueOf::Whole => Some(in_seconds(found)),
            ValueOf::Variant => variant(found).map(Value::from),
            ValueOf::IsVariant(name) => variant(found).map(|found| Value::from(found == name)),
            ValueOf::Times(factor) => in_seconds(found).as_f64().map(|number| whole(number * factor)),
            ValueOf::StaticScale => Some(if is_dynamic()? { Value::from(0) } else { whole(scale()?) }),
            ValueOf::FirstScalePower => is_dynamic()?.then(scale).flatten().map(|scale| whole(scale.log2())),
        }
    }
}

/// The value at a place of a run; `None` for null.
fn found_at<'a>(run: &'a Value, at: &str) -> Option<&'a Value> {
    let mut found = run;
    for key in at.split('.') {
        found = match (key, key.strip_suffix('?')) {
            ("*", _) => only_entry(found)?.1,
            (_, Some(key)) => found.get(key).unwrap_or(found),
            (key, None) => found.get(key)?,
        };
    }
    (!found.is_null()).then_some(found)
}

/// Whether a key that names files names none.
fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

fn only_entry(value: &Value) -> Option<(&String, &Value)> {
    value.as_object().filter(|entries| entries.len() == 1)?.iter().next()
}

fn variant(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| only_entry(value).map(|(name, _)| name.as_str()))
}

/// A duration as its seconds; any other value as it is.
fn in_seconds(value: &Value) -> Value {
    let parts = value["secs"].as_u64().zip(value["nanos"].as_u64());
    parts.map_or_else(|| value.clone(), |(secs, nanos)| whole(secs as f64 + nanos as f64 / 1e9))
}

/// A number, without a fraction of zero, to 12 digits: more than a unit other than the run file's would keep exactly.
fn whole(number: f64) -> Value {
    let rounded: f64 = format!("{number:.11e}").parse().unwrap_or(number);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        Value::from(rounded as i64)
    } else {
        Value::from(rounded)
    }
}
