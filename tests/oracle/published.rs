//! Models of Hugging Face's transformers: their folders are read, and logits, loss, every gradient and five AdamW steps are those that
//! transformers computed (`tests/golden/scripts/published_models.py`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipezero_config::hugging_face::{
    About, ExportForm, ExportType, Fit, HuggingFaceError, PublishedModel, PublishedWeights,
};
use pipezero_config::{BatchConfig, ModelConfig, NoDecay, OptimizerConfig, Run, SchedulerConfig, ZeroLevel};
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_plan::Plan;
use pipezero_run::data::TokenBatch;
use pipezero_run::engine::Engine;
use safetensors::SafeTensors;
use serde_json::Value;
use tests::{Case, Schedule, Weights, small_run, weights_of, zero};

use super::golden::{TOLERANCE, assert_close, count, floats, list, number};

const MODELS: [&str; 10] = [
    "gpt2-tied",
    "gpt2-untied",
    "llama-dynamic",
    "llama-linear",
    "llama-llama3-biases",
    "llama-one-kv-head",
    "llama-yarn-tied",
    "mistral",
    "qwen2",
    "qwen3",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/published").join(name)
}

fn expected(name: &str) -> Value {
    let text = fs::read_to_string(folder(name).join("expected.json")).expect("the figures are there");
    serde_json::from_str(&text).expect("they are JSON")
}

/// The model of a folder, for sequences as long as the golden ones.
fn model(name: &str) -> (PublishedModel, ModelConfig) {
    let published = PublishedModel::open(&folder(name)).expect("a model that is known");
    let mut model = published.model.clone();
    let seq_length = count(&expected(name)["tokens"]) as usize;
    match &mut model {
        ModelConfig::Gpt2(gpt) => gpt.seq_length = seq_length,
        ModelConfig::Llama(llama) => llama.gpt.seq_length = seq_length,
        other => panic!("no published model is {other:?}"),
    }
    (published, model)
}

/// A run of the model on a grid, with all golden sequences of a step as one micro-batch of a data rank, or cut in two.
fn run(name: &str, case: Case, optimizer: OptimizerConfig) -> Run {
    let num_sequences = count(&expected(name)["sequences"]) as usize;
    let num_micro_batches = case.num_micro_batches;
    let micro_batch_size = num_sequences / num_micro_batches / case.data;
    Run {
        model: model(name).1,
        batch: BatchConfig { train_batch_size: num_sequences, micro_batch_size, num_micro_batches },
        optimizer,
        scheduler: SchedulerConfig::Constant,
        gradient_clipping: 0.0,
        ..small_run(case)
    }
}

/// An engine with the folder's weights that trains on the golden tokens.
fn engine(name: &str, run: Run) -> Engine {
    let expected = expected(name);
    let seq_length = run.model.seq_length();
    let batch = run.batch;
    let source = move |step: u64, data_rank: usize, micro_batch: usize, to: &mut TokenBatch| {
        let of_step = |key: &str| -> Vec<u32> {
            let tokens = list(&expected[key][step as usize - 1]).iter();
            tokens.map(|value| value.as_u64().map_or(IGNORED_TARGET, |token| token as u32)).collect()
        };
        let num_tokens = batch.micro_batch_size * seq_length;
        let first = (data_rank * batch.num_micro_batches + micro_batch) * num_tokens;
        to.inputs = of_step("inputs")[first..first + num_tokens].to_vec();
        to.targets = of_step("targets")[first..first + num_tokens].to_vec();
        Ok(())
    };
    let plan = Plan::even_if_refused(run).expect("the golden model keeps every rule");
    let mut engine = Engine::new(plan, Arc::new(source)).expect("ranks start");
    engine.load(&folder(name)).expect("the folder has the model's weights");
    engine
}

/// Tensors of a folder of golden figures, as this program's parameters with these shapes.
fn tensors(folder: &Path, model: &PublishedModel, parameters: &BTreeMap<String, Vec<usize>>) -> Weights {
    let shapes = parameters.iter().map(|(name, shape)| (name.as_str(), &shape[..]));
    let weights =
        PublishedWeights::open(folder, model, shapes, Fit::Same).expect("the figures are of the model");
    let read = |(name, shape): (&String, &Vec<usize>)| {
        let mut values = vec![f32::NAN; shape.iter().product()];
        weights.read(name, 0, &mut values).expect("the file is read");
        (name.clone(), values)
    };
    parameters.iter().map(read).collect()
}

/// Parameters and their shapes.
fn parameters(model: &ModelConfig) -> BTreeMap<String, Vec<usize>> {
    let layers = model.build().expect("a valid model").layers;
    let specs = layers.iter().flat_map(|layer| layer.layer.parameters());
    specs.map(|spec| (spec.name, spec.shape)).collect()
}

fn assert_tensors_close(what: &str, actual: &Weights, golden: &Weights) {
    assert_eq!(actual.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>(), "{what}: names");
    for (name, values) in actual {
        assert_close(&format!("{what} {name}"), values, &golden[name], TOLERANCE);
    }
}

