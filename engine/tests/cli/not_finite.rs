//! Weights that are not finite are named when they are read, whoever reads them and whatever holds them.

use candle_core::safetensors::{load, save};
use candle_core::{DType, Device, Tensor};
use serde_json::json;

use crate::command::Home;
use crate::distill::{master, student, teacher};

const LLAMA: &str =
    r#"{"family":"llama","num_layers":4,"hidden_size":16,"num_attention_heads":2,"seq_length":16}"#;
const GPT2: &str =
    r#"{"family":"gpt2","num_layers":4,"hidden_size":16,"num_attention_heads":2,"seq_length":16}"#;

/// A value of a tensor in a file of safetensors, and the type in which the tensor is written.
struct Bad {
    tensor: &'static str,
    index: [usize; 2],
    value: f32,
    dtype: DType,
}

/// Replaces one value of a file.
fn set_value(home: &Home, file: &str, bad: &Bad) {
    let path = home.path(file);
    let mut tensors = load(&path, &Device::Cpu).unwrap();
    let tensor = &tensors[bad.tensor];
    let shape = tensor.dims().to_vec();
    let wide = tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap();
    let mut values: Vec<f32> = wide.to_vec1().unwrap();
    values[bad.index[0] * shape[1] + bad.index[1]] = bad.value;
    let changed = Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(bad.dtype).unwrap();
    tensors.insert(bad.tensor.to_owned(), changed);
    save(&tensors, path).unwrap();
}

/// The error of a command that is refused as a mistake in its input, before it has trained.
fn refused(home: &Home, line: &str) -> String {
    let error = home.run(line).failure(2);
    assert!(!error.contains("step 1:"), "{error}");
    error[error.find("error: ").unwrap()..].trim_end().to_owned()
}

#[test]
fn a_folder_of_transformers_names_file_tensor_index_and_value() {
    let transposed = "transformer.h.1.mlp.c_fc.weight";
    let part = "model.layers.1.self_attn.k_proj.weight";
    let finite = "and values must be finite";
    let fp16 = "which is infinite in fp16, the type of the run's weights; train in bf16 or f32";
    for (model, tensor, dtype, value, set, why) in [
        (GPT2, transposed, DType::F32, f32::NAN, "", format!("NaN, {finite}")),
        (GPT2, transposed, DType::F16, f32::NEG_INFINITY, "", format!("-inf, {finite}")),
        (LLAMA, part, DType::BF16, f32::INFINITY, "", format!("inf, {finite}")),
        (LLAMA, part, DType::F32, f32::NAN, "--set bf16.enabled=true", format!("NaN, {finite}")),
        (LLAMA, part, DType::F32, -1e6, "--set fp16.enabled=true", format!("-1000000, {fp16}")),
        (GPT2, transposed, DType::BF16, 65536.0, "--set fp16.enabled=true", format!("65536, {fp16}")),
    ] {
        let home = Home::new();
        home.run(format!("train run.json --set model={model} --out drawn")).success();
        home.run("checkpoint export drawn --format hf --out base").success();
        set_value(&home, "base/model.safetensors", &Bad { tensor, index: [3, 5], value, dtype });
        let line = format!("train run.json --set model={model} {set} --init base --out");
        assert_eq!(
            refused(&home, &format!("{line} out")),
            format!(
                "error: base/model.safetensors: `{tensor}`[3, 5] is {why}; take another copy of the weights, or an earlier state of their run"
            )
        );
        assert!(!home.path("out/metrics.jsonl").exists(), "nothing was trained");
        // Finite in the file and in the type of this run.
        if value.is_finite() {
            home.run(format!("train run.json --set model={model} --init base --out f32")).success();
        }
    }
}

#[test]
fn a_file_of_weights_is_refused_by_every_command_that_reads_it() {
    let home = Home::trained();
    let bad = Bad { tensor: "h.2.mlp.up.weight", index: [1, 5], value: f32::NAN, dtype: DType::F32 };
    set_value(&home, "out/weights.safetensors", &bad);
    let expected = "error: out/weights.safetensors: `h.2.mlp.up.weight`[1, 5] is NaN, and values must be finite; \
                    take another copy of the weights, or an earlier state of their run";
    for line in [
        "train run.json --init out/weights.safetensors --out again",
        "train run.json --init out --out again",
        "eval out",
        "eval out --device cpu",
        "generate out --prompt a",
        "train run.json --init out/weights.safetensors --set bf16.enabled=true --set parallel.data=1 --out again",
    ] {
        assert_eq!(refused(&home, line), expected, "{line}");
    }
    home.write("student.json", student().to_string());
    let task = json!({
        "distill": { "student": "small", "teacher": "large", "temperature": 2.0, "alpha": 0.5 },
        "init": { "large": "out" }
    });
    let engines = [("small", json!("student.json")), ("large", teacher(2, 1, 3))];
    home.write("master.json", master(&engines, &task.to_string()));
    let error = refused(&home, "train master.json --out taught");
    assert!(error.contains(&expected["error: ".len()..]), "{error}");
}

/// In whichever form it is read: a file of this program's here, a folder of transformers above.
#[test]
fn a_value_beyond_the_range_of_the_run_is_refused_by_every_command_that_reads_it() {
    let home = Home::trained();
    let bad = Bad { tensor: "h.2.mlp.up.weight", index: [1, 5], value: 1e5, dtype: DType::F32 };
    set_value(&home, "out/weights.safetensors", &bad);
    let mut run: serde_json::Value = serde_json::from_str(&home.read("run.json")).unwrap();
    run["fp16"] = json!({ "enabled": true });
    home.write("narrow.json", run.to_string());
    home.write(
        "task.json",
        json!({ "engines": { "one": "narrow.json" }, "tasks": { "go": { "train": ["one"], "init": { "one": "out" } } } })
            .to_string(),
    );
    for line in [
        "train narrow.json --init out/weights.safetensors --out again",
        "train narrow.json --set init.from=out --out again",
        "train narrow.json --set zero_optimization.stage=0 --init out --out again",
        "train task.json --out again",
    ] {
        let error = refused(&home, line);
        assert!(
            error.ends_with(
                "out/weights.safetensors: `h.2.mlp.up.weight`[1, 5] is 100000, which is infinite in fp16, the type of the run's weights; train in \
                 bf16 or f32; take another copy of the weights, or an earlier state of their run"
            ),
            "{line}: {error}"
        );
    }
    // Its own type holds it.
    home.run("eval out").success();
    home.run("train run.json --init out --out again").success();
}

/// The checkpoint is as it was written: no checksum shows that its run had diverged.
#[test]
fn a_checkpoint_of_a_run_that_diverged_is_refused_by_name() {
    let home = Home::with(&[("\"lr\": 0.01", "\"lr\": 1e39")]);
    let error = home.run("train run.json --out out").failure(1);
    let found = error.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(
        found.starts_with("error: step 2: the weight `wte.weight`[0, 0] on rank 0 is not finite ("),
        "{found}"
    );
    for line in ["train run.json --out out --resume", "resume out"] {
        let error = refused(&home, line);
        assert!(error.starts_with("error: out/checkpoints/step-00000001/"), "{error}");
        assert!(error.contains(": `wte.weight`[0, 0] is "), "{error}");
        let repair = ", and values must be finite; the run had diverged: go on from an earlier checkpoint with --step, at a lower learning rate";
        assert!(error.ends_with(repair), "{error}");
    }
}
