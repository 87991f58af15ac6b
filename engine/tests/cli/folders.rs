//! Folders of transformers: what is read of them, what is said of the rest, and what an export keeps.

use std::collections::HashMap;
use std::fs;

use candle_core::safetensors::{load, save};
use candle_core::{DType, Device, Tensor};
use expect_test::expect;
use serde_json::{Value, json};

use crate::command::{Home, Printed};

/// A run on bytes whose tokens lie in a file, so that nothing but a folder knows which are special.
const RUN: &str = r#"{
  "model": { "from": "base", "seq_length": 16 },
  "data": { "tokens": "tokens.bin", "validation": 0.2 },
  "train_batch_size": 4,
  "optimizer": { "type": "AdamW", "params": { "lr": 0.01 } },
  "threads": 1,
  "steps": 2
}
"#;

const LLAMA: &str = r#"{"family": "llama", "num_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 32, "tie_embeddings": true}"#;
const GPT2: &str =
    r#"{"family": "gpt2", "num_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 32}"#;

/// A folder `base` with a model that has learned a little, and `run.json`, which takes it from there.
fn home(model: &str) -> Home {
    let home = Home::new();
    let tokens: Vec<u8> =
        (0..4000_u32).flat_map(|index| ((index * index % 251) as u16).to_le_bytes()).collect();
    home.write("tokens.bin", tokens);
    home.write("run.json", RUN);
    // Without spaces, which part the arguments of a line.
    let model = model.replace(' ', "");
    home.run(format!("train run.json --set model={model} --set data.validation=0 --out drawn")).success();
    home.run("checkpoint export drawn --format hf --out base").success();
    home
}

fn tensors(home: &Home, folder: &str) -> HashMap<String, Tensor> {
    load(home.path(&format!("{folder}/model.safetensors")), &Device::Cpu).unwrap()
}

/// The folder with other tensors.
fn change_tensors(home: &Home, change: impl FnOnce(&mut HashMap<String, Tensor>)) {
    let mut tensors = tensors(home, "base");
    change(&mut tensors);
    save(&tensors, home.path("base/model.safetensors")).unwrap();
}

fn config(home: &Home, folder: &str) -> Value {
    serde_json::from_str(&home.read(&format!("{folder}/config.json"))).unwrap()
}

