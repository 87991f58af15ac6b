use std::fs;

use expect_test::expect;

use super::{Folder, GPT2, LLAMA, with_fields};
use crate::hugging_face::PublishedModel;

/// What is said of a folder with more tensors.
fn with_tensors(config: &str, names: &[&str]) -> String {
    let folder = Folder::of(config).with(|tensors| {
        for name in names {
            tensors.insert((*name).to_owned(), (vec![4], vec![0.0; 4]));
        }
    });
    folder.said("")
}

#[test]
fn constants_are_named_with_the_reason_why_they_are_not_read() {
    let cases: [(&str, &[&str]); 4] = [
        (GPT2, &["transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias"]),
        (LLAMA, &["model.layers.0.self_attn.rotary_emb.inv_freq"]),
        (LLAMA, &["model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"]),
        (GPT2, &[]),
    ];
    let said: String = cases.iter().map(|(config, names)| with_tensors(config, names)).collect();
    expect![[r#"
        `transformer.h.0.attn.bias` (the causal mask, which is the same for every model)
        `transformer.h.0.attn.masked_bias` (the number that masks attention, which is the same for every model)
        `model.layers.0.self_attn.rotary_emb.inv_freq` (the frequencies of rotary angles, which config.json says)
        `model.layers.0.self_attn.rotary_emb.inv_freq` and 1 more (the frequencies of rotary angles, which config.json says)
        all is read
    "#]].assert_eq(&said);
}

#[test]
fn tensors_of_another_model_are_refused_with_what_they_are() {
    let cases: [(&str, &[&str]); 10] = [
        (
            LLAMA,
            &[
                "model.layers.0.self_attn.q_proj.lora_A.weight",
                "model.layers.0.self_attn.q_proj.lora_B.weight",
            ],
        ),
        (LLAMA, &["score.weight"]),
        (GPT2, &["v_head.summary.weight"]),
        (
            LLAMA,
            &[
                "model.layers.1.input_layernorm.weight",
                "model.layers.1.mlp.up_proj.weight",
                "model.layers.2.mlp.up_proj.weight",
            ],
        ),
        (GPT2, &["transformer.h.1.attn.bias"]),
        (LLAMA, &["model.layers.0.self_attn.q_proj.bias"]),
        (LLAMA, &["model.layers.0.mlp.up_proj.weight_scale"]),
        (LLAMA, &["model.layers.0.self_attn.q_norm.weight"]),
        // A mask of GPT-2's in another model's names.
        (LLAMA, &["model.layers.0.attn.bias"]),
        (GPT2, &["wte.weight"]),
    ];
    let said: String = cases.iter().map(|(config, names)| with_tensors(config, names)).collect();
    expect![[r#"
        refused: FOLDER/model.safetensors: it has a tensor `model.layers.0.self_attn.q_proj.lora_A.weight`, a part of an adapter; merge it into the model with PEFT's `merge_and_unload`, and save that; there is one more such tensor
        refused: FOLDER/model.safetensors: it has a tensor `score.weight`, of a head for another task than predicting the next token, which is not offered; save the model without it
        refused: FOLDER/model.safetensors: it has a tensor `v_head.summary.weight`, of a head for another task than predicting the next token, which is not offered; save the model without it
        refused: FOLDER/model.safetensors: it has a tensor `model.layers.1.input_layernorm.weight`, and `num_hidden_layers` of config.json is 1; mend one of the two; there are 2 more such tensors
        refused: FOLDER/model.safetensors: it has a tensor `transformer.h.1.attn.bias`, and `n_layer` of config.json is 1; mend one of the two
        refused: FOLDER/model.safetensors: it has a tensor `model.layers.0.self_attn.q_proj.bias`, and the model of config.json has no bias there (`attention_bias`, `mlp_bias`); mend one of the two
        refused: FOLDER/model.safetensors: it has a tensor `model.layers.0.mlp.up_proj.weight_scale`, a part of quantised weights, which are not read; use the unquantised model
        refused: FOLDER/model.safetensors: it has a tensor `model.layers.0.self_attn.q_norm.weight`, which the model of config.json has not
        refused: FOLDER/model.safetensors: it has a tensor `model.layers.0.attn.bias`, which the model of config.json has not
        refused: FOLDER/model.safetensors: it has a tensor `wte.weight`, which the model of config.json has not
    "#]]
    .assert_eq(&said);
}

#[test]
fn positions_behind_those_of_a_run_are_named() {
    let folder = Folder::of(GPT2);
    assert_eq!(folder.said(r#", "seq_length": 6"#), "all is read\n");
    expect![[r#"
        `transformer.wpe.weight` from position 4 to 5 (`model.seq_length` is shorter; an export keeps them)
    "#]]
    .assert_eq(&folder.said(r#", "seq_length": 4"#));
}

/// Splits a folder's tensors over two files, of which an index names the tensors.
fn split(folder: &Folder) -> Vec<(String, &'static str)> {
    let tensors = folder.tensors();
    let half = tensors.len() / 2;
    let mut index = Vec::new();
    for (number, name) in ["a.safetensors", "b.safetensors"].into_iter().enumerate() {
        let part = tensors.iter().skip(number * half).take(if number == 0 { half } else { tensors.len() });
        let part: super::Tensors = part.map(|(name, tensor)| (name.clone(), tensor.clone())).collect();
        index.extend(part.keys().map(|tensor| (tensor.clone(), name)));
        super::write(&folder.file(name), &part);
    }
    fs::remove_file(folder.file("model.safetensors")).unwrap();
    index
}

/// Names of tensors, each with its file.
type Index = Vec<(String, &'static str)>;

fn write_index(folder: &Folder, index: &[(String, &str)]) {
    let map: serde_json::Map<_, _> =
        index.iter().map(|(name, file)| (name.clone(), (*file).into())).collect();
    let text = serde_json::json!({ "weight_map": map }).to_string();
    fs::write(folder.file("model.safetensors.index.json"), text).unwrap();
}

#[test]
fn an_index_and_its_files_say_the_same() {
    let mut said = String::new();
    let mut case = |change: &dyn Fn(&Folder, &mut Index)| {
        let folder = Folder::of(LLAMA);
        let mut index = split(&folder);
        change(&folder, &mut index);
        write_index(&folder, &index);
        said += &folder.said("");
    };
    case(&|_, _| {});
    case(&|_, index| index[0].1 = "b.safetensors");
    case(&|_, index| index.push(("model.more".to_owned(), "a.safetensors")));
    case(&|_, index| index.push(("model.more".to_owned(), "c.safetensors")));
    case(&|folder, _| {
        let path = folder.file("b.safetensors");
        let mut tensors = super::read(&path);
        tensors.insert("model.embed_tokens.weight".to_owned(), (vec![11, 4], vec![0.0; 44]));
        super::write(&path, &tensors);
    });
    case(&|folder, _| {
        fs::copy(folder.file("a.safetensors"), folder.file("consolidated.safetensors")).unwrap();
    });
    expect![[r#"
        all is read
        refused: FOLDER/b.safetensors: it has no tensor `model.embed_tokens.weight`, and model.safetensors.index.json says that it has; download both again
        refused: FOLDER/a.safetensors: it has no tensor `model.more`, and model.safetensors.index.json says that it has; download both again
        refused: FOLDER/c.safetensors: it is not there, and model.safetensors.index.json names it; download it again
        refused: FOLDER/b.safetensors: `model.embed_tokens.weight` is in another file too
        `consolidated.safetensors` (model.safetensors.index.json does not name it)
    "#]]
    .assert_eq(&said);
}

#[test]
fn other_files_with_weights_are_named_and_adapters_refused() {
    let mut said = String::new();
    for files in [
        &["model.safetensors.index.json"][..],
        &["model-00001-of-00002.safetensors", "consolidated.safetensors"],
        &["pytorch_model.bin", "tf_model.h5", "flax_model.msgpack"],
        &["tokenizer.json", "generation_config.json", "README.md"],
        &["adapter_config.json"],
        &["adapter_model.safetensors"],
        &["adapter_model.bin"],
    ] {
        let folder = Folder::of(GPT2);
        files.iter().for_each(|name| fs::write(folder.file(name), "{}").unwrap());
        said += &folder.said("");
    }
    expect![[r#"
        `model.safetensors.index.json` (model.safetensors is read)
        `consolidated.safetensors`, `model-00001-of-00002.safetensors` (model.safetensors is read)
        `flax_model.msgpack`, `pytorch_model.bin`, `tf_model.h5` (weights are read from safetensors alone)
        all is read
        refused: FOLDER/adapter_config.json: it belongs to an adapter, which is not read: merge it into the model with PEFT's `merge_and_unload`, and save that with `save_pretrained`
        refused: FOLDER/adapter_model.safetensors: it belongs to an adapter, which is not read: merge it into the model with PEFT's `merge_and_unload`, and save that with `save_pretrained`
        refused: FOLDER/adapter_model.bin: it belongs to an adapter, which is not read: merge it into the model with PEFT's `merge_and_unload`, and save that with `save_pretrained`
    "#]]
    .assert_eq(&said);
}

#[test]
fn every_field_that_training_does_not_use_is_named() {
    let more = r#""bos_token_id": 3, "eos_token_id": [5, 6], "temperature": 0.7, "n_ctx": 6, "summary_type": "cls_index", "use_cache": true,
        "reorder_and_upcast_attn": true, "_name_or_path": "gpt2", "torch_dtype": "float32""#;
    let folder = Folder::of(&with_fields(GPT2, more));
    let lines: String =
        PublishedModel::unused_fields(folder.path()).iter().map(|unused| format!("{unused}\n")).collect();
    expect![[r#"
        `bos_token_id`, `eos_token_id` (special tokens, which the run's data decide)
        `temperature` (for generated text)
        `n_ctx` (other names of the longest sequence)
        `summary_type` (for other tasks than predicting the next token)
        `use_cache`, `reorder_and_upcast_attn`, `torch_dtype` (how transformers computes and stores the model)
        `_name_or_path` (names and versions)
    "#]]
    .assert_eq(&lines);
    assert_eq!(PublishedModel::unused_fields(Folder::of(GPT2).path()), []);
}
