//! Which numbers keys take, where their types allow more: editors mark the others.
//!
//! Only rules that hold whatever the rest of the file says. `resident_units` is not here, since a run below ZeRO-3 takes no notice of it.

use serde_json::{Value, json};

/// The numbers that a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Numbers {
    AtLeastOne,
    NotNegative,
    Positive,
    /// At least 0 and below 1.
    BelowOne,
    /// From the first to the second, both included.
    Between(f64, f64),
    /// At most this one, of whole numbers.
    AtMost(u64),
    Above(f64),
}

use Numbers::{Above, AtLeastOne, AtMost, BelowOne, Between, NotNegative, Positive};

/// Milliseconds of an hour: no part of a step takes longer.
const MS: Numbers = Between(0.0, 3_600_000.0);

/// By path. Of a list, each element.
pub(crate) const NUMBERS: &[(&str, Numbers)] = &[
    ("train_batch_size", AtLeastOne),
    ("train_micro_batch_size_per_gpu", AtLeastOne),
    ("gradient_accumulation_steps", AtLeastOne),
    ("gradient_clipping", NotNegative),
    ("steps", AtLeastOne),
    ("threads", Between(1.0, 4096.0)),
    ("memory", AtLeastOne),
    ("model.num_layers", AtLeastOne),
    ("model.seq_length", AtLeastOne),
    ("model.hidden_size", AtLeastOne),
    ("model.num_attention_heads", AtLeastOne),
    ("model.vocab_size", AtLeastOne),
    ("model.init_std", Positive),
    ("model.dropout", BelowOne),
    ("model.ffn_hidden_size", AtLeastOne),
    ("model.num_query_groups", AtLeastOne),
    ("model.kv_channels", AtLeastOne),
    ("model.norm_epsilon", Positive),
    ("model.rotary_base", Above(1.0)),
    ("model.parameters_per_layer", AtLeastOne),
    ("model.activation_elements", AtLeastOne),
    ("model.forward_ms", MS),
    ("model.backward_input_ms", MS),
    ("model.backward_weight_ms", MS),
    ("model.recompute_ms", MS),
    ("model.rope_scaling.factor", AtLeastOne),
    ("model.rope_scaling.original_max_position_embeddings", AtLeastOne),
    ("model.rope_scaling.low_freq_factor", Positive),
    ("model.rope_scaling.high_freq_factor", Positive),
    ("model.rope_scaling.attention_factor", Positive),
    ("model.rope_scaling.beta_fast", Positive),
    ("model.rope_scaling.beta_slow", Positive),
    ("data.validation", Between(0.0, 0.5)),
    ("data.seq_lengths", AtLeastOne),
    ("evaluation.batches", AtLeastOne),
    ("parallel.pipeline", AtLeastOne),
    ("parallel.data", AtLeastOne),
    ("parallel.virtual_stages", AtLeastOne),
    ("parallel.group_size", AtLeastOne),
    ("parallel.partition", AtLeastOne),
    ("zero_optimization.stage", AtMost(3)),
    ("zero_optimization.vocabulary_slices", AtLeastOne),
    ("optimizer.params.lr", NotNegative),
    ("optimizer.params.betas", BelowOne),
    ("optimizer.params.eps", Positive),
    ("optimizer.params.weight_decay", NotNegative),
    ("optimizer.params.momentum", BelowOne),
    ("scheduler.params.warmup_min_lr", NotNegative),
    ("scheduler.params.warmup_max_lr", NotNegative),
    ("scheduler.params.total_num_steps", AtLeastOne),
    ("scheduler.params.warmup_min_ratio", Between(0.0, 1.0)),
    ("scheduler.params.cos_min_ratio", Between(0.0, 1.0)),
    ("comm.port", Between(1.0, 65_535.0)),
    ("comm.ranks_per_node", AtLeastOne),
    ("comm.timeout_s", Positive),
    ("comm.links.ranks_per_node", AtLeastOne),
    ("comm.links.near.latency_us", NotNegative),
    ("comm.links.near.gb_per_s", Between(1e-9, 1e9)),
    ("comm.links.far.latency_us", NotNegative),
    ("comm.links.far.gb_per_s", Between(1e-9, 1e9)),
    ("fp16.loss_scale", NotNegative),
    ("fp16.initial_scale_power", AtMost(127)),
    ("fp16.loss_scale_window", AtLeastOne),
    ("fp16.hysteresis", AtLeastOne),
    ("fp16.min_loss_scale", Positive),
    ("activation_checkpointing.every_layers", AtLeastOne),
    ("checkpoint.minutes", Between(0.0, 52_596_000.0)),
    ("checkpoint.keep", AtLeastOne),
];

/// Narrows the numbers of the schema of the key at `path`.
pub(super) fn narrow(path: &str, schema: &mut Value) {
    let narrower = NUMBERS.iter().find(|(key, _)| *key == path);
    if let Some((_, numbers)) = narrower {
        numbers.narrow(schema);
    }
}

impl Numbers {
    /// Where the schema allows several types, or a list, the numbers among them.
    fn narrow(self, schema: &mut Value) {
        if schema["type"] == "integer" || schema["type"] == "number" {
            for (word, bound) in self.bounds() {
                schema[word] = bound;
            }
        }
        if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
            choices.iter_mut().for_each(|choice| self.narrow(choice));
        }
        if let Some(items) = schema.get_mut("items") {
            self.narrow(items);
        }
    }

    /// As words of JSON Schema.
    fn bounds(self) -> Vec<(&'static str, Value)> {
        match self {
            AtLeastOne => vec![("minimum", json!(1))],
            NotNegative => vec![("minimum", json!(0))],
            Positive => vec![("exclusiveMinimum", json!(0))],
            BelowOne => vec![("minimum", json!(0)), ("exclusiveMaximum", json!(1))],
            Between(first, last) => vec![("minimum", json!(first)), ("maximum", json!(last))],
            AtMost(last) => vec![("maximum", json!(last))],
            Above(below) => vec![("exclusiveMinimum", json!(below))],
        }
    }
}