/// The gradients are how far a step of SGD moves the weights, at a rate so large that nothing of them is rounded away.
#[test]
fn logits_loss_and_gradients_equal_those_of_transformers() {
    let lr = f64::from(1 << 20);
    let sgd =
        OptimizerConfig::Sgd { lr, momentum: 0.0, weight_decay: 0.0, no_decay: NoDecay::OneDimensional };
    for name in MODELS {
        let expected = expected(name);
        let (published, model) = model(name);
        let case = Case { num_micro_batches: 1, ..Case::ONE_RANK };
        let mut engine = engine(name, run(name, case, sgd.clone()));
        let mut before = weights_of(&mut engine);
        let inputs: Vec<u32> = list(&expected["inputs"][0]).iter().map(|token| count(token) as u32).collect();
        let seq_length = model.seq_length();
        let mut logits = Vec::new();
        // Angles of the dynamic type depend on how long a sequence is: only whole ones are compared.
        let is_dynamic = name == "llama-dynamic";
        for sequence in inputs.chunks(seq_length) {
            for length in if is_dynamic { seq_length..=seq_length } else { 1..=seq_length } {
                logits.extend(engine.logits(&sequence[..length]).expect("logits"));
            }
        }
        let golden = floats(&expected["logits"]);
        let vocab_size = golden.len() / inputs.len();
        let rows = golden.chunks(vocab_size).enumerate();
        let is_compared = |row: usize| !is_dynamic || (row + 1).is_multiple_of(seq_length);
        let golden: Vec<f32> =
            rows.filter(|(row, _)| is_compared(*row)).flat_map(|(_, row)| row.to_vec()).collect();
        assert_close(&format!("logits of {name}"), &logits, &golden, TOLERANCE);
        let report = engine.train_batch().expect("a step");
        let loss = report.loss.expect("some targets carry loss");
        assert_close(
            &format!("loss of {name}"),
            &[loss as f32],
            &[number(&expected["losses"][0]) as f32],
            TOLERANCE,
        );
        for (name, after) in weights_of(&mut engine) {
            let moved = before.get_mut(&name).expect("a step keeps the names").iter_mut().zip(after);
            moved.for_each(|(before, after)| *before = ((f64::from(*before) - f64::from(after)) / lr) as f32);
        }
        let golden = tensors(&folder(name).join("gradient"), &published, &parameters(&model));
        assert_tensors_close(&format!("gradient of {name}"), &before, &golden);
    }
}

#[test]
fn five_steps_equal_those_of_transformers() {
    let adamw = OptimizerConfig::AdamW {
        lr: 1e-2,
        betas: (0.9, 0.95),
        eps: 1e-4,
        weight_decay: 0.1,
        no_decay: NoDecay::OneDimensional,
    };
    // On one rank, and where each of four ranks reads its part of each parameter.
    let sharded = zero(ZeroLevel::Zero3, pipezero_config::ResidencyConfig::Units(2), 1);
    let grids = [
        Case { num_micro_batches: 1, ..Case::ONE_RANK },
        Case {
            pipeline: 2,
            data: 2,
            num_micro_batches: 2,
            schedule: Schedule::OneFOneB,
            zero: sharded,
            ..Case::ONE_RANK
        },
    ];
    for (name, case) in MODELS.into_iter().flat_map(|name| grids.clone().map(|case| (name, case))) {
        let (published, model) = model(name);
        let mut engine = engine(name, run(name, case, adamw.clone()));
        for golden in list(&expected(name)["losses"]) {
            let loss = engine.train_batch().expect("a step").loss.expect("some targets carry loss");
            assert_close(&format!("loss of {name}"), &[loss as f32], &[number(golden) as f32], TOLERANCE);
        }
        let golden = tensors(&folder(name).join("after"), &published, &parameters(&model));
        assert_tensors_close(&format!("after five steps of {name}"), &weights_of(&mut engine), &golden);
    }
}

/// Every tensor of a folder's safetensors files, as bytes.
fn bytes_of_tensors(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut tensors = BTreeMap::new();
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "safetensors")) {
        let bytes = fs::read(path).expect("the file is read");
        let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        tensors.extend(file.tensors().into_iter().map(|(name, view)| (name, view.data().to_vec())));
    }
    tensors
}

#[test]
fn what_was_read_is_written_again_bit_by_bit() {
    for (name, file_bytes_max) in MODELS.into_iter().flat_map(|name| [(name, 4000), (name, u64::MAX)]) {
        let published = PublishedModel::open(&folder(name)).expect("a model that is known");
        let parameters = parameters(&published.model);
        let weights = tensors(&folder(name), &published, &parameters);
        let home = tempfile::tempdir().expect("a temporary folder");
        let again = PublishedModel::of(&published.model).expect("transformers has it");
        let names = parameters.keys().map(String::as_str);
        let read = |name: &str, first: usize, values: &mut [f32]| {
            values.copy_from_slice(&weights[name][first..first + values.len()]);
            Ok::<(), HuggingFaceError>(())
        };
        let form = ExportForm { file_bytes_max, element: ExportType::F32 };
        let lost = again.export(home.path(), &About::default(), form, names, read);
        assert!(lost.expect("a folder is written").is_empty());
        assert_eq!(bytes_of_tensors(home.path()), bytes_of_tensors(&folder(name)), "{name}");
        let read_back = PublishedModel::open(home.path()).expect("what was written is read");
        assert_eq!(read_back.model, published.model, "{name}");
        assert_eq!(tensors(home.path(), &read_back, &parameters), weights, "{name}");
        let is_in_several = home.path().join("model.safetensors.index.json").exists();
        assert_eq!(is_in_several, file_bytes_max == 4000, "{name}");
    }
}
