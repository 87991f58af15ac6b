//! A two-block GPT-2 on an engine of one rank against PyTorch: logits, loss, every gradient, and three AdamW steps that are
//! all clipped. That other grids give the same bits as one rank is tested elsewhere.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{BatchConfig, ModelConfig, NoDecay, OptimizerConfig, Run, SchedulerConfig};
use pipezero_models::GptConfig;
use pipezero_models::layer::IGNORED_TARGET;
use pipezero_plan::Plan;
use pipezero_run::data::TokenBatch;
use pipezero_run::engine::{Engine, StepReport};
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;
use tests::{Case, Weights, small_gpt, small_run, weights_of};

use super::golden::{TOLERANCE, assert_close, count, floats, list, number, read};
use super::optimizers::adamw;

const FILES: [&str; 2] = ["gpt2_tied.json", "gpt2_untied.json"];

/// An engine with the golden weights that trains on the golden batches.
fn engine(golden: &Value, optimizer: OptimizerConfig, gradient_clipping: f64) -> Engine {
    let model = &golden["model"];
    let size = |key: &str| count(&model[key]) as usize;
    let config = GptConfig {
        num_layers: size("num_layers"),
        hidden_size: size("hidden_size"),
        num_attention_heads: size("num_attention_heads"),
        seq_length: size("seq_length"),
        vocab_size: size("vocab_size"),
        ..small_gpt(model["tie_embeddings"] == true)
    };
    let micro_batch_size = count(&golden["micro_batch_size"]) as usize;
    let num_micro_batches = list(&golden["steps"][0]["inputs"]).len();
    let train_batch_size = micro_batch_size * num_micro_batches;
    let run = Run {
        model: ModelConfig::Gpt2(config),
        batch: BatchConfig { train_batch_size, micro_batch_size, num_micro_batches },
        optimizer,
        scheduler: SchedulerConfig::Constant,
        gradient_clipping,
        ..small_run(Case::ONE_RANK)
    };
    let steps = golden["steps"].clone();
    let batches = move |step: u64, _: usize, micro_batch: usize, batch: &mut TokenBatch| {
        let step = &steps[step as usize - 1];
        batch.inputs = tokens(&step["inputs"][micro_batch]);
        batch.targets = tokens(&step["targets"][micro_batch]);
        Ok(())
    };
    let plan = Plan::even_if_refused(run).expect("the golden model keeps every rule");
    let mut engine = Engine::new(plan, Arc::new(batches)).expect("a rank starts");
    load(&mut engine, &golden["weights"]);
    engine
}

/// The tokens of a micro-batch; a target without loss is `null`.
pub(super) fn tokens(row: &Value) -> Vec<u32> {
    list(row).iter().map(|value| value.as_u64().map_or(IGNORED_TARGET, |token| token as u32)).collect()
}

fn load(engine: &mut Engine, weights: &Value) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("weights.safetensors");
    write_weights(&path, weights);
    engine.load(&path).expect("the golden weights are those of the model");
}

/// Writes golden weights to a file, as an engine would.
pub(super) fn write_weights(path: &Path, weights: &Value) {
    let tensors: Vec<(&String, Vec<usize>, Vec<u8>)> = weights
        .as_object()
        .expect("tensors by name")
        .iter()
        .map(|(name, tensor)| {
            let shape = list(&tensor["shape"]).iter().map(|size| count(size) as usize).collect();
            (name, shape, floats(&tensor["values"]).into_iter().flat_map(f32::to_le_bytes).collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("values for the whole shape"))
    });
    serialize_to_file(views, None, path).expect("the weights are written");
}

/// Compares every tensor with the golden one of its name; none may be missing on either side.
pub(super) fn assert_tensors_close(what: &str, actual: &Weights, golden: &Value) {
    let golden = golden.as_object().expect("tensors by name");
    let mut expected: Vec<&String> = golden.keys().collect();
    expected.sort();
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected, "{what}: names");
    for (name, values) in actual {
        assert_close(&format!("{what} {name}"), values, &floats(&golden[name]["values"]), TOLERANCE);
    }
}

fn assert_number_close(what: &str, actual: f64, golden: &Value) {
    assert_close(what, &[actual as f32], &[number(golden) as f32], TOLERANCE);
}

fn assert_loss_close(report: &StepReport, golden: &Value) {
    assert_eq!(report.num_targets, list(&golden["num_targets"]).iter().map(count).sum::<u64>());
    assert_number_close("loss", report.loss.expect("some targets carry loss"), &golden["loss"]);
}

/// The gradients are how far a step of SGD moves the weights, at a rate so large that nothing of them is rounded away.
#[test]
fn logits_loss_and_gradients_equal_pytorchs() {
    let lr = f64::from(1 << 20);
    let sgd =
        OptimizerConfig::Sgd { lr, momentum: 0.0, weight_decay: 0.0, no_decay: NoDecay::OneDimensional };
    for golden in FILES.map(read) {
        let mut engine = engine(&golden, sgd.clone(), 0.0);
        let mut logits = Vec::new();
        let seq_length = engine.plan().micro_batch_shape().seq_length;
        for inputs in list(&golden["steps"][0]["inputs"]).iter().map(tokens) {
            for (sequence, last) in
                inputs.chunks(seq_length).flat_map(|row| (1..=seq_length).map(move |n| (row, n)))
            {
                logits.extend(engine.logits(&sequence[..last]).expect("logits"));
            }
        }
        assert_close("logits", &logits, &floats(&golden["logits"]), TOLERANCE);
        let mut gradients = weights_of(&mut engine);
        assert_loss_close(&engine.train_batch().expect("a step"), &golden["steps"][0]);
        for (name, after) in weights_of(&mut engine) {
            let moved = gradients.get_mut(&name).expect("a step keeps the names").iter_mut().zip(after);
            moved.for_each(|(before, after)| *before = ((f64::from(*before) - f64::from(after)) / lr) as f32);
        }
        assert_tensors_close("gradient of", &gradients, &golden["gradients"]);
    }
}

#[test]
fn three_steps_equal_pytorchs() {
    for golden in FILES.map(read) {
        let optimizer = &golden["optimizer"];
        let mut engine = engine(&golden, adamw(optimizer), number(&optimizer["max_norm"]));
        for golden in list(&golden["steps"]) {
            let report = engine.train_batch().expect("a step");
            assert_loss_close(&report, golden);
            assert_number_close("gradient norm", report.gradient_norm, &golden["grad_norm"]);
        }
        assert_tensors_close("final", &weights_of(&mut engine), &golden["weights_after"]);
    }
}
