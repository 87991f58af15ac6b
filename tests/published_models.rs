//! Published models: as many parameters as transformers counts, a plan for each, and the forms in which their weights are there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use pipezero_config::hugging_face::{Fit, PublishedModel, PublishedWeights, SpecialTokens};
use pipezero_config::{Resources, RunFile};
use pipezero_models::parameter::ParameterSpec;
use pipezero_plan::Plan;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;

/// Names, configurations and counts (`tests/golden/scripts/published_shapes.py`).
fn shapes() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/published_shapes.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the table is there")).expect("it is JSON")
}

#[test]
fn published_models_have_as_many_parameters_as_transformers_counts() {
    let shapes = shapes();
    assert!(shapes.len() >= 20);
    for shape in &shapes {
        let name = shape["name"].as_str().expect("a name");
        let published = PublishedModel::parse(name, &shape["config"].to_string()).expect("it is read");
        assert_eq!(
            published.model.num_parameters(),
            u128::from(shape["num_parameters"].as_u64().expect("a count")),
            "{name}"
        );
        let again = PublishedModel::of(&published.model).expect("transformers has it");
        let read = PublishedModel::parse(name, &again.config_json(SpecialTokens::default()))
            .expect("what is written is read");
        assert_eq!(read.model, published.model, "{name}");
    }
}

/// Without weights, on 64 ranks.
#[test]
fn a_published_model_is_planned_from_its_sizes_alone() {
    for shape in shapes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.json"), shape["config"].to_string())
            .expect("it is written");
        let text = format!(
            r#"{{"model": {{"from": "{}", "seq_length": 1024}}, "data": {{"text": "never-read.txt"}}, "steps": 1,
                "parallel": {{"pipeline": 2, "data": 32}}, "zero_optimization": {{"stage": 3}},
                "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4}}"#,
            folder.path().display()
        );
        let (run, _) = RunFile::parse("run.json", &text)
            .and_then(|file| file.resolve(Resources::this_host()))
            .expect("a valid file");
        let plan = Plan::even_if_refused(run).expect("it is planned");
        let name = shape["name"].as_str().expect("a name");
        let num_parameters = shape["num_parameters"].as_u64().expect("a count");
        assert_eq!(plan.num_parameters(), num_parameters, "{name}");
        // 6 N for each token and as much again at most for attention, of these sizes; the largest models' are more than a `u64` holds.
        let of_parameters = 6 * u128::from(num_parameters) * (1024 * 32 * 4);
        let flops = plan.step_flops();
        assert!(
            (of_parameters / 2..2 * of_parameters).contains(&flops),
            "{name}: {flops}, and {of_parameters}"
        );
    }
}

/// Tensors by name: their shape, type and bytes.
type Tensors = BTreeMap<String, (Vec<usize>, Dtype, Vec<u8>)>;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/published").join(name)
}

fn tensors_of(name: &str) -> Tensors {
    let bytes = fs::read(golden(name).join("model.safetensors")).expect("the weights are there");
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensors = file.tensors().into_iter();
    tensors.map(|(name, view)| (name, (view.shape().to_vec(), view.dtype(), view.data().to_vec()))).collect()
}

/// The values of all parameters of a folder with these tensors, or why it is refused.
fn read(name: &str, tensors: &Tensors) -> Result<BTreeMap<String, Vec<f32>>, String> {
    let home = tempfile::tempdir().expect("a temporary folder");
    fs::copy(golden(name).join("config.json"), home.path().join("config.json")).expect("a copy");
    let views = tensors.iter().map(|(name, (shape, dtype, bytes))| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).expect("bytes for the whole shape"))
    });
    serialize_to_file(views, None, &home.path().join("model.safetensors")).expect("it is written");
    read_folder(home.path()).map_err(|error| error.replace(&home.path().display().to_string(), "FOLDER"))
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, Vec<f32>>, String> {
    let published = PublishedModel::open(folder).expect("a model that is known");
    let layers = published.model.build().expect("a valid model").layers;
    let specs: Vec<_> = layers.iter().flat_map(|layer| layer.layer.parameters()).collect();
    let shapes = specs.iter().map(|spec| (&*spec.name, &*spec.shape));
    let weights =
        PublishedWeights::open(folder, &published, shapes, Fit::Same).map_err(|error| error.to_string())?;
    let values = |spec: &ParameterSpec| {
        let mut values = vec![f32::NAN; spec.num_elements_of_all()];
        weights.read(&spec.name, 0, &mut values).expect("the file is read");
        // Any part of it is the same elements.
        for (first, end) in [(1, values.len()), (values.len() / 3, values.len() / 2 + 1)] {
            let mut part = vec![f32::NAN; end - first];
            weights.read(&spec.name, first, &mut part).expect("the file is read");
            assert_eq!(part, values[first..end], "{} from {first} to {end}", spec.name);
        }
        (spec.name.clone(), values)
    };
    Ok(specs.iter().map(values).collect())
}

