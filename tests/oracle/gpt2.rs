//! A two-block GPT-2 against PyTorch: logits, loss, every gradient, and three AdamW steps with clipping that bites.

use std::collections::BTreeMap;

use pipezero_models::gpt2;
use pipezero_models::{Ablation, GptConfig};
use serde_json::Value;

use super::golden::{TOLERANCE, assert_close, count, floats, list, number, read};
use super::trainer::{Batch, Output, Training};

fn training(golden: &Value) -> Training {
    let model = &golden["model"];
    let size = |key: &str| count(&model[key]) as usize;
    let config = GptConfig {
        num_layers: size("num_layers"),
        hidden_size: size("hidden_size"),
        num_attention_heads: size("num_attention_heads"),
        seq_length: size("seq_length"),
        vocab_size: size("vocab_size"),
        tie_embeddings: model["tie_embeddings"].as_bool().expect("tied or not"),
        init_std: 0.02,
        dropout: 0.0,
        ablation: Ablation::None,
    };
    Training::new(&gpt2::build(&config).expect("the golden model keeps every rule"), golden)
}

/// Compares every tensor with the golden one of its name; none may be missing on either side.
fn assert_tensors_close(what: &str, actual: &BTreeMap<String, Vec<f32>>, golden: &Value) {
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

fn assert_losses_close(outputs: &[Output], golden: &Value) {
    let num_targets: Vec<u64> = outputs.iter().map(|output| output.loss.num_targets).collect();
    assert_eq!(num_targets, list(&golden["num_targets"]).iter().map(count).collect::<Vec<_>>());
    let sums: Vec<f32> = outputs.iter().map(|output| output.loss.sum as f32).collect();
    assert_close("loss sums", &sums, &floats(&golden["loss_sums"]), TOLERANCE);
    let sum: f64 = outputs.iter().map(|output| output.loss.sum).sum();
    assert_number_close("loss", sum / num_targets.iter().sum::<u64>() as f64, &golden["loss"]);
}

/// Forward and backward from the golden weights.
fn check_gradients(file: &str) {
    let golden = read(file);
    let mut training = training(&golden);
    let batch = Batch::new(&golden["steps"][0]);
    let outputs = training.accumulate(&batch);
    let logits: Vec<f32> = outputs.iter().flat_map(|output| output.logits.clone()).collect();
    assert_close("logits", &logits, &floats(&golden["logits"]), TOLERANCE);
    assert_losses_close(&outputs, &golden["steps"][0]);

    let scale = batch.loss_scale(&outputs) as f32;
    let mut gradients = training.gradients();
    gradients.values_mut().flatten().for_each(|gradient| *gradient *= scale);
    assert_tensors_close("gradient of", &gradients, &golden["gradients"]);
}

/// Three steps of training.
fn check_training(file: &str) {
    let golden = read(file);
    let mut training = training(&golden);
    for (step, golden) in (1..).zip(list(&golden["steps"])) {
        let batch = Batch::new(golden);
        let outputs = training.accumulate(&batch);
        assert_losses_close(&outputs, golden);
        let norm = training.step(step, batch.loss_scale(&outputs));
        assert_number_close("gradient norm", norm, &golden["grad_norm"]);
    }
    assert_tensors_close("final", &training.weights(), &golden["weights_after"]);
}

#[test]
fn tied_logits_loss_and_gradients_equal_pytorchs() {
    check_gradients("gpt2_tied.json");
}

#[test]
fn untied_logits_loss_and_gradients_equal_pytorchs() {
    check_gradients("gpt2_untied.json");
}

#[test]
fn three_tied_steps_equal_pytorchs() {
    check_training("gpt2_tied.json");
}

#[test]
fn three_untied_steps_equal_pytorchs() {
    check_training("gpt2_untied.json");
}
