//! Training on GPUs: along the host's losses, and to the same bits on every grid and on one GPU or several.

use std::collections::HashMap;
use std::sync::Arc;

use pipezero_config::{DeviceName, Precision, ResidencyConfig, Run, ZeroLevel};
use pipezero_models::family::ModelConfig;
use pipezero_models::{Device, Distillation, DistillationLoss, Host};
use pipezero_plan::Plan;
use pipezero_run::data::{BatchSource, TokenBatch};
use pipezero_run::engine::{BatchLogits, Engine};
use tests::{
    Case, EncoderBatches, Lengths, Mask, RandomBatches, Sample, Schedule, assert_bit_identical, grids,
    plan_with_encoder, small_run, train, train_on_devices, train_plan_on, train_with, two_steps, zero,
};

use super::devices;

/// How far losses and gradient norms may be from the host's, as a share: both add in f32 and in other orders; in 16 bits a sum near the middle
/// of two values is rounded to the other one, and a GPU rounds within layers too. Weights are not compared: AdamW makes a step of the same length of a
/// gradient that is rounding alone, as that of a key's bias is.
fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 1e-5,
        Precision::Tf32 => 2e-3,
        Precision::Fp16(_) => 5e-3,
        Precision::Bf16 => 2e-2,
    }
}

/// A run for GPUs: in 16 bits with heads that tensor cores take.
pub(super) fn on_gpus(mut run: Run) -> Run {
    let is_half = matches!(run.precision, Precision::Bf16 | Precision::Fp16(_));
    if let (ModelConfig::Gpt2(model), true) = (&mut run.model, is_half) {
        (model.hidden_size, model.num_attention_heads) = (32, 2);
    }
    Run { device: DeviceName::Cuda, ..run }
}

fn assert_near(name: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let share = (found - expected).abs() / expected;
        assert!(
            share <= tolerance,
            "{found} is {share:.1e} from the host's {expected}, step {step} of {name}"
        );
    }
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn every_grid_gives_the_bits_of_one_pipeline_rank_and_the_losses_of_the_host() {
    let devices = devices();
    let mut references = HashMap::new();
    let mut sample = Sample::one_in(3, "grid on a GPU, to the bits of one pipeline rank there");
    for case in grids().into_iter().filter(|_| sample.takes_next()) {
        let name = format!("{case:?}");
        let run = on_gpus(two_steps(case.clone()));
        let trained = train_on_devices(&devices, run.clone(), Mask::Uneven).expect("it trains");
        let on_host = train(Run { device: DeviceName::Cpu, ..run }, Mask::Uneven);
        let tolerance = tolerance(case.precision);
        assert_near(&name, &trained.losses, &on_host.losses, tolerance);
        assert_near(&name, &trained.norms, &on_host.norms, tolerance);
        let reference = case.reference();
        let reference = references.entry(format!("{reference:?}")).or_insert_with(|| {
            train_on_devices(&devices[..1], on_gpus(two_steps(reference)), Mask::Uneven).expect("it trains")
        });
        assert_bit_identical(&trained, reference, &name);
    }
}

/// Products, tiles of attention and messages of other sizes in each micro-batch.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn micro_batches_of_different_lengths_give_the_bits_of_one_pipeline_rank() {
    let devices = devices();
    for precision in [Precision::F32, Precision::Bf16] {
        let grid = Case { pipeline: 2, data: 2, num_micro_batches: 4, precision, ..Case::ONE_RANK };
        let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
        for case in [grid.clone(), Case { schedule: Schedule::ZbV, zero, ..grid }] {
            let name = format!("{case:?}");
            let [trained, reference] = [case.clone(), case.reference()].map(|case| {
                let plan = Plan::even_if_refused(on_gpus(two_steps(case))).expect("a valid run");
                let source = RandomBatches::for_plan(&plan, Mask::None).with_lengths(Lengths::Drawn);
                train_plan_on(&devices, plan, Arc::new(source)).expect("it trains")
            });
            assert_bit_identical(&trained, &reference, &name);
        }
    }
}

/// Other kernels in each micro-batch, of other sizes.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn an_encoder_gives_the_bits_of_one_pipeline_rank_and_goes_along_that_of_the_host() {
    let devices = devices();
    for precision in [Precision::F32, Precision::Bf16] {
        let case = Case { pipeline: 2, data: 2, num_micro_batches: 4, precision, ..Case::ONE_RANK };
        let plan_of = |case| plan_with_encoder(on_gpus(two_steps(case)));
        let trained = |plan: Plan| {
            let source = EncoderBatches::new(&plan, RandomBatches::for_plan(&plan, Mask::None), 5).shared();
            train_plan_on(&devices, plan, source).expect("it trains")
        };
        let grid = trained(plan_of(case.clone()));
        assert_bit_identical(&grid, &trained(plan_of(case.clone().reference())), &format!("{case:?}"));
        let on_host = plan_with_encoder(Run { device: DeviceName::Cpu, ..on_gpus(two_steps(case)) });
        let source = EncoderBatches::new(&on_host, RandomBatches::for_plan(&on_host, Mask::None), 5).shared();
        let on_host = train_with(on_host, source, |_| {});
        assert_near(&format!("{precision:?}"), &grid.losses, &on_host.losses, tolerance(precision));
    }
}

