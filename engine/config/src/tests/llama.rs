//! The Llama family, and sizes that a folder of transformers says.

use expect_test::expect;
use pipezero_models::ModelConfig;

use super::{check_each, check_values, file, run};
use crate::resolved::{LlamaConfig, RopeScaling};
use crate::{Resources, RunFile};

const LLAMA: &str =
    r#"{"family": "llama", "num_layers": 4, "hidden_size": 96, "num_attention_heads": 4, "seq_length": 16}"#;

fn llama(model: &str) -> LlamaConfig {
    match run(&[("model", model)]).model {
        ModelConfig::Llama(llama) => llama,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_written_is_llamas() {
    let found = llama(LLAMA);
    assert_eq!((found.ffn_hidden_size, found.num_query_groups, found.kv_channels), (256, 4, 24));
    assert_eq!(
        (found.norm_epsilon, found.rotary_base, found.rope_scaling),
        (1e-5, 1e4, RopeScaling::Default)
    );
    assert!(!(found.gpt.tie_embeddings || found.add_qkv_bias || found.add_proj_bias || found.add_mlp_bias));
    assert!(!found.qk_layernorm);
    // Llama 2's own widths.
    for (hidden_size, ffn_hidden_size) in [(4096, 11_008), (5120, 13_824)] {
        let model = LLAMA.replace("96", &hidden_size.to_string());
        assert_eq!(llama(&model).ffn_hidden_size, ffn_hidden_size);
    }
}

#[test]
fn each_size_may_be_given_and_heads_need_not_divide() {
    let more = r#""kv_channels": 10, "num_query_groups": 1, "ffn_hidden_size": 7, "norm_epsilon": 1e-6, "rotary_base": 5e5,
        "add_qkv_bias": true, "add_proj_bias": true, "add_mlp_bias": true, "qk_layernorm": true,
        "rope_scaling": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8, "truncate": false}, "num_layers""#;
    let found = llama(&LLAMA.replace("\"num_layers\"", more).replace("96", "97"));
    assert_eq!((found.gpt.hidden_size, found.kv_channels, found.num_query_groups), (97, 10, 1));
    let RopeScaling::Yarn(yarn) = found.rope_scaling else { panic!("{:?}", found.rope_scaling) };
    // 0.1 ln(4) + 1
    assert!((yarn.attention_factor - 1.138_629_436_111_989).abs() < 1e-15 && !yarn.truncate);
}

#[test]
fn sizes_that_do_not_fit_are_refused_each_at_its_place() {
    let with = |more: &str| LLAMA.replace("\"num_layers\"", &format!("{more}, \"num_layers\""));
    let models = [
        LLAMA.replace("96", "97"),
        LLAMA.replace("96", "100").replace("\"num_attention_heads\": 4", "\"num_attention_heads\": 20"),
        with(r#""kv_channels": 7, "num_query_groups": 3, "dropout": 0.1"#),
        with(r#""norm_epsilon": 0, "rotary_base": 1, "ffn_hidden_size": 0"#),
        with(r#""rope_scaling": {"rope_type": "longrope"}"#),
        with(r#""rope_scaling": {"factor": 2}"#),
        with(r#""rope_scaling": {"rope_type": "linear", "factor": 0.5, "beta_fast": 3}"#),
        with(r#""rope_scaling": {"rope_type": "llama3"}"#),
        with(
            r#""rope_scaling": {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 8, "low_freq_factor": 4}"#,
        ),
        with(r#""forward_ms": 1"#),
        LLAMA
            .replace("llama", "gpt2")
            .replace("\"num_layers\"", "\"qk_layernorm\": false, \"rope_scaling\": {}, \"num_layers\""),
    ];
    let models: Vec<&str> = models.iter().map(String::as_str).collect();
    check_values(
        "model",
        &models,
        expect![[r#"
            run.json:2:91: `model.num_attention_heads` is 4, but `model.hidden_size` is 97, which 4 does not divide: every head has the same width; use a divisor such as 1
            run.json:2:92: `model.num_attention_heads` is 20, but `model.hidden_size` / 20 is 5, and rotary embeddings turn pairs of elements: a head has an even number of them; use other sizes, or add `model.kv_channels`
            run.json:2:47: `model.kv_channels` is 7, but rotary embeddings turn pairs of elements: a head has an even number of them; use an even number
              run.json:2:70: `model.num_query_groups` is 3, but `model.num_attention_heads` is 4, which it does not divide: as many heads of queries share each of keys; use a divisor such as 1
              run.json:2:84: `model.dropout` is 0.1, but family "llama" has no dropout; use 0, or family "gpt2"
            run.json:2:48: `model.norm_epsilon` is 0, but it must be positive; use a value such as 0.00001
              run.json:2:66: `model.rotary_base` is 1, but it must be above 1: powers of it; use a value such as 10000
              run.json:2:88: `model.ffn_hidden_size` is 0, but it must be at least 1; use 1 or more
            run.json:2:62: `model.rope_scaling.rope_type` is "longrope", but that is not offered; use "default", "linear", "dynamic", "llama3" or "yarn"
            run.json:2:59: `model.rope_scaling.factor` is 2, but it belongs to `rope_type` "linear", "dynamic", "llama3" or "yarn"; remove it
            run.json:2:100: `model.rope_scaling.beta_fast` is 3, but it belongs to `rope_type` "yarn"; remove it
            run.json:2:32: `model.rope_scaling.original_max_position_embeddings` is missing: what is scaled depends on the longest sequence of the training; add it
              run.json:2:32: `model.rope_scaling.factor` is missing: angles are scaled by it; add it, or remove `rope_scaling`
            run.json:2:143: `model.rope_scaling.low_freq_factor` is 4, but it must be below `model.rope_scaling.high_freq_factor`, which is 4; change one of them
            run.json:2:46: `model.forward_ms` is 1, but it belongs to family "timed", not to "llama"; remove it
            run.json:2:47: `model.qk_layernorm` is false, but it belongs to family "llama", not to "gpt2"; remove it
        "#]],
    );
}

/// A folder with this config.json.
fn folder(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    folder
}

const GPT2: &str = r#"{"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12}"#;

#[test]
fn sizes_come_from_a_folder_and_the_run_chooses_length_and_dropout() {
    let folder = folder(GPT2);
    let from = format!(r#"{{"from": "{}", "seq_length": 128, "dropout": 0}}"#, folder.path().display());
    let found = run(&[("model", &from)]).model;
    assert_eq!((found.num_parameters(), found.seq_length()), (123_751_680, 128));
    let gpt = found.gpt().unwrap();
    assert_eq!((gpt.dropout, gpt.tie_embeddings, gpt.vocab_size), (0.0, true, 50257));
    // As the run directory has it, without the folder.
    let text = file(&[("model", &from)]);
    let read = |file: RunFile| file.resolve(Resources::this_host()).unwrap().0.model;
    let file = RunFile::parse("run.json", &text).unwrap();
    let section = format!("model={}", file.model_in_full(&found).unwrap());
    let in_full = file.clone().set(&[section]).unwrap();
    drop(folder);
    assert_eq!(read(in_full), found);
    assert!(file.resolve(Resources::this_host()).is_err());
}

#[test]
fn a_gpt2_that_drops_several_shares_needs_one_of_the_runs_own() {
    let folder = folder(&GPT2.replacen('{', r#"{"attn_pdrop": 0, "embd_pdrop": 0.1, "resid_pdrop": 0, "#, 1));
    let model = |more: &str| format!(r#"{{"from": "{}"{more}}}"#, folder.path().display());
    let said = super::outcome(&file(&[("model", &model(""))]), &[], super::RESOURCES);
    expect![[r#"
        run.json:2:21: `model.from` is "FOLDER", but FOLDER/config.json:1:33: `embd_pdrop` is 0.1, but `attn_pdrop` 0: one share is offered for all three, which `model.dropout` says; write `model.dropout` into the run file, or make them equal
    "#]].assert_eq(&said.replace(&folder.path().display().to_string(), "FOLDER"));
    for dropout in [0.0, 0.25] {
        let found = run(&[("model", &model(&format!(r#", "dropout": {dropout}"#)))]).model;
        assert_eq!(found.gpt().unwrap().dropout, dropout);
    }
}

#[test]
fn what_a_folder_says_is_not_written_beside_it() {
    let folder = folder(GPT2);
    let model = |more: &str| format!(r#"{{"from": "{}"{more}}}"#, folder.path().display());
    let models = [
        model(r#", "num_layers": 3, "family": "llama", "rope_scaling": {}"#),
        model(r#", "seq_length": 1025"#),
    ];
    let outcomes =
        models.iter().map(|model| super::outcome(&file(&[("model", model)]), &[], super::RESOURCES));
    let said: String = outcomes.collect::<String>().replace(&folder.path().display().to_string(), "FOLDER");
    expect![[r#"
        run.json:2:54: `model.num_layers` is 3, but `model.from` says it; remove it
        run.json:2:67: `model.family` is "llama", but `model.from` says it; remove it
        run.json:2:54: `model.seq_length` is 1025, but the model of `model.from` knows 1024 positions; use at most 1024
    "#]].assert_eq(&said);
    check_each(
        &[
            &[("model", r#"{"from": "/nowhere"}"#)],
            &[("model", r#"{"from": "meta-llama/Meta-Llama-3-8B"}"#)],
            &[("model", r#"{"from": 3}"#)],
        ],
        expect![[r#"
            run.json:2:21: `model.from` is "/nowhere", but /nowhere/config.json: No such file or directory (os error 2); name a folder with a config.json of a model of type "gpt2", "llama", "mistral", "qwen2" or "qwen3"; relative paths start at the run file's folder
            run.json:2:21: `model.from` is "meta-llama/Meta-Llama-3-8B", but meta-llama/Meta-Llama-3-8B/config.json: No such file or directory (os error 2); nothing is downloaded: `hf download meta-llama/Meta-Llama-3-8B --local-dir meta-llama/Meta-Llama-3-8B` in the run file's folder does that, or name a folder that is there
            run.json:2:21: `model.from` must be a string, but is 3; write "3"
        "#]],
    );
}

#[test]
fn everything_that_is_wrong_with_a_folders_config_json_is_reported_at_once() {
    let folder =
        folder(&GPT2.replacen('{', r#"{"speed": 1, "activation_function": "relu", "n_heads": 2, "#, 1));
    let model = format!(r#"{{"from": "{}", "family": "gpt2"}}"#, folder.path().display());
    let said = super::outcome(&file(&[("model", &model)]), &[], super::RESOURCES);
    expect![[r#"
        run.json:2:21: `model.from` is "FOLDER", but FOLDER/config.json:1:2: `speed` is not known, and may change what the model computes; remove it if it has no part in training
        run.json:2:21: `model.from` is "FOLDER", but FOLDER/config.json:1:37: `activation_function` is the string "relu": only "gelu_new" is offered; use another model, or mend the field if it is a mistake
        run.json:2:21: `model.from` is "FOLDER", but FOLDER/config.json:1:45: `n_heads` is not known, and may change what the model computes; did you mean `n_head`?
        run.json:2:50: `model.family` is "gpt2", but `model.from` says it; remove it
    "#]].assert_eq(&said.replace(&folder.path().display().to_string(), "FOLDER"));
}

#[test]
fn a_model_with_a_window_trains_on_sequences_in_which_it_hides_nothing() {
    let text = r#"{"model_type": "mistral", "vocab_size": 300, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 2,
        "num_attention_heads": 8, "head_dim": 4, "max_position_embeddings": 8192, "sliding_window": 64}"#;
    let folder = folder(text);
    let model = |more: &str| format!(r#"{{"from": "{}"{more}}}"#, folder.path().display());
    assert_eq!(run(&[("model", &model(r#", "seq_length": 64"#))]).model.seq_length(), 64);
    let models = [model(""), model(r#", "seq_length": 65"#)];
    let outcomes =
        models.iter().map(|model| super::outcome(&file(&[("model", model)]), &[], super::RESOURCES));
    let said: String = outcomes.collect::<String>().replace(&folder.path().display().to_string(), "FOLDER");
    expect![[r#"
        run.json:2:21: `model.from` is "FOLDER", but in the model of `model.from` a token sees only the last 64 (`sliding_window`), and attention to those alone is not offered where sequences are longer, as its longest are with 8192 tokens; set `model.seq_length` to 64 or less, or use another model
        run.json:2:54: `model.seq_length` is 65, but in the model of `model.from` a token sees only the last 64 (`sliding_window`), and attention to those alone is not offered; use 64 or less, or another model
    "#]].assert_eq(&said);
}

/// What is wrong with a size that a folder says stands where the folder is named.
#[test]
fn sizes_of_a_folder_that_are_too_large_are_reported_at_its_name() {
    let long =
        GPT2.replace("1024", "100000000").replace("768", "1028").replace("\"n_head\": 12", "\"n_head\": 4");
    let folder = folder(&long);
    let model = format!(r#"{{"from": "{}"}}"#, folder.path().display());
    let shorter = format!(r#"{{"from": "{}", "seq_length": 1000000}}"#, folder.path().display());
    let said = |changes: &[(&str, &str)]| {
        let said = super::outcome(&file(changes), &[], super::RESOURCES);
        said.replace(&folder.path().display().to_string(), "FOLDER")
    };
    let many = [("train_batch_size", "1000000"), ("gradient_accumulation_steps", "1000000")];
    let large = [("train_batch_size", "1000000"), ("gradient_accumulation_steps", "1")];
    let outcomes = [
        said(&[&[("model", &*model)], &many[..]].concat()),
        said(&[&[("model", &*model)], &large[..]].concat()),
        said(&[&[("model", &*shorter)], &large[..]].concat()),
        said(&[("model", &shorter), ("device", "\"cuda\"")]),
    ];
    expect![[r#"
        run.json:2:21: `model.from` is "FOLDER", but its model has `num_layers` 12: with 1000000 micro-batches that is more than 4194304 forwards of a layer in a step, too many for a program; use fewer micro-batches
        run.json:2:21: `model.from` is "FOLDER", but its model has `seq_length` 100000000: the largest activation of a micro-batch, 1000000 sequences x 100000000 tokens x 50257 values, would have more than 2^53 elements, too many to count exactly; add a smaller `model.seq_length`, or use fewer sequences
        run.json:2:54: `model.seq_length` is 1000000, but the largest activation of a micro-batch, 1000000 sequences x 1000000 tokens x 50257 values, would have more than 2^53 elements, too many to count exactly; use shorter or fewer sequences
        run.json:2:21: `model.from` is "FOLDER", but its heads are of 257 elements, and a GPU takes at most 256; name another model, or use `device` "cpu"
    "#]]
    .assert_eq(&super::listed(outcomes));
}
