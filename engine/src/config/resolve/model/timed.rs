//! `model` of the timed family: what its layers hold and how long they take.

use std::time::Duration;

use crate::config::findings::Findings;
use crate::config::raw::RawModel;
use crate::config::resolved::{PassTimes, TimedConfig};
use crate::config::section::Field;

use super::sizes::{not_of_family, size};

/// The longest time of a layer: an hour is more than any study needs.
const MAX_MS: f64 = 3_600_000.0;

/// `num_layers` and `seq_length` are resolved and reported by the caller.
pub(super) fn resolve(
    raw: &RawModel,
    num_layers: Option<usize>,
    seq_length: Option<usize>,
    findings: &mut Findings,
) -> Option<TimedConfig> {
    let own = [
        not_of_family(&raw.hidden_size, "timed", &["gpt2", "mlp"], findings),
        not_of_family(&raw.num_attention_heads, "timed", &["gpt2"], findings),
        not_of_family(&raw.vocab_size, "timed", &["gpt2", "mlp"], findings),
        not_of_family(&raw.tie_embeddings, "timed", &["gpt2", "mlp"], findings),
        not_of_family(&raw.init_std, "timed", &["gpt2", "mlp"], findings),
        not_of_family(&raw.dropout, "timed", &["gpt2"], findings),
    ];
    let parameters_per_layer = size(&raw.parameters_per_layer, findings);
    let activation_elements = size(&raw.activation_elements, findings);
    let rule = "its layers take the time that they are given";
    let forward_ms = raw.forward_ms.required(findings, rule, "add it");
    let forward = time(&raw.forward_ms, forward_ms, findings);
    let backward_input = time_or(&raw.backward_input_ms, forward_ms, findings);
    let backward_weight = time_or(&raw.backward_weight_ms, forward_ms, findings);
    let recompute = time_or(&raw.recompute_ms, forward_ms, findings);
    if own.contains(&None) {
        return None;
    }
    Some(TimedConfig {
        num_layers: num_layers?,
        seq_length: seq_length?,
        parameters_per_layer: parameters_per_layer?,
        activation_elements: activation_elements?,
        times: PassTimes {
            forward: forward?,
            backward_input: backward_input?,
            backward_weight: backward_weight?,
            recompute: recompute?,
        },
    })
}

/// Half of a backward, like a recomputation, takes as long as the forward, unless its time is given.
fn time_or(field: &Field<f64>, forward_ms: Option<f64>, findings: &mut Findings) -> Option<Duration> {
    if field.is_written() { time(field, field.given(), findings) } else { milliseconds(forward_ms?) }
}

fn time(field: &Field<f64>, value: Option<f64>, findings: &mut Findings) -> Option<Duration> {
    let value = value?;
    let time = milliseconds(value);
    match time {
        None => {
            let rule = "it is a time of 0 to 3600000 milliseconds";
            findings.broken(&field.place, value, rule, "use a value such as 1.5");
        }
        Some(Duration::ZERO) if value > 0.0 => {
            let rule =
                "times are whole nanoseconds, to which it is rounded, and it is nearer to none than to one";
            findings.broken(&field.place, value, rule, "use 0, or at least 0.000001");
        }
        Some(_) => {}
    }
    time
}

fn milliseconds(value: f64) -> Option<Duration> {
    (0.0..=MAX_MS).contains(&value).then(|| Duration::from_secs_f64(value / 1e3))
}
