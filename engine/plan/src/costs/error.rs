//! Why a step cannot be predicted: most often because a costs file says nothing of it.

use std::fmt;

use super::message_kind::MessageKind;
use super::unit_key::in_words;

/// Why a plan's step cannot be predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// The file was measured on another model, or another run of it.
    #[error(
        "the costs are of another {}: {}; measure this one with `pipezero profile`, or leave `--costs` out",
        what_is_another(differences),
        differences.iter().map(Difference::to_string).collect::<Vec<_>>().join(", ")
    )]
    AnotherWorkload {
        /// All that differs.
        differences: Vec<Difference>,
    },
    /// The file has no such unit, nor units that it consists of.
    #[error(
        "the costs file has no unit of {} with {parameters} parameters, nor units to compose it of (it has {}): \
         measure a run whose units are as large or smaller (`zero_optimization.unit_layers`)",
        in_words(layers),
        known.join("; ")
    )]
    NoUnit {
        /// Its layers by kind.
        layers: Vec<String>,
        /// Its parameters.
        parameters: u64,
        /// The layers of the file's units, with their parameters.
        known: Vec<String>,
    },
    /// The file has the unit, but the run that it was measured on did not do this with it.
    #[error(
        "the costs file has no `{key}` of the unit of {}: measure this run with `pipezero profile`",
        in_words(layers)
    )]
    NotMeasured {
        /// Its layers by kind.
        layers: Vec<String>,
        /// The key that is not there.
        key: &'static str,
    },
    /// The file has no such message, nor one that could stand for it.
    #[error(
        "the costs file has no message like `{kind}` between {ranks} ranks: measure a run on a grid with such messages, \
         with `pipezero profile`"
    )]
    NoMessage {
        /// The kind.
        kind: MessageKind,
        /// Ranks that take part.
        ranks: u64,
    },
    /// Ranks that differ cannot be played one by one.
    #[error("{0}")]
    Cluster(#[from] pipezero_schedule::simulate::cluster::ClusterError),
    /// The simulator does not take the costs: they add up to more than a step can last.
    #[error("{0} (times are nanoseconds, and give 584 years)")]
    Costs(#[from] pipezero_schedule::simulate::CostsError),
}

/// What to call the other workload by.
fn what_is_another(differences: &[Difference]) -> &'static str {
    if differences.iter().all(|difference| difference.key == "device") { "device" } else { "model" }
}

/// One thing that differs between a costs file and a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The file's key.
    pub key: String,
    /// What was measured.
    pub measured: String,
    /// What the run has.
    pub run: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {} there and {} in the run", self.key, self.measured, self.run)
    }
}

/// All that differs between two values of the same form, by the keys that they have as JSON.
pub(super) fn differences(measured: &serde_json::Value, run: &serde_json::Value) -> Vec<Difference> {
    let mut found = Vec::new();
    collect("", measured, run, &mut found);
    found
}

fn collect(path: &str, measured: &serde_json::Value, run: &serde_json::Value, found: &mut Vec<Difference>) {
    use serde_json::Value::Object;
    match (measured, run) {
        (Object(a), Object(b)) if a.keys().eq(b.keys()) => {
            for (key, value) in a {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(&path, value, &b[key], found);
            }
        }
        _ if measured == run => {}
        _ => found.push(Difference { key: path.to_owned(), measured: short(measured), run: short(run) }),
    }
}

/// A value, or of a family the name.
fn short(value: &serde_json::Value) -> String {
    match value.as_object().and_then(|object| object.keys().next()) {
        Some(family) => format!("\"{family}\""),
        None => value.to_string(),
    }
}
