use std::collections::HashMap;
use std::fs;
use std::path::Path;

use expect_test::expect;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Folder, GPT2, LLAMA, fields, read, with_fields};
use crate::Run;
use crate::hugging_face::{
    About, ExportForm, ExportType, HuggingFaceError, Origin, PublishedModel, SpecialTokens,
};

/// What a run that has trained nothing exports, and what it says is lost.
fn exported(
    folder: &Folder,
    run: &Run,
    about: &About,
    element: ExportType,
) -> Result<(TempDir, Vec<String>), HuggingFaceError> {
    let model = PublishedModel::of(&run.model).unwrap();
    let weights = folder.open(run).unwrap();
    let layers = run.model.build().unwrap().layers;
    let own = layers.iter().filter(|layer| layer.tying != pipezero_models::model::Tying::Head);
    let specs: Vec<_> = own.flat_map(|layer| layer.layer.parameters()).collect();
    let home = tempfile::tempdir().unwrap();
    let lengths: HashMap<_, _> = specs.iter().map(|spec| (spec.name.clone(), spec.num_elements())).collect();
    let read = |name: &str, first: usize, values: &mut [f32]| {
        // A run has no more than its own positions.
        assert!(first + values.len() <= lengths[name], "{name}");
        let read = weights.read(name, first, values);
        read.map(drop).map_err(|(path, error)| HuggingFaceError::io(&path)(error))
    };
    let form = ExportForm { file_bytes_max: u64::MAX, element };
    let lost = model.export(home.path(), about, form, specs.iter().map(|spec| &*spec.name), read)?;
    Ok((home, lost))
}

/// The same with what a run keeps of the folder in its run directory.
fn with_origin(folder: &Folder, run: &Run) -> (TempDir, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    Origin::of_folder(folder.path(), run, true).unwrap().write_to(directory.path()).unwrap();
    let about =
        About { origin: Origin::kept_in(directory.path()).unwrap(), tokens: SpecialTokens::default() };
    exported(folder, run, &about, ExportType::F32).unwrap()
}

/// Fields that are other ones in the export, with their values.
fn changed(folder: &Folder, export: &Path) -> Vec<(String, Value)> {
    let (before, mut after) = (fields(&folder.file("config.json")), fields(&export.join("config.json")));
    let is_same = |key: &str, value: &Value| before.get(key) == Some(value);
    let mut changed: Vec<_> = after.clone().into_iter().filter(|(key, value)| !is_same(key, value)).collect();
    changed.extend(
        before.keys().filter(|key| after.remove(*key).is_none()).map(|key| (key.clone(), Value::Null)),
    );
    changed
}