#[test]
fn folders_that_do_not_hold_the_model_are_refused_by_name() {
    type Change = fn(&mut Tensors);
    let cases: [(Change, &str); 4] = [
        (
            |tensors| drop(tensors.remove("transformer.h.1.mlp.c_fc.bias")),
            "it has no tensor `transformer.h.1.mlp.c_fc.bias`, which the model of config.json needs",
        ),
        (
            |tensors| {
                let more = tensors["transformer.ln_f.bias"].clone();
                tensors.insert("transformer.adapter".to_owned(), more);
            },
            "it has a tensor `transformer.adapter`, which the model of config.json has not",
        ),
        (
            |tensors| tensors.get_mut("transformer.h.0.attn.c_attn.weight").expect("it is there").0.reverse(),
            "`transformer.h.0.attn.c_attn.weight` is [36, 12], and config.json says [12, 36]",
        ),
        (
            |tensors| tensors.get_mut("transformer.ln_f.bias").expect("it is there").1 = Dtype::I32,
            "`transformer.ln_f.bias` is I32: only F32, F16 and BF16 are read",
        ),
    ];
    for (change, expected) in cases {
        let mut tensors = tensors_of("gpt2-tied");
        change(&mut tensors);
        let refused = read("gpt2-tied", &tensors).expect_err("it is refused");
        assert_eq!(refused, format!("FOLDER/model.safetensors: {expected}"));
    }
    let home = tempfile::tempdir().expect("a temporary folder");
    fs::copy(golden("qwen2").join("config.json"), home.path().join("config.json")).expect("a copy");
    assert!(
        read_folder(home.path())
            .expect_err("no weights")
            .contains("write the model's weights with `save_pretrained`")
    );
    let index = r#"{"weight_map": {"model.norm.weight": "../model.safetensors"}}"#;
    fs::write(home.path().join("model.safetensors.index.json"), index).expect("it is written");
    let refused = read_folder(home.path()).expect_err("the index leads out of the folder");
    assert!(
        refused.ends_with(
            ":1:38: the string \"../model.safetensors\" must be the name of a file beside the index"
        ),
        "{refused}"
    );
}

/// OpenAI's own GPT-2 has names without a prefix, and a mask beside the weights; some tied models have a copy of the table.
#[test]
fn other_forms_of_the_same_weights_are_read_as_the_same() {
    let tensors = tensors_of("gpt2-tied");
    let wanted = read("gpt2-tied", &tensors).expect("it is read");
    let mut bare: Tensors =
        tensors.iter().map(|(name, tensor)| (name.replace("transformer.", ""), tensor.clone())).collect();
    bare.insert("h.0.attn.bias".to_owned(), (vec![1, 1, 1, 4], Dtype::F32, vec![0; 16]));
    bare.insert("lm_head.weight".to_owned(), bare["wte.weight"].clone());
    assert_eq!(read("gpt2-tied", &bare), Ok(wanted));
}

#[test]
fn weights_of_16_bits_are_widened() {
    let narrowed = |to: Dtype| -> Tensors {
        let narrow = |bytes: &[u8; 4]| match to {
            Dtype::F16 => f16::from_f32(f32::from_le_bytes(*bytes)).to_le_bytes(),
            _ => bf16::from_f32(f32::from_le_bytes(*bytes)).to_le_bytes(),
        };
        let of = |(name, (shape, _, bytes)): (String, (Vec<usize>, Dtype, Vec<u8>))| {
            (name, (shape, to, bytes.as_chunks::<4>().0.iter().flat_map(narrow).collect()))
        };
        tensors_of("qwen2").into_iter().map(of).collect()
    };
    let exact = read("qwen2", &tensors_of("qwen2")).expect("it is read");
    for (to, round) in [
        (Dtype::F16, (|value| f16::from_f32(value).to_f32()) as fn(f32) -> f32),
        (Dtype::BF16, |value| bf16::from_f32(value).to_f32()),
    ] {
        let wanted =
            exact.iter().map(|(name, values)| (name.clone(), values.iter().copied().map(round).collect()));
        assert_eq!(read("qwen2", &narrowed(to)), Ok(wanted.collect()), "{to:?}");
    }
}
