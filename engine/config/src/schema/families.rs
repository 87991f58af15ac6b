//! What a run needs, and which keys of `model` its family has.

use serde_json::{Map, Value, json};

use crate::section::SectionSpec;

/// The families that read tokens.
const READ_TOKENS: &[&str] = &["gpt2", "llama", "mlp"];

/// Keys and sections of `model` that only some families have.
pub(crate) const OWN: &[(&str, &[&str])] = &[
    ("hidden_size", READ_TOKENS),
    ("num_attention_heads", READ_TOKENS),
    ("vocab_size", READ_TOKENS),
    ("tie_embeddings", READ_TOKENS),
    ("init_std", READ_TOKENS),
    ("dropout", READ_TOKENS),
    ("ffn_hidden_size", &["llama"]),
    ("num_query_groups", &["llama"]),
    ("kv_channels", &["llama"]),
    ("norm_epsilon", &["llama"]),
    ("rotary_base", &["llama"]),
    ("rope_scaling", &["llama"]),
    ("add_qkv_bias", &["llama"]),
    ("add_proj_bias", &["llama"]),
    ("add_mlp_bias", &["llama"]),
    ("qk_layernorm", &["llama"]),
    ("parameters_per_layer", &["timed"]),
    ("activation_elements", &["timed"]),
    ("forward_ms", &["timed"]),
    ("backward_input_ms", &["timed"]),
    ("backward_weight_ms", &["timed"]),
    ("recompute_ms", &["timed"]),
];

/// The families, each with the sizes that it needs besides layers and the length of sequences.
const NEED: [(&str, &[&str]); 4] = [
    ("gpt2", &["hidden_size", "num_attention_heads"]),
    ("llama", &["hidden_size", "num_attention_heads"]),
    ("mlp", &["hidden_size"]),
    ("timed", &["parameters_per_layer", "activation_elements", "forward_ms"]),
];

/// What stands beside `model.from`.
const BESIDE_FROM: [&str; 4] = ["from", "seq_length", "init_std", "dropout"];

/// The forms that a run file has: one for each family, and one for sizes from a folder. `model` says which keys there are.
pub(super) fn forms(model: &SectionSpec) -> Value {
    let families = NEED.iter().map(|(family, needs)| {
        let mut keys = Map::from_iter([
            ("from".to_owned(), json!(false)),
            ("family".to_owned(), json!({ "const": family })),
        ]);
        let foreign = OWN.iter().filter(|(_, families)| !families.contains(family));
        keys.extend(foreign.map(|(key, _)| ((*key).to_owned(), json!(false))));
        if ["llama", "mlp"].contains(family) {
            keys.insert("dropout".to_owned(), json!({ "maximum": 0 }));
        }
        let needed: Vec<&str> =
            ["family", "num_layers", "seq_length"].iter().chain(*needs).copied().collect();
        form(keys, &needed, READ_TOKENS.contains(family))
    });
    let names = model.keys.iter().map(|key| key.name).chain(model.sections.iter().map(|(name, _)| *name));
    let others = names.filter(|name| !BESIDE_FROM.contains(name));
    let from = form(others.map(|name| (name.to_owned(), json!(false))).collect(), &["from"], true);
    json!(families.chain([from]).collect::<Vec<_>>())
}

/// A run file whose model has keys of this form; one that reads tokens needs data.
fn form(keys: Map<String, Value>, needed: &[&str], reads_tokens: bool) -> Value {
    let mut form = json!({
        "properties": { "model": { "properties": keys, "required": needed } },
        "required": ["model"]
    });
    if reads_tokens {
        form["properties"]["data"] = json!({ "anyOf": [
            { "properties": { "tokens": false }, "required": ["text"] },
            { "properties": { "text": false }, "required": ["tokens"] }
        ] });
        form["required"] = json!(["model", "data"]);
    }
    form
}

/// One of the two batch sizes is a number.
pub(super) fn has_batch_size() -> Value {
    let is_number = |key: &str| json!({ "properties": { key: { "type": "integer" } }, "required": [key] });
    json!([is_number("train_batch_size"), is_number("train_micro_batch_size_per_gpu")])
}