/// The folder with other fields in its config.json.
fn change_config(home: &Home, more: &[(&str, Value)]) {
    let mut fields = config(home, "base");
    for (key, value) in more {
        fields[*key] = value.clone();
    }
    home.write("base/config.json", fields.to_string());
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The hints among what a command says.
fn hints(printed: &Printed) -> String {
    let lines = printed.stderr.lines().filter_map(|line| line.split_once(": hint: "));
    lines.map(|(_, hint)| format!("{hint}\n")).collect()
}

#[test]
fn a_head_that_contradicts_config_json_is_read_as_the_run_file_says() {
    let home = home(LLAMA);
    let embedding = "model.embed_tokens.weight";
    change_tensors(&home, |tensors| {
        let head = (&tensors[embedding] + 1.0).unwrap();
        tensors.insert("lm_head.weight".to_owned(), head);
    });
    home.refuses(
        "train run.json --init base --out",
        expect![[r#"
            $ out
            [2] error: base/model.safetensors: `lm_head.weight` differs from `model.embed_tokens.weight`, and config.json ties them (`tie_word_embeddings`): transformers 4 drops the head, transformers 5 keeps the head as the file has it; write `model.tie_embeddings` into the run file, true to drop it or false to keep it
        "#]],
    );
    // `check` reads no weights, and says what would be.
    let said = hints(&home.run("check run.json"));
    assert!(said.contains("`train --init base` would be refused: "), "{said}");
    let with = |tied: bool| {
        let line = format!(
            "train run.json --init base --set model.tie_embeddings={tied} --set optimizer.params.lr=0 --out {tied}"
        );
        let printed = home.run(line);
        let said = hints(&printed);
        printed.success();
        home.run(format!("checkpoint export {tied} --format hf --out {tied}-hf")).success();
        (said, tensors(&home, &format!("{tied}-hf")), config(&home, &format!("{tied}-hf")))
    };
    let (said, tied, fields) = with(true);
    assert!(said.contains("base: not read: `lm_head.weight` (it differs from `model.embed_tokens.weight`, and `model.tie_embeddings` true drops it)"), "{said}");
    assert!(!tied.contains_key("lm_head.weight") && fields["tie_word_embeddings"] == true);
    let (said, untied, fields) = with(false);
    assert!(!said.contains("lm_head"), "{said}");
    assert_eq!(values(&untied["lm_head.weight"]), values(&tensors(&home, "base")["lm_head.weight"]));
    assert_eq!(fields["tie_word_embeddings"], false);
    // A copy of the embedding is no contradiction.
    change_tensors(&home, |tensors| {
        let copy = tensors[embedding].clone();
        tensors.insert("lm_head.weight".to_owned(), copy);
    });
    let printed = home.run("train run.json --init base --out copied");
    assert!(!printed.stderr.contains("lm_head"), "{}", printed.stderr);
    printed.success();
}

#[test]
fn what_a_folder_holds_beside_its_model_is_named() {
    let home = home(GPT2);
    change_config(
        &home,
        &[("use_cache", json!(true)), ("eos_token_id", json!([5, 6])), ("top_k", json!(50))],
    );
    change_tensors(&home, |tensors| {
        for name in
            ["transformer.h.0.attn.bias", "transformer.h.1.attn.bias", "transformer.h.0.attn.masked_bias"]
        {
            tensors.insert(name.to_owned(), Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap());
        }
    });
    home.write("base/pytorch_model.bin", "");
    let checked = home.run("check run.json");
    expect![[r#"
        `model.from`: base has weights too: `train --init base`, or `"init": {"from": ...}` in the file, starts with them
        `model.from`: base/config.json: fields that training does not use: `bos_token_id`, `eos_token_id` (special tokens, which the run's data decide); `top_k` (for generated text); `torch_dtype`, `use_cache` (how transformers computes and stores the model); `architectures` (names and versions)
        `model.from`: base: not read: `pytorch_model.bin` (weights are read from safetensors alone); `transformer.wpe.weight` from position 16 to 31 (`model.seq_length` is shorter; an export keeps them); `transformer.h.0.attn.bias` and 1 more (the causal mask, which is the same for every model); `transformer.h.0.attn.masked_bias` (the number that masks attention, which is the same for every model)
    "#]]
    .assert_eq(&hints(&checked));
    checked.success();
    let trained = home.run("train run.json --init base --out out");
    expect![[r#"
        `model.from`: base/config.json: fields that training does not use: `bos_token_id`, `eos_token_id` (special tokens, which the run's data decide); `top_k` (for generated text); `torch_dtype`, `use_cache` (how transformers computes and stores the model); `architectures` (names and versions)
        `model.from`: base: not read: `pytorch_model.bin` (weights are read from safetensors alone); `transformer.wpe.weight` from position 16 to 31 (`model.seq_length` is shorter; an export keeps them); `transformer.h.0.attn.bias` and 1 more (the causal mask, which is the same for every model); `transformer.h.0.attn.masked_bias` (the number that masks attention, which is the same for every model)
    "#]]
    .assert_eq(&hints(&trained));
    trained.success();
}

#[test]
fn what_makes_a_folder_another_model_is_refused() {
    let mut said = String::new();
    for (name, value) in [
        ("transformer.h.0.attn.c_attn.lora_A.weight", None),
        ("score.weight", None),
        ("transformer.h.2.ln_1.weight", None),
        ("transformer.h.0.attn.c_attn.qweight", None),
        ("adapter_config.json", Some("{}")),
    ] {
        let home = home(GPT2);
        match value {
            Some(text) => home.write(&format!("base/{name}"), text),
            None => change_tensors(&home, |tensors| {
                tensors.insert(name.to_owned(), Tensor::zeros(4, DType::F32, &Device::Cpu).unwrap());
            }),
        }
        let refused = home.run("train run.json --init base --out out").failure(2);
        said += &refused[refused.find("error: ").unwrap()..];
    }
    expect![[r#"
        error: base/model.safetensors: it has a tensor `transformer.h.0.attn.c_attn.lora_A.weight`, a part of an adapter; merge it into the model with PEFT's `merge_and_unload`, and save that
        error: base/model.safetensors: it has a tensor `score.weight`, of a head for another task than predicting the next token, which is not offered; save the model without it
        error: base/model.safetensors: it has a tensor `transformer.h.2.ln_1.weight`, and `n_layer` of config.json is 2; mend one of the two
        error: base/model.safetensors: it has a tensor `transformer.h.0.attn.c_attn.qweight`, a part of quantised weights, which are not read; use the unquantised model
        error: base/adapter_config.json: it belongs to an adapter, which is not read: merge it into the model with PEFT's `merge_and_unload`, and save that with `save_pretrained`
    "#]]
    .assert_eq(&said);
}

#[test]
fn an_export_keeps_what_the_folder_said_on_another_machine_too() {
    for model in [LLAMA, GPT2] {
        let home = home(model);
        let kept = [
            ("bos_token_id", json!(3)),
            ("eos_token_id", json!([5, 6, 7])),
            ("pad_token_id", json!(4)),
            ("temperature", json!(0.7)),
        ];
        change_config(&home, &kept);
        let generation = r#"{"bos_token_id": 3, "eos_token_id": [5, 6, 7], "do_sample": true}"#;
        home.write("base/generation_config.json", generation);
        let before = (config(&home, "base"), tensors(&home, "base"));
        home.run("train run.json --init base --set checkpoint.every=1 --out out").success();
        // A run that begins with its weights has come from the same folder.
        let next = format!(
            "train run.json --init out --set model={} --set model.seq_length=16 --out next",
            model.replace(' ', "")
        );
        home.run(next).success();
        fs::remove_dir_all(home.path("base")).unwrap();
        for (export, from) in
            [("finished", "out"), ("of-step", "out/checkpoints/step-00000001"), ("second", "next")]
        {
            let printed = home.run(format!("checkpoint export {from} --format hf --out {export}"));
            assert!(!printed.stderr.contains("warning"), "{}", printed.stderr);
            printed.success();
            assert_eq!(config(&home, export), before.0, "{export}");
            assert_eq!(home.read(&format!("{export}/generation_config.json")), generation);
            let after = tensors(&home, export);
            for (name, tensor) in &before.1 {
                assert_eq!(tensor.dims(), after[name].dims(), "{name}");
            }
            if let Some(positions) = after.get("transformer.wpe.weight") {
                let [found, wanted] = [positions, &before.1["transformer.wpe.weight"]].map(values);
                assert!(found[..256] != wanted[..256] && found[256..] == wanted[256..], "{export}");
            }
        }
    }
}

#[test]
fn positions_that_are_gone_are_counted() {
    let home = home(GPT2);
    home.run("train run.json --init base --out out").success();
    fs::remove_file(home.path("out/from.positions.safetensors")).unwrap();
    let printed = home.run("checkpoint export out --format hf --out hf");
    expect![[r#"
        warning: 16 of the 32 positions of the folder that the model came from are gone: the run has the first 16, and their weights are not in the run directory
        wrote hf
    "#]]
    .assert_eq(&printed.stderr);
    assert_eq!(config(&home, "hf")["n_positions"], 16);
}

#[test]
fn exports_are_of_the_type_that_is_asked_for() {
    let home = home(LLAMA);
    home.run("train run.json --init base --out out").success();
    home.run("checkpoint export out --format hf --out wide").success();
    for (name, dtype, called) in
        [("f32", DType::F32, "float32"), ("bf16", DType::BF16, "bfloat16"), ("f16", DType::F16, "float16")]
    {
        home.run(format!("checkpoint export out --format hf --dtype {name} --out {name}")).success();
        assert_eq!(config(&home, name)["torch_dtype"], called);
        let found = tensors(&home, name);
        for (tensor, wide) in tensors(&home, "wide") {
            let narrow = &found[&tensor];
            assert_eq!(narrow.dtype(), dtype, "{tensor}");
            // Candle rounds too.
            assert_eq!(values(narrow), values(&wide.to_dtype(dtype).unwrap()), "{tensor}");
        }
    }
    // It can be read again.
    home.run("train run.json --init bf16 --out again").success();
    home.refuses(
        "checkpoint export out",
        expect![[r#"
            $ --out weights.safetensors --dtype bf16
            [2] error: --dtype is for --format hf: the other format is f32, as a run has its weights
            $ --format hf --out hf --dtype int8
            [2] error: invalid value 'int8' for '--dtype <DTYPE>'
              [possible values: f32, bf16, f16]
        "#]],
    );
}
