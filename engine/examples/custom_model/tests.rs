//! The losses of the example are those of the same model under candle's autograd and candle_nn's AdamW, on one device.

use std::collections::HashMap;

use candle_core::{Var, safetensors};
use candle_nn::loss::cross_entropy;
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

use super::*;

const NUM_STEPS: u64 = 12;

/// The model's mean loss over micro-batches of one step.
fn loss(variables: &HashMap<String, Tensor>, step: u64, run: &Run) -> TensorResult<Tensor> {
    let mut losses = Vec::new();
    for data_rank in 0..run.parallel.data {
        for micro_batch in 0..run.batch.num_micro_batches {
            let mut batch = TokenBatch::zeros(2, SEQ_LENGTH);
            words(step, data_rank, micro_batch, &mut batch).expect("it cannot fail");
            let tokens = |tokens: &[u32]| Tensor::from_slice(tokens, 2 * SEQ_LENGTH, &Device::Cpu);
            let embedded = variables["wte.weight"].index_select(&tokens(&batch.inputs)?, 0)?;
            let mut x = embedded.reshape((2, SEQ_LENGTH, WIDTH))?;
            let parameters = VarBuilder::from_tensors(variables.clone(), DType::F32, &Device::Cpu);
            for index in 0..4 {
                x = block(parameters.pp(format!("h.{index}")), &x)?;
            }
            let logits = x.reshape((2 * SEQ_LENGTH, WIDTH))?.matmul(&variables["lm_head.weight"].t()?)?;
            losses.push(cross_entropy(&logits, &tokens(&batch.targets)?)?);
        }
    }
    Tensor::stack(&losses, 0)?.mean(0)
}

#[test]
fn losses_are_those_of_candles_autograd() {
    let run = run().unwrap();
    let mut engine = engine(run.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    engine.save(&path).unwrap();
    let weights = safetensors::load(&path, &Device::Cpu).unwrap();
    let variables: HashMap<String, Var> =
        weights.into_iter().map(|(name, tensor)| (name, Var::from_tensor(&tensor).unwrap())).collect();
    let tensors = variables.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect();
    let params = ParamsAdamW { lr: 0.01, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 };
    let mut optimizer = AdamW::new(variables.into_values().collect(), params).unwrap();
    let mut losses = Vec::new();
    for step in 1..=NUM_STEPS {
        let expected = loss(&tensors, step, &run).unwrap();
        let found = engine.train_batch().unwrap().loss.unwrap();
        let value = f64::from(expected.to_scalar::<f32>().unwrap());
        // Sums in another order in f32, through a few steps of AdamW.
        assert!((found - value).abs() < 2e-4 * value, "step {step}: {found}, and {value} by candle");
        optimizer.backward_step(&expected).unwrap();
        losses.push(found);
    }
    assert!(losses[NUM_STEPS as usize - 1] < 0.8 * losses[0], "{losses:?}");
}

/// The same bits on other grids, schedules and levels at two data ranks, and with checkpoints; what is measured is what was planned.
#[test]
fn grids_schedules_and_levels_cannot_be_seen() {
    let losses = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
        let file = RunFile::parse("custom_model", RUN).unwrap().set(&changes).unwrap();
        let mut engine = engine(file.resolve(Resources::this_host()).unwrap().0).unwrap();
        let steps: Vec<_> = (0..3).map(|_| engine.train_batch().unwrap()).collect();
        for (measured, planned) in steps[2].measured().iter().zip(&engine.plan().forecast()) {
            assert_eq!(measured.memory, planned.memory, "{changes:?}");
        }
        steps.iter().map(|step| step.loss.unwrap().to_bits()).collect::<Vec<_>>()
    };
    let reference = losses(&["parallel.pipeline=1"]);
    for changes in [
        &["parallel.schedule=gpipe"][..],
        &["parallel.schedule=zb-h1"],
        &["parallel.pipeline=1", "threads=2", "zero_optimization.unit_layers=2"],
        &["parallel.schedule=interleaved", "parallel.virtual_stages=2"],
        &["activation_checkpointing.enabled=true"],
        &["zero_optimization.resident_units=all"],
    ] {
        assert_eq!(losses(changes), reference, "{changes:?}");
    }
}

#[test]
fn a_gpu_is_refused_with_the_layers_name() {
    let mut run = run().unwrap();
    run.device = pipezero::config::DeviceName::Cuda;
    let error = engine(run).err().unwrap().to_string();
    assert!(error.starts_with("layer h.0 runs on the host alone, and the run computes on GPUs"), "{error}");
}
