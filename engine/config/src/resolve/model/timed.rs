//! `model` of the timed family: what its layers hold and how long they take.

use std::time::Duration;

use crate::raw::RawModel;
use crate::resolved::{PassTimes, TimedConfig};
use crate::section::Field;
use crate::words::FamilyWord::{Gpt2, Llama, Mlp, Timed};

use super::super::rules::LESS_THAN_A_NANOSECOND;
use super::other_families::no_llama_keys;
use super::sizes::{not_of_family, size};

/// The longest time of a layer: an hour is more than any study needs.
const MAX_MS: f64 = 3_600_000.0;

/// `num_layers` and `seq_length` are resolved and reported by the caller.
pub(super) fn resolve(
    raw: &RawModel,
    num_layers: Option<usize>,
    seq_length: Option<usize>,
) -> Option<TimedConfig> {
    let own = [
        not_of_family(&raw.hidden_size, Timed, &[Gpt2, Llama, Mlp]),
        not_of_family(&raw.num_attention_heads, Timed, &[Gpt2, Llama]),
        not_of_family(&raw.vocab_size, Timed, &[Gpt2, Llama, Mlp]),
        not_of_family(&raw.tie_embeddings, Timed, &[Gpt2, Llama, Mlp]),
        not_of_family(&raw.init_std, Timed, &[Gpt2, Llama, Mlp]),
        not_of_family(&raw.dropout, Timed, &[Gpt2]),
        no_llama_keys(raw, Timed),
    ];
    let parameters_per_layer = size(&raw.parameters_per_layer);
    let activation_elements = size(&raw.activation_elements);
    let forward_ms = raw.forward_ms.required("a timed layer takes the time that is written here", "add it");
    let forward = time(&raw.forward_ms, forward_ms);
    let backward_input = time_or(&raw.backward_input_ms, forward_ms);
    let backward_weight = time_or(&raw.backward_weight_ms, forward_ms);
    let recompute = time_or(&raw.recompute_ms, forward_ms);
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
fn time_or(field: &Field<f64>, forward_ms: Option<f64>) -> Option<Duration> {
    if field.is_written() { time(field, field.given()) } else { milliseconds(forward_ms?) }
}

fn time(field: &Field<f64>, ms: Option<f64>) -> Option<Duration> {
    let is_time = |ms| milliseconds(ms).is_some();
    let ms = field.keep(ms, is_time, "it is a time of 0 to 3600000 milliseconds", "use a value such as 1.5");
    let lasts = |ms| ms <= 0.0 || milliseconds(ms).is_some_and(|time| !time.is_zero());
    milliseconds(field.keep(ms, lasts, LESS_THAN_A_NANOSECOND, "use 0, or at least 0.000001")?)
}

fn milliseconds(value: f64) -> Option<Duration> {
    (0.0..=MAX_MS).contains(&value).then(|| Duration::from_secs_f64(value / 1e3))
}
