use expect_test::expect;
use pipezero_models::{ModelConfig, RopeScaling};

use super::{ModelType, PublishedModel, SpecialTokens};
use crate::hugging_face::HuggingFaceError;

const GPT2: &str =
    r#"{"model_type": "gpt2", "vocab_size": 37, "n_positions": 16, "n_embd": 12, "n_layer": 2, "n_head": 3}"#;

const LLAMA: &str = r#"{"model_type": "llama", "vocab_size": 37, "hidden_size": 24, "intermediate_size": 28,
    "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 64}"#;

fn parse(text: &str) -> Result<PublishedModel, HuggingFaceError> {
    PublishedModel::parse("config.json", text)
}

/// The text with a field more.
fn with(text: &str, field: &str) -> String {
    text.replacen('{', &format!("{{{field}, "), 1)
}

fn rope(field: &str) -> RopeScaling {
    match parse(&with(LLAMA, field)).unwrap().model {
        ModelConfig::Llama(llama) => llama.rope_scaling,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_changes_the_model_is_refused_by_name() {
    let cases = [
        (GPT2, r#""activation_function": "relu""#),
        (GPT2, r#""layer_norm_epsilon": 1e-6"#),
        (GPT2, r#""n_inner": 40"#),
        (GPT2, r#""scale_attn_by_inverse_layer_idx": true"#),
        (GPT2, r#""add_cross_attention": true"#),
        (GPT2, r#""hidden_size": 12"#),
        (LLAMA, r#""hidden_act": "gelu""#),
        (LLAMA, r#""attention_dropout": 0.1"#),
        (LLAMA, r#""head_dim": 7"#),
        (LLAMA, r#""num_key_value_heads": 2"#),
        (LLAMA, r#""num_key_value_heads": 0"#),
        (LLAMA, r#""sliding_window": 0"#),
        (LLAMA, r#""layer_types": ["full_attention", "sliding_attention"]"#),
        (LLAMA, r#""rope_interleaved": true"#),
        (LLAMA, r#""pruned_heads": {"0": [1]}"#),
        (LLAMA, r#""rms_norm_eps": "small""#),
        (LLAMA, r#""tie_word_embeddings": 1"#),
        (LLAMA, r#""rope_scaling": {"type": "su", "factor": 2}"#),
        (LLAMA, r#""rope_scaling": {"type": "linear"}"#),
        (LLAMA, r#""rope_scaling": {"type": "linear", "factor": 2, "speed": 3}"#),
        (LLAMA, r#""rope_scaling": 4"#),
        (LLAMA, r#""rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_theta": 10}"#),
        (LLAMA, r#""auto_map": {"AutoModel": "code.Model"}"#),
        (LLAMA, r#""rms_norm_eps": 1e-50"#),
        (LLAMA, r#""partial_rotary_factor": 0.5"#),
        (LLAMA, r#""quantization_config": {"bits": 4}"#),
        (LLAMA, r#""eos_token_id": "</s>""#),
        (LLAMA, r#""eos_token_id": [1, true]"#),
        (LLAMA, r#""pad_token_id": 1.5"#),
        (LLAMA, r#""mlp_bais": true"#),
        (LLAMA, r#""num_local_experts": 8"#),
    ];
    let said = |text: String| match parse(&text) {
        Ok(model) => format!("{model:?}\n"),
        Err(error) => format!("{error}\n"),
    };
    let mut all: String = cases.iter().map(|(text, field)| said(with(text, field))).collect();
    all += &said(GPT2.replace("\"n_layer\": 2", "\"n_layer\": 1000000000000"));
    // Everything at once, in the order of the file.
    all += &said(with(
        LLAMA,
        r#""one": 1, "hidden_act": "gelu", "rope_scaling": {"rope_type": "llama3", "two": 2}, "mlp_bias": 3"#,
    ));
    for text in ["", "[]", "{}", "{\"model_type\": \"bert\"}", "{\"model_type\": \"llama\"}"] {
        all += &said(text.to_owned());
    }
    expect![[r#"
        config.json:1:25: `activation_function` is the string "relu": only "gelu_new" is offered
        config.json:1:24: `layer_norm_epsilon` is 1e-6: only 0.00001 is offered
        config.json:1:13: `n_inner` is 40: only four times `n_embd` is offered, or null
        config.json:1:37: `scale_attn_by_inverse_layer_idx` is true: only false is offered
        config.json:1:25: `add_cross_attention` is true: only false is offered
        config.json:1:2: `hidden_size` is not known, and may change what the model computes; remove it if it has no part in training
        config.json:1:16: `hidden_act` is the string "gelu": only "silu" is offered
        config.json:1:23: `attention_dropout` is 0.1: only 0 is offered
        config.json:1:14: `head_dim` is 7: it must be even: rotary embeddings turn pairs of elements
        config.json:1:25: `num_key_value_heads` is 2: it must divide `num_attention_heads`, which is 3
        config.json:1:25: `num_key_value_heads` is 0: it must be a whole number of at least 1
        config.json:1:20: `sliding_window` is 0: it must be a whole number of at least 1
        config.json:1:17: `layer_types` is a list: only layers of "full_attention" are offered
        config.json:1:22: `rope_interleaved` is true: only false is offered
        config.json:1:18: `pruned_heads` is an object: layers that lack heads are not offered
        config.json:1:18: `rms_norm_eps` is the string "small": it must be a number
        config.json:1:25: `tie_word_embeddings` is 1: it must be true or false
        config.json:1:27: `rope_scaling.type` is the string "su": it must be one of default, linear, dynamic, llama3, yarn
        config.json:1:18: `rope_scaling.factor` is missing: angles are scaled by it
        config.json:1:50: `rope_scaling.speed` is not known, and may change what the model computes; remove it if it has no part in training
        config.json:1:18: `rope_scaling` is 4, and must be an object
        config.json:1:18: `rope_scaling` is an object: it stands beside `rope_parameters`: keep one of the two, with `rope_theta` in it
        config.json:1:14: `auto_map` is an object: the folder brings code of its own, which is not run
        config.json:1:1: norm_epsilon = 0.00000000000000000000000000000000000000000000000001: must be a positive, finite number, such as 1e-5
        config.json:1:27: `partial_rotary_factor` is 0.5: only 1 is offered
        config.json:1:25: `quantization_config` is an object: weights that are quantised are not read: use the unquantised model
        config.json:1:18: `eos_token_id` is the string "</s>": it must be the number of a token, or a list of such
        config.json:1:18: `eos_token_id` is a list: it must be the number of a token, or a list of such
        config.json:1:18: `pad_token_id` is 1.5: it must be the number of a token, or a list of such
        config.json:1:2: `mlp_bais` is not known, and may change what the model computes; did you mean `mlp_bias`?
        config.json:1:2: `num_local_experts` is not known, and may change what the model computes; remove it if it has no part in training
        config.json:1:1: 1000000000000 layers: at most 131072 are offered
        config.json:1:2: `one` is not known, and may change what the model computes; remove it if it has no part in training
        config.json:1:26: `hidden_act` is the string "gelu": only "silu" is offered
        config.json:1:50: `rope_scaling.factor` is missing: angles are scaled by it
        config.json:1:50: `rope_scaling.low_freq_factor` is missing: angles are scaled by it
        config.json:1:50: `rope_scaling.high_freq_factor` is missing: angles are scaled by it
        config.json:1:97: `mlp_bias` is 3: it must be true or false
        config.json:1:1: the file is empty; it must hold one JSON object
        config.json:1:1: it is a list, and must be an object
        config.json:1:1: `model_type` is missing: it must be one of gpt2, llama, mistral, qwen2, qwen3
        config.json:1:16: `model_type` is the string "bert": it must be one of gpt2, llama, mistral, qwen2, qwen3
        config.json:1:1: `hidden_size` is missing: it is a size of the model
        config.json:1:1: `num_attention_heads` is missing: it is a size of the model
        config.json:1:1: `num_hidden_layers` is missing: it is a size of the model
        config.json:1:1: `vocab_size` is missing: it is a size of the model
        config.json:1:1: `intermediate_size` is missing: it is a size of the model
    "#]].assert_eq(&all);
}

/// The first Llamas were published without it.
#[test]
fn the_longest_sequence_is_that_of_the_types_code_where_the_field_is_missing() {
    let longest = |model_type: &str| {
        let text = LLAMA.replace("\"llama\"", &format!("\"{model_type}\", \"num_key_value_heads\": 3"));
        parse(&text.replace(", \"max_position_embeddings\": 64", "")).unwrap().model.seq_length()
    };
    assert_eq!(["llama", "mistral", "qwen2", "qwen3"].map(longest), [2048, 131_072, 32_768, 32_768]);
}

#[test]
fn a_field_that_is_missing_makes_no_other_unknown() {
    let more =
        r#""rms_norm_eps": 1e-5, "tie_word_embeddings": true, "initializer_range": 0.1, "mlp_bias": false"#;
    let error = parse(&with(&LLAMA.replace("\"vocab_size\": 37, ", ""), more)).unwrap_err();
    assert_eq!(error.to_string(), "config.json:1:1: `vocab_size` is missing: it is a size of the model");
}

/// What it drops is then the run file's to say.
#[test]
fn shares_that_are_not_equal_are_told() {
    let told =
        |fields: &str| parse(&with(GPT2, fields)).unwrap().unequal_dropouts.map(|fault| fault.to_string());
    assert_eq!(told(r#""attn_pdrop": 0.2, "resid_pdrop": 0.2, "embd_pdrop": 0.2"#), None);
    let said = "config.json:1:36: `resid_pdrop` is 0.1, but `attn_pdrop` 0.2: one share is offered for all three, which `model.dropout` says; write \
                `model.dropout` into the run file, or make them equal";
    assert_eq!(told(r#""attn_pdrop": 0.2, "resid_pdrop": 0.1"#).as_deref(), Some(said));
    assert!(told(r#""attn_pdrop": 0.1, "embd_pdrop": 0"#).unwrap().contains("`embd_pdrop` is 0, "));
}

#[test]
fn fields_without_part_in_training_are_read_over() {
    let more = r#""torch_dtype": "bfloat16", "use_cache": true, "architectures": ["X"], "eos_token_id": [1, 2], "bos_token_id": null,
        "_num_labels": 1, "num_labels": 2, "output_past": true, "predict_special_tokens": true, "use_bfloat16": true, "auto_map": {},
        "pruned_heads": {}, "unsloth_fixed": true, "unsloth_version": "2025.1", "transformers.js_config": {"dtype": "q4"}, "_name_or_path": "x",
        "transformers_version": "4.40.0", "pretraining_tp": 1, "rope_scaling": null, "head_dim": null"#;
    assert_eq!(parse(&with(LLAMA, more)).unwrap(), parse(LLAMA).unwrap());
}

#[test]
fn a_window_is_told_where_it_hides_tokens_of_the_longest_sequence() {
    let window = |text: &str| parse(text).unwrap().window;
    let [mistral, qwen2] = ["mistral", "qwen2"].map(|name| {
        let text = LLAMA.replace("llama", name).replace("64", "8192");
        with(&text, r#""num_key_value_heads": 3"#)
    });
    // Without the field the code of the type takes 4096.
    assert_eq!(window(&mistral), Some(4096));
    assert_eq!(window(&mistral.replace("8192", "4096")), None);
    assert_eq!(window(&with(&mistral, r#""sliding_window": null"#)), None);
    assert_eq!(window(&with(&mistral, r#""sliding_window": 16"#)), Some(16));
    assert_eq!(window(&with(&mistral, r#""sliding_window": 8192"#)), None);
    assert_eq!(window(&with(&qwen2, r#""sliding_window": 16"#)), None);
    let used = with(&qwen2, r#""sliding_window": 16, "use_sliding_window": true"#);
    assert_eq!(window(&used), Some(16));
    let types = r#""layer_types": ["full_attention", "sliding_attention"]"#;
    assert_eq!(window(&with(&used, types)), Some(16));
    assert_eq!(window(&with(LLAMA, r#""sliding_window": 16"#)), Some(16));
}

#[test]
fn a_type_of_model_has_its_codes_defaults() {
    let of = |model_type: &str| {
        let text = LLAMA
            .replace("llama", model_type)
            .replace("\"num_attention_heads\": 3", "\"num_attention_heads\": 32");
        match parse(&text.replace("24", "64")).unwrap().model {
            ModelConfig::Llama(llama) => {
                (llama.num_query_groups, llama.kv_channels, llama.add_qkv_bias, llama.qk_layernorm)
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of("llama"), (32, 2, false, false));
    let null = with(&LLAMA.replace("llama", "qwen3"), r#""num_key_value_heads": null, "head_dim": null"#);
    let ModelConfig::Llama(null) = parse(&null).unwrap().model else { panic!("it is a Qwen3") };
    assert_eq!((null.num_query_groups, null.kv_channels), (3, 8));
    assert_eq!(of("mistral"), (8, 2, false, false));
    assert_eq!(of("qwen2"), (32, 2, true, false));
    assert_eq!(of("qwen3"), (32, 128, false, true));
}

#[test]
fn angles_are_read_under_old_and_new_names() {
    let yarn = r#"{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0, "mscale_all_dim": 1.0}"#;
    let RopeScaling::Yarn(yarn) = rope(&format!("\"rope_scaling\": {yarn}")) else { panic!("it is YaRN") };
    assert_eq!((yarn.attention_factor, yarn.beta_fast, yarn.beta_slow), (1.0, 32.0, 1.0));
    let linear = RopeScaling::Linear { factor: 2.0 };
    assert_eq!(rope(r#""rope_scaling": {"type": "linear", "factor": 2}"#), linear);
    assert_eq!(rope(r#""rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2}"#), linear);
    assert_eq!(rope(r#""rope_parameters": {"rope_type": "linear", "factor": 2, "rope_theta": 7}"#), linear);
    let dynamic = RopeScaling::Dynamic { factor: 2.0, original_max_position_embeddings: 64 };
    assert_eq!(rope(r#""rope_scaling": {"rope_type": "dynamic", "factor": 2}"#), dynamic);
}

#[test]
fn a_model_is_written_as_the_type_that_computes_it() {
    let types = [("gpt2", GPT2), ("llama", LLAMA)];
    for (_, text) in types {
        let model = parse(text).unwrap();
        let again = PublishedModel::of(&model.model).unwrap();
        assert_eq!(parse(&again.config_json(SpecialTokens::default())).unwrap(), model);
    }
    let ModelConfig::Llama(plain) = parse(LLAMA).unwrap().model else { panic!("it is a Llama") };
    let of = |change: &dyn Fn(&mut pipezero_models::LlamaConfig)| {
        let mut llama = plain.clone();
        change(&mut llama);
        PublishedModel::of(&ModelConfig::Llama(llama))
            .map(|model| model.model_type)
            .map_err(|error| error.to_string())
    };
    assert_eq!(of(&|_| {}), Ok(ModelType::Llama));
    assert_eq!(of(&|llama| llama.add_qkv_bias = true), Ok(ModelType::Qwen2));
    assert_eq!(of(&|llama| llama.qk_layernorm = true), Ok(ModelType::Qwen3));
    // transformers' Llama refuses heads that do not divide the width.
    assert_eq!(of(&|llama| llama.gpt.hidden_size = 25), Ok(ModelType::Mistral));
    let refused = of(&|llama| llama.add_proj_bias = true).unwrap_err();
    assert_eq!(
        refused,
        "biases of some linear maps alone: transformers has no such model; it can only be exported as pipezero's own weights"
    );
}