/// What the source says of each token, for a loss that reads as many values of it as there are tokens to choose from.
fn with_logits(plan: &Plan) -> Arc<dyn BatchSource> {
    let num_values = plan.vocab_size();
    Arc::new(RandomBatches::for_plan(plan, Mask::Uneven).edited(move |_, _, batch| {
        let TokenBatch { inputs, loss_inputs, .. } = batch;
        let value = |token: u32, column: usize| ((31 * token as usize + 7 * column) % 13) as f32 / 4.0;
        loss_inputs
            .extend(inputs.iter().flat_map(|&token| (0..num_values).map(move |column| value(token, column))));
        Ok(())
    }))
}

/// A student learns from logits that the source gives, and says its own of a whole batch.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn values_for_a_loss_and_logits_of_a_batch_cross_the_edge_of_a_device() {
    let devices = devices();
    let hosts: [Arc<dyn Device>; 1] = [Arc::new(Host)];
    let plan_of = |case: Case, device: DeviceName| {
        let run = Run { device, ..on_gpus(two_steps(case)) };
        let distillation = Distillation { temperature: 2.0, alpha: 0.5 };
        let loss =
            DistillationLoss { distillation, vocab_size: run.model.gpt().expect("a vocabulary").vocab_size };
        let model = run.model.build_with_loss(Arc::new(loss)).expect("valid sizes");
        Plan::with_model(run, model).expect("a valid run")
    };
    for precision in [Precision::F32, Precision::Bf16] {
        let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
        let case = Case { pipeline: 2, data: 2, zero, precision, ..Case::ONE_RANK };
        let name = format!("{case:?}");
        let of = |case: Case, device, devices: &[Arc<dyn Device>]| {
            let plan = plan_of(case, device);
            train_plan_on(devices, plan.clone(), with_logits(&plan)).expect("it trains")
        };
        let trained = of(case.clone(), DeviceName::Cuda, &devices);
        let reference = of(case.clone().reference(), DeviceName::Cuda, &devices[..1]);
        assert_bit_identical(&trained, &reference, &name);
        let on_host = of(case.clone(), DeviceName::Cpu, &hosts);
        assert_near(&name, &trained.losses, &on_host.losses, tolerance(precision));
        let [of_device, of_host] =
            [(DeviceName::Cuda, &devices[..]), (DeviceName::Cpu, &hosts[..])].map(|(device, devices)| {
                let plan = plan_of(case.clone(), device);
                let logits = Arc::new(BatchLogits::for_plan(&plan).expect("there is memory"));
                let (source, num_values) = (with_logits(&plan), plan.vocab_size());
                let mut engine = Engine::on_devices(plan, Arc::clone(&source), devices).expect("ranks start");
                engine.batch_logits(&source, 1, &logits).expect("logits");
                assert_eq!(logits.num_logits(), num_values);
                (0..8).flat_map(|sequence| logits.read(sequence, 6, <[f32]>::to_vec)).collect::<Vec<f32>>()
            });
        let largest = of_host.iter().fold(0.0_f32, |max, logit| max.max(logit.abs()));
        for (found, expected) in of_device.iter().zip(&of_host) {
            let share = f64::from((found - expected).abs() / largest);
            assert!(share <= tolerance(precision), "{found} against {expected} in {name}");
        }
    }
}

/// Differences grow with the steps: after so few they are those of the types.
#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn losses_go_along_those_of_the_host() {
    let mut losses = Vec::new();
    for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
        let case = Case { precision, ..Case::ONE_RANK };
        let run = on_gpus(Run { steps: 20, ..small_run(case) });
        let trained = train(run.clone(), Mask::None);
        let on_host = train(Run { device: DeviceName::Cpu, ..run }, Mask::None);
        assert_near(&format!("{precision:?}"), &trained.losses, &on_host.losses, tolerance(precision));
        losses.push(trained.losses);
    }
    assert_ne!(losses[0], losses[1], "TF32 was asked for, and f32 was computed");
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn grids_give_the_same_bits_in_tf32() {
    let case = Case { pipeline: 2, data: 2, precision: Precision::Tf32, ..Case::ONE_RANK };
    let name = format!("{case:?}");
    let [trained, reference] =
        [case.clone(), case.reference()].map(|case| train(on_gpus(two_steps(case)), Mask::Uneven));
    assert_bit_identical(&trained, &reference, &name);
}
