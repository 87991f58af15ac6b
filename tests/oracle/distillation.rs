//! A student that learns from a teacher's logits against PyTorch: three AdamW steps that are all clipped, for three temperatures. The teacher
//! computes in f32 with ZeRO-3 on a pipeline; the student on two data ranks with ZeRO-2, in f32 and in bf16.

use std::path::Path;
use std::sync::Arc;

use pipezero_config::{
    BatchConfig, ModelConfig, Precision, ResidencyConfig, Run, SchedulerConfig, ZeroLevel,
};
use pipezero_models::{Distillation, DistillationLoss, GptConfig};
use pipezero_plan::Plan;
use pipezero_run::data::TokenBatch;
use pipezero_run::engine::{Engine, InitialState};
use pipezero_run::world::world_of;
use pipezero_train::Teacher;
use serde_json::Value;
use tests::{Case, small_gpt, small_run, weights_of, zero};

use super::golden::{TOLERANCE, assert_close, count, list, number, read};
use super::gpt2::{assert_tensors_close, tokens, write_weights};
use super::optimizers::adamw;

/// In bf16 a number has 8 bits: single products and activations are off by up to 0.4%, and a loss is a sum of many.
const OF_BF16: f64 = 2e-2;

/// A run of the golden batches with the sizes of one of the two models.
fn run(golden: &Value, of: &str, case: Case) -> Run {
    let size = |value: &Value| count(value) as usize;
    let config = GptConfig {
        num_layers: size(&golden[of]["num_layers"]),
        hidden_size: size(&golden[of]["hidden_size"]),
        num_attention_heads: size(&golden["num_attention_heads"]),
        seq_length: size(&golden["seq_length"]),
        vocab_size: size(&golden["vocab_size"]),
        ..small_gpt(false)
    };
    let (micro_batch_size, num_micro_batches) = (size(&golden["micro_batch_size"]), case.num_micro_batches);
    let train_batch_size = micro_batch_size * num_micro_batches * case.data;
    Run {
        model: ModelConfig::Gpt2(config),
        batch: BatchConfig { train_batch_size, micro_batch_size, num_micro_batches },
        optimizer: adamw(&golden["optimizer"]),
        scheduler: SchedulerConfig::Constant,
        gradient_clipping: number(&golden["optimizer"]["max_norm"]),
        ..small_run(case)
    }
}

fn teacher(golden: &Value, weights: &Path) -> Teacher {
    let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let case = Case { pipeline: 2, num_micro_batches: 2, zero, ..Case::ONE_RANK };
    let plan =
        Plan::even_if_refused(run(golden, "teacher", case)).expect("the golden model keeps every rule");
    let world = world_of(&plan).expect("threads");
    Teacher::start("teacher".to_owned(), plan, world, weights).expect("ranks start")
}

#[test]
fn steps_of_a_student_equal_pytorchs() {
    let golden = read("distillation.json");
    let home = tempfile::tempdir().expect("a temporary folder");
    let files = ["student", "teacher"].map(|of| {
        let path = home.path().join(of);
        write_weights(&path, &golden[of]["weights"]);
        path
    });
    for (case, precision) in
        list(&golden["cases"]).iter().flat_map(|case| [(case, Precision::F32), (case, Precision::Bf16)])
    {
        let distillation =
            Distillation { temperature: number(&case["temperature"]), alpha: number(&case["alpha"]) };
        let zero = zero(ZeroLevel::Zero2, ResidencyConfig::Units(1), 0);
        let run = run(
            &golden,
            "student",
            Case { data: 2, num_micro_batches: 1, zero, precision, ..Case::ONE_RANK },
        );
        let vocab_size = count(&golden["vocab_size"]) as usize;
        let model = run.model.build_with_loss(Arc::new(DistillationLoss { distillation, vocab_size }));
        let plan = Plan::with_model(run, model.expect("valid sizes")).expect("a valid run");
        let batches = golden["batches"].clone();
        let source = move |step: u64, data_rank: usize, _: usize, batch: &mut TokenBatch| {
            let step = &batches[step as usize - 1];
            batch.inputs = tokens(&step["inputs"][data_rank]);
            batch.targets = tokens(&step["targets"][data_rank]);
            Ok(())
        };
        let mut teacher = teacher(&golden, &files[1]);
        let source = teacher.teach(&plan, Arc::new(source));
        let (world, state) = (world_of(&plan).expect("threads"), InitialState::Weights(files[0].clone()));
        let mut engine = Engine::with_state(plan, source, world, &state).expect("ranks start");
        let tolerance = if precision == Precision::F32 { TOLERANCE } else { OF_BF16 };
        for (step, golden) in (1..).zip(list(&case["steps"])) {
            teacher.compute(step).expect("logits");
            let report = engine.train_batch().expect("a step");
            let name = |what| format!("{what} of step {step}, {distillation:?}, {precision:?}");
            let loss = report.loss.expect("some targets carry loss") as f32;
            assert_close(&name("loss"), &[loss], &[number(&golden["loss"]) as f32], tolerance);
            let norm = report.gradient_norm as f32;
            assert_close(
                &name("gradient norm"),
                &[norm],
                &[number(&golden["grad_norm"]) as f32],
                2.0 * tolerance,
            );
        }
        if precision == Precision::F32 {
            assert_tensors_close("final", &weights_of(&mut engine), &case["weights_after"]);
        }
    }
}