#[test]
fn an_export_keeps_what_config_json_said() {
    let llama = r#""bos_token_id": 3, "eos_token_id": [5, 6, 7], "pad_token_id": 4, "temperature": 0.7, "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "float32""#;
    let mistral = r#""sliding_window": 8, "bos_token_id": 1, "eos_token_id": 2, "architectures": ["MistralForCausalLM"], "torch_dtype": "bfloat16""#;
    let qwen = r#""max_window_layers": 1, "use_sliding_window": false, "bos_token_id": null, "eos_token_id": 9, "dtype": "float32""#;
    let yarn = r#""rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4}, "_name_or_path": "/models/x", "torch_dtype": "float32",
        "architectures": ["LlamaModel"]"#;
    let gpt2 = r#""bos_token_id": 10, "eos_token_id": 10, "n_ctx": 6, "task_specific_params": {"text-generation": {"max_length": 50}},
        "architectures": ["GPT2LMHeadModel"], "torch_dtype": "float32""#;
    let cases = [
        (with_fields(LLAMA, llama), vec![]),
        (
            with_fields(
                &LLAMA.replace("llama", "mistral"),
                &format!("{mistral}, \"num_key_value_heads\": 2"),
            ),
            vec![("torch_dtype", json!("float32"))],
        ),
        (
            with_fields(
                &LLAMA.replace("llama", "qwen3"),
                &format!("{qwen}, \"head_dim\": 2, \"num_key_value_heads\": 2"),
            ),
            vec![("architectures", json!(["Qwen3ForCausalLM"]))],
        ),
        (
            with_fields(LLAMA, yarn),
            vec![("architectures", json!(["LlamaForCausalLM"])), ("_name_or_path", Value::Null)],
        ),
        (with_fields(GPT2, gpt2), vec![]),
    ];
    for (config, expected) in cases {
        let folder = Folder::of(&config).with(|tensors| {
            if config.contains("qwen3") {
                for name in ["q_norm", "k_norm"] {
                    tensors
                        .insert(format!("model.layers.0.self_attn.{name}.weight"), (vec![2], vec![1.0; 2]));
                }
            }
        });
        fs::write(folder.file("generation_config.json"), r#"{"eos_token_id": [5, 6]}"#).unwrap();
        let (export, lost) = with_origin(&folder, &folder.run(r#", "seq_length": 4"#));
        let expected: Vec<_> = expected.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!(changed(&folder, export.path()), expected, "{config}");
        assert_eq!(lost, [""; 0], "{config}");
        let kept = |name: &str| fs::read_to_string(export.path().join(name)).unwrap();
        assert_eq!(kept("generation_config.json"), r#"{"eos_token_id": [5, 6]}"#);
        // All positions of GPT-2 too, though the run has fewer.
        assert_eq!(read(&export.path().join("model.safetensors")), folder.tensors(), "{config}");
    }
}

#[test]
fn what_a_run_has_chosen_is_in_its_export() {
    let gpt2 = r#""architectures": ["GPT2LMHeadModel"], "torch_dtype": "float32""#;
    let folder = Folder::of(&with_fields(GPT2, gpt2));
    let (export, _) = with_origin(&folder, &folder.run(r#", "dropout": 0.25, "init_std": 0.5"#));
    let dropouts = ["resid_pdrop", "embd_pdrop", "attn_pdrop"].map(|key| (key.to_owned(), json!(0.25)));
    let mut expected = dropouts.to_vec();
    expected.push(("initializer_range".to_owned(), json!(0.5)));
    assert_eq!(changed(&folder, export.path()), expected);
    // Shares that were not one.
    let unequal = GPT2.replace("\"attn_pdrop\": 0.0", "\"attn_pdrop\": 0.25");
    let folder = Folder::of(&with_fields(&unequal, gpt2));
    let (export, _) = with_origin(&folder, &folder.run(r#", "dropout": 0.25"#));
    assert_eq!(changed(&folder, export.path()), dropouts[..2]);
    // Angles reach further than the folder said.
    let folder = Folder::of(&with_fields(LLAMA, &gpt2.replace("GPT2LMHeadModel", "LlamaForCausalLM")));
    let (export, _) = with_origin(&folder, &folder.run(r#", "seq_length": 32"#));
    assert_eq!(changed(&folder, export.path()), [("max_position_embeddings".to_owned(), json!(32))]);
    // A head that the run keeps although config.json ties it.
    let folder = folder.with(|tensors| {
        tensors.insert("lm_head.weight".to_owned(), (vec![11, 4], vec![0.5; 44]));
    });
    let (export, _) = with_origin(&folder, &folder.run(r#", "tie_embeddings": false"#));
    assert_eq!(changed(&folder, export.path()), [("tie_word_embeddings".to_owned(), json!(false))]);
    assert_eq!(read(&export.path().join("model.safetensors")), folder.tensors());
}

#[test]
fn positions_that_cannot_be_had_are_counted() {
    let folder = Folder::of(GPT2);
    let run = folder.run(r#", "seq_length": 4"#);
    let origin = Origin::of_folder(folder.path(), &run, false).unwrap();
    let about = About { origin, tokens: SpecialTokens { bos: None, eos: Some(2) } };
    let (export, lost) = exported(&folder, &run, &about, ExportType::F32).unwrap();
    let found = fields(&export.path().join("config.json"));
    assert_eq!([&found["n_positions"], &found["eos_token_id"]], [&json!(4), &json!(2)]);
    let positions = &read(&export.path().join("model.safetensors"))["transformer.wpe.weight"];
    assert_eq!(positions.1, folder.tensors()["transformer.wpe.weight"].1[..16]);
    expect![[r#"
        2 of the 6 positions of the folder that the model came from are gone: the run has the first 4, and their weights are not in the run directory
    "#]].assert_eq(&format!("{}\n", lost.join("\n")));
}

#[test]
fn an_end_token_that_the_folder_does_not_have_is_told() {
    let folder = Folder::of(&with_fields(LLAMA, r#""eos_token_id": [5, 6], "bos_token_id": 1"#));
    let run = folder.run("");
    let with = |eos| {
        let origin = Origin::of_folder(folder.path(), &run, true).unwrap();
        let about = About { origin, tokens: SpecialTokens { bos: Some(3), eos: Some(eos) } };
        let (export, lost) = exported(&folder, &run, &about, ExportType::F32).unwrap();
        let found = fields(&export.path().join("config.json"));
        assert_eq!([&found["bos_token_id"], &found["eos_token_id"]], [&json!(1), &json!([5, 6])]);
        lost
    };
    assert_eq!(with(6), [""; 0]);
    expect![[r#"
        config.json keeps `eos_token_id` [5,6] of the folder that the model came from; the run ended its texts with token 7
    "#]].assert_eq(&format!("{}\n", with(7).join("\n")));
}

#[test]
fn another_models_folder_says_nothing_about_an_export() {
    let folder = Folder::of(&with_fields(LLAMA, r#""eos_token_id": 5"#));
    let other = Folder::of(&with_fields(
        &LLAMA.replace("\"intermediate_size\": 6", "\"intermediate_size\": 8"),
        r#""eos_token_id": 9"#,
    ));
    let origin = Origin::of_folder(other.path(), &other.run(""), false).unwrap();
    let about = About { origin, tokens: SpecialTokens::default() };
    let (export, _) = exported(&folder, &folder.run(""), &about, ExportType::F32).unwrap();
    let found = fields(&export.path().join("config.json"));
    assert_eq!([&found["intermediate_size"], &found["eos_token_id"]], [&json!(6), &Value::Null]);
}

#[test]
fn narrow_numbers_are_the_nearest() {
    // One third, and a number half way between two of bf16: the even one.
    let folder = Folder::of(LLAMA).with(|tensors| {
        let norm = tensors.get_mut("model.norm.weight").unwrap();
        norm.1 = vec![1.0 / 3.0, 1.0 + 1.0 / 256.0, 1.0 + 3.0 / 256.0, -70000.0];
    });
    let run = folder.run("");
    let of = |element| exported(&folder, &run, &About::default(), element).map(|(home, _)| home);
    let home = of(ExportType::Bf16).unwrap();
    let path = home.path().join("model.safetensors");
    assert_eq!(read(&path)["model.norm.weight"].1, [0.333_984_38, 1.0, 1.015_625, -70144.0]);
    // Half of the bytes of the numbers.
    let wide = fs::metadata(of(ExportType::F32).unwrap().path().join("model.safetensors")).unwrap().len();
    let num_elements: usize = folder.tensors().values().map(|(_, values)| values.len()).sum();
    assert!(wide - fs::metadata(&path).unwrap().len() >= 2 * num_elements as u64 - 64);
    assert_eq!(fields(&home.path().join("config.json"))["torch_dtype"], "bfloat16");
    let refused = of(ExportType::F16).unwrap_err().to_string();
    assert!(
        refused.ends_with("model.safetensors: `model.norm.weight` has -7e4, which is beyond what float16 holds; use --dtype bf16 or f32"),
        "{refused}"
    );
    let folder = folder.with(|tensors| tensors.get_mut("model.norm.weight").unwrap().1[3] = 65504.0);
    let (home, _) = exported(&folder, &run, &About::default(), ExportType::F16).unwrap();
    let found = &read(&home.path().join("model.safetensors"))["model.norm.weight"].1;
    assert_eq!(found[..], [0.333_251_95, 1.003_906_3, 1.011_718_8, 65504.0]);
}
