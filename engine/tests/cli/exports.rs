//! Folders that transformers wrote, trained at a rate of 0 and exported: the export is the folder, and computes its logits.
//!
//! `tests/golden/scripts/exported_models.py` makes the folders, and the logits that transformers computes with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::safetensors::load;
use candle_core::{DType, Device, Tensor};
use expect_test::expect;
use pipezero::run::data::NoBatches;
use pipezero::{Engine, Plan, Resources, RunFile};
use serde_json::{Value, json};

use crate::command::Home;

/// The largest distance between logits, as max |a - b| / max |b|. Those of transformers are computed in f64 and rounded to f32; here a logit is some
/// hundred roundings of 6e-8 away, measured: below 1e-6.
const TOLERANCE: f32 = 1e-5;

/// Shorter than the windows of all folders, and than the positions of each.
const SEQ_LENGTH: usize = 8;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/exports")
}

fn folders() -> Vec<String> {
    let entries = fs::read_dir(golden()).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 10);
    names
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(
        &fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    )
    .unwrap()
}

/// A run that changes no weight, on four ranks that between them hold each part of the model once or in shards.
fn run(folder: &Path, grid: &str) -> String {
    let [parallel, zero] = match grid {
        "stages" => [json!({"pipeline": 2, "data": 2}), json!({"stage": 1})],
        _ => [json!({"pipeline": 1, "data": 4}), json!({"stage": 3})],
    };
    json!({
        "model": {"from": folder, "seq_length": SEQ_LENGTH},
        "data": {"text": "letters.txt", "tokenizer": folder, "validation": 0},
        "parallel": parallel,
        "zero_optimization": zero,
        "train_batch_size": 8,
        "gradient_accumulation_steps": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": 0, "weight_decay": 0.1}},
        "threads": 1,
        "steps": 3
    })
    .to_string()
}

/// A folder in which one of the golden folders was trained, and exported to `hf`.
fn exported(folder: &Path, grid: &str) -> Home {
    let home = Home::new();
    let words = ["the ", "cat ", "can ", "not ", "sing, ", "an anthem.\n"];
    let text: Vec<&str> = (0..400_usize).map(|index| words[index * index % 7 % 6]).collect();
    home.write("letters.txt", text.concat());
    home.write("run.json", run(folder, grid));
    home.run(format!("train run.json --init {} --out out", folder.display())).success();
    let printed = home.run("checkpoint export out --format hf --out hf");
    assert!(!printed.stderr.contains("warning"), "{}", printed.stderr);
    printed.success();
    home
}

/// The tensors of all files of a folder in f32, without what a whole model's names begin with.
fn tensors(folder: &Path) -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "safetensors"));
    let mut all = Vec::new();
    for path in files {
        for (name, tensor) in load(path, &Device::Cpu).unwrap() {
            let name = name.trim_start_matches("model.").to_owned();
            all.push((name, tensor.dims().to_vec(), values(&tensor)));
        }
    }
    all.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    all
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// The logits of every position of the golden sequences, by the weights of a folder.
fn logits(home: &Home, folder: &Path, sequences: &[Vec<u32>]) -> Vec<f32> {
    let text = run(folder, "stages").replace("letters.txt", &home.path("letters.txt").display().to_string());
    let file = RunFile::parse("run.json", &text).unwrap();
    let (plan, _) = Plan::from_file(&file, Resources::this_host()).unwrap();
    let mut engine = Engine::new(plan, Arc::new(NoBatches)).unwrap();
    engine.load(folder).unwrap();
    let all = sequences.iter().flat_map(|tokens| (1..=tokens.len()).map(|len| &tokens[..len]));
    all.flat_map(|tokens| engine.logits(tokens).unwrap()).collect()
}

#[test]
fn a_folder_of_transformers_is_exported_as_it_was_and_computes_the_same_logits() {
    let mut differences = String::new();
    for (index, name) in folders().iter().enumerate() {
        let folder = golden().join(name);
        let home = exported(&folder, ["stages", "shards"][index % 2]);
        let hf = home.path("hf");
        assert!(tensors(&folder) == tensors(&hf), "{name}: tensors");
        differences += &format!("{name}\n");
        for file in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"] {
            differences += &differing(file, &json_of(&folder.join(file)), &json_of(&hf.join(file)));
        }
        let template = "chat_template.jinja";
        let [theirs, ours] = [&folder, &hf].map(|folder| fs::read_to_string(folder.join(template)).ok());
        assert_eq!(theirs, ours, "{name}: {template}");
        let expected = load(golden().join(format!("{name}.expected.safetensors")), &Device::Cpu).unwrap();
        let sequences: Vec<Vec<u32>> = expected["inputs"].to_vec2().unwrap();
        let (found, wanted) = (logits(&home, &hf, &sequences), values(&expected["logits"]));
        assert_eq!(found.len(), wanted.len(), "{name}");
        let largest = wanted.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        for (found, wanted) in found.iter().zip(&wanted) {
            // Written so that NaN fails.
            assert!((found - wanted).abs() <= TOLERANCE * largest, "{name}: {found} and {wanted}");
        }
    }
    expect![[r#"
        gpt2-more-positions
          config.json: dtype "float16" -> "float32"
        gpt2-untied-one-head
          config.json: bos_token_id null -> 33
          config.json: dtype "float16" -> "float32"
        llama-body-alone
          config.json: architectures ["LlamaModel"] -> ["LlamaForCausalLM"]
          config.json: dtype "bfloat16" -> "float32"
        llama-llama3-parts
          config.json: dtype "bfloat16" -> "float32"
        llama-tied-eos-list
          config.json: dtype "bfloat16" -> "float32"
        mistral-tied
          config.json: dtype "float16" -> "float32"
        mistral-window-heads-apart
          config.json: dtype "bfloat16" -> "float32"
        qwen2-tied
          config.json: dtype "bfloat16" -> "float32"
        qwen2-window
          config.json: dtype "bfloat16" -> "float32"
        qwen3-heads-apart
          config.json: dtype "bfloat16" -> "float32"
    "#]]
    .assert_eq(&differences);
}

/// The fields in which two files differ, a line for each.
fn differing(file: &str, theirs: &Value, ours: &Value) -> String {
    let [theirs, ours] = [theirs, ours].map(|file| file.as_object().unwrap());
    let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or("absent".to_owned(), Value::to_string);
    let others = names.into_iter().filter(|name| theirs.get(*name) != ours.get(*name));
    others
        .map(|name| format!("  {file}: {name} {} -> {}\n", shown(theirs.get(name)), shown(ours.get(name))))
        .collect()
}
