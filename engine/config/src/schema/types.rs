//! Keys that belong to one type of a section: the moments of AdamW, the momentum of SGD.

use serde_json::{Value, json};

/// The types of the section at `path`, each as a schema that lacks the keys of the others; `None` where a section has all of its keys in any case.
pub(super) fn of_section(path: &str) -> Option<Value> {
    let without =
        |keys: &[&str]| -> Value { keys.iter().map(|key| ((*key).to_owned(), json!(false))).collect() };
    let of_type = |name: &str, foreign: &[&str]| {
        let params = without(foreign);
        json!({ "properties": { "type": { "const": name }, "params": { "properties": params } } })
    };
    Some(match path {
        "optimizer" => {
            // AdamW is the default.
            let adamw = of_type("AdamW", &["momentum"]);
            let mut others = [of_type("Adam", &["momentum"]), of_type("SGD", &["betas", "eps"])];
            for other in &mut others {
                other["required"] = json!(["type"]);
                other["properties"]["params"]["properties"]["adam_w_mode"] =
                    json!({ "enum": [true, null, "auto"] });
            }
            let [adam, sgd] = others;
            json!([adamw, adam, sgd])
        }
        "scheduler" => json!([
            of_type("WarmupLR", &["total_num_steps", "warmup_min_ratio", "cos_min_ratio"]),
            of_type("WarmupDecayLR", &["warmup_min_ratio", "cos_min_ratio"]),
            of_type("WarmupCosineLR", &["warmup_min_lr", "warmup_max_lr"])
        ]),
        "parallel" => json!([
            { "properties": { "schedule": { "const": "interleaved" } }, "required": ["schedule"] },
            { "properties": { "group_size": false } }
        ]),
        _ => return None,
    })
}

/// Keys that a section needs where it is written, whatever their defaults are where it is not.
pub(super) fn needed(path: &str) -> &'static [&'static str] {
    if path == "scheduler" { &["type"] } else { &[] }
}
