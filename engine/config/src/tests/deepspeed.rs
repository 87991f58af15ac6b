//! Files of the kind that DeepSpeed's and Hugging Face's users have, rewritten: each loads with pipezero's sections added,
//! or is refused by the names of what is not offered.

use std::path::PathBuf;

use expect_test::{Expect, expect};

use super::RESOURCES;
use crate::resolved::{Precision, SchedulerConfig, ZeroLevel};
use crate::{ConfigErrors, Notice, Run, RunFile};

const MODEL: &str =
    r#"model={"family":"gpt2","num_layers":8,"hidden_size":64,"num_attention_heads":4,"seq_length":64}"#;

pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/deepspeed")
}

/// The file with a model, a text, an end, four data ranks, and `more`.
pub(super) fn resolve(name: &str, more: &[&str]) -> Result<(Run, Vec<Notice>), ConfigErrors> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let added = [MODEL, r#"data={"text":"a.md"}"#, "steps=100", r#"parallel={"data":4}"#];
    let arguments: Vec<String> = added.iter().chain(more).map(|&argument| argument.to_owned()).collect();
    RunFile::parse("ds.json", &text)?.set(&arguments).unwrap().resolve(RESOURCES)
}

/// A file that loads: its run, and what is said of its keys.
#[track_caller]
fn loads(name: &str, more: &[&str], expected: Expect) -> Run {
    let (run, notices) = resolve(name, more).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    expected.assert_eq(&notices.iter().map(|notice| format!("{notice}\n")).collect::<String>());
    run
}

/// Hugging Face's trainer fills the batch keys of a file that leaves them `"auto"`; here the file's user does.
pub(super) const MICRO_BATCH: &str = "train_micro_batch_size_per_gpu=2";

#[test]
fn zero_1_in_bf16() {
    let run = loads(
        "zero1-bf16.json",
        &[],
        expect![[r#"
            ds.json:4:22: hint: `steps_per_print`: no effect here: every step is a line of `metrics.jsonl`; progress is shown by time, not by steps
            ds.json:7:27: hint: `zero_optimization.reduce_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:8:30: hint: `zero_optimization.allgather_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:14:27: hint: `wall_clock_breakdown`: no effect here: measured times are in the run's metrics
        "#]],
    );
    assert_eq!(
        (run.zero.level, run.precision, run.batch.num_micro_batches),
        (ZeroLevel::Zero1, Precision::Bf16, 4)
    );
    // ZeRO-1 goes with every pipeline.
    resolve("zero1-bf16.json", &["parallel.pipeline=4"]).unwrap();
}

#[test]
fn zero_2_in_fp16() {
    let run = loads(
        "zero2-fp16.json",
        &[],
        expect![[r#"
            ds.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
            ds.json:10:80: warning: `scheduler.params.warmup_num_steps`: the rate warms up over 500 steps, and the run has 100, so it never reaches its highest; write fewer, or "auto", which is a tenth of `steps`
            ds.json:14:18: hint: `fp16.auto_cast`: no effect here: a model's inputs are tokens; activations have the type of the parameters
            ds.json:24:29: hint: `zero_optimization.allgather_partitions`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:25:30: hint: `zero_optimization.allgather_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:27:23: hint: `zero_optimization.reduce_scatter`: no effect here: gradients are always reduce-scattered where they are sharded
            ds.json:28:27: hint: `zero_optimization.reduce_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:29:29: hint: `zero_optimization.contiguous_gradients`: no effect here: each unit's gradients are one flat buffer
            ds.json:31:36: hint: `zero_allow_untested_optimizer`: no effect here: every optimizer here is tested with every ZeRO level
        "#]],
    );
    let Precision::Fp16(scaling) = run.precision else { panic!("{:?}", run.precision) };
    assert_eq!((scaling.initial_scale, scaling.window), (4096.0, 500));
    let errors = resolve("zero2-fp16.json", &["parallel.pipeline=2"]).unwrap_err();
    assert!(errors.to_string().contains("ZeRO-2 is incompatible with pipeline parallelism"), "{errors}");
}

#[test]
fn zero_2_with_auto_everywhere() {
    let run = loads(
        "zero2-auto.json",
        &[MICRO_BATCH],
        expect![[r#"
            ds.json:2:3: hint: `fp16`: computation is in f32, so these keys have no effect: `loss_scale`, `initial_scale_power`, `loss_scale_window`, `hysteresis`, `min_loss_scale`
            ds.json:3:16: auto: `fp16.enabled`: "auto" is false: fp16 needs loss scaling, so only true chooses it
            ds.json:10:24: auto: `bf16.enabled`: "auto" is false: the run computes in f32, since it is on a CPU, which would convert bf16 to f32 to multiply
            ds.json:13:23: auto: `optimizer.params.lr`: "auto" is 0.001
            ds.json:13:40: auto: `optimizer.params.betas`: "auto" is [0.9,0.999]
            ds.json:13:55: auto: `optimizer.params.eps`: "auto" is 1e-8
            ds.json:13:79: auto: `optimizer.params.weight_decay`: "auto" is 0.0
            ds.json:18:24: auto: `scheduler.params.warmup_min_lr`: "auto" is 0.0
            ds.json:19:24: auto: `scheduler.params.warmup_max_lr`: "auto" is 0.001
            ds.json:20:27: auto: `scheduler.params.warmup_num_steps`: "auto" is 10
            ds.json:21:26: auto: `scheduler.params.total_num_steps`: "auto" is 100
            ds.json:26:29: hint: `zero_optimization.allgather_partitions`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:27:30: hint: `zero_optimization.allgather_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:29:23: hint: `zero_optimization.reduce_scatter`: no effect here: gradients are always reduce-scattered where they are sharded
            ds.json:30:27: hint: `zero_optimization.reduce_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:31:29: hint: `zero_optimization.contiguous_gradients`: no effect here: each unit's gradients are one flat buffer
            ds.json:33:34: auto: `gradient_accumulation_steps`: "auto" is 1
            ds.json:34:24: auto: `gradient_clipping`: "auto" is 1.0
            ds.json:35:22: hint: `steps_per_print`: no effect here: every step is a line of `metrics.jsonl`; progress is shown by time, not by steps
            ds.json:36:23: auto: `train_batch_size`: "auto" is 8
            ds.json:38:27: hint: `wall_clock_breakdown`: no effect here: measured times are in the run's metrics
        "#]],
    );
    assert_eq!((run.precision, run.batch.train_batch_size, run.gradient_clipping), (Precision::F32, 8, 1.0));
    assert!(matches!(run.scheduler, SchedulerConfig::WarmupDecayLr { total_num_steps: 100, .. }));
    let errors = resolve("zero2-auto.json", &[]).unwrap_err();
    expect![[r#"
        ds.json:36:23: `train_batch_size` is "auto", but one of `train_batch_size` and `train_micro_batch_size_per_gpu` must be a number: no trainer fills them in here, and nothing else says how large a batch is; write a number for one of the two
    "#]].assert_eq(&format!("{errors}\n"));
}

#[test]
fn zero_3_with_auto_everywhere() {
    let run = loads(
        "zero3-auto.json",
        &[MICRO_BATCH],
        expect![[r#"
            ds.json:2:24: auto: `bf16.enabled`: "auto" is false: the run computes in f32, since it is on a CPU, which would convert bf16 to f32 to multiply
            ds.json:3:24: auto: `fp16.enabled`: "auto" is false: fp16 needs loss scaling, so only true chooses it
            ds.json:6:23: auto: `optimizer.params.lr`: "auto" is 0.001
            ds.json:6:40: auto: `optimizer.params.betas`: "auto" is [0.9,0.999]
            ds.json:6:55: auto: `optimizer.params.eps`: "auto" is 1e-8
            ds.json:6:79: auto: `optimizer.params.weight_decay`: "auto" is 0.0
            ds.json:10:34: auto: `scheduler.params.warmup_min_lr`: "auto" is 0.0
            ds.json:10:59: auto: `scheduler.params.warmup_max_lr`: "auto" is 0.001
            ds.json:10:87: auto: `scheduler.params.warmup_num_steps`: "auto" is 10
            ds.json:15:29: hint: `zero_optimization.contiguous_gradients`: no effect here: each unit's gradients are one flat buffer
            ds.json:16:23: hint: `zero_optimization.sub_group_size`: no effect here: the optimizer updates unit by unit
            ds.json:17:27: hint: `zero_optimization.reduce_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
            ds.json:18:36: hint: `zero_optimization.stage3_prefetch_bucket_size`: no effect here: `prefetch_units` sets how far ahead gathers are issued
            ds.json:19:43: auto: `zero_optimization.stage3_param_persistence_threshold`: "auto" is 640
            ds.json:20:35: hint: `zero_optimization.stage3_max_live_parameters`: no effect here: `resident_units` bounds what is gathered
            ds.json:21:34: hint: `zero_optimization.stage3_max_reuse_distance`: no effect here: `resident_units` bounds what is gathered; the program decides what stays
            ds.json:22:50: hint: `zero_optimization.stage3_gather_16bit_weights_on_model_save`: no effect here: weights are always saved whole, gathered unit by unit
            ds.json:24:34: auto: `gradient_accumulation_steps`: "auto" is 1
            ds.json:25:24: auto: `gradient_clipping`: "auto" is 1.0
            ds.json:26:23: auto: `train_batch_size`: "auto" is 8
        "#]],
    );
    assert_eq!((run.zero.level, run.zero.param_persistence_threshold), (ZeroLevel::Zero3, 640));
    // What DeepSpeed refuses: the same file with a pipeline.
    resolve("zero3-auto.json", &[MICRO_BATCH, "parallel.pipeline=2"]).unwrap();
}

#[test]
fn zero_3_with_many_hints() {
    let run = loads(
        "zero3-hints.json",
        &[],
        expect![[r#"
            ds.json:4:22: hint: `steps_per_print`: no effect here: every step is a line of `metrics.jsonl`; progress is shown by time, not by steps
            ds.json:5:17: hint: `dump_state`: no effect here: `pipezero check --json` prints the resolved configuration
            ds.json:8:100: hint: `optimizer.params.torch_adam`: no effect here: there is one AdamW
            ds.json:11:55: hint: `bf16.immediate_grad_update`: no effect here: `zero_optimization.reduce` decides when gradients are reduced
            ds.json:16:35: hint: `zero_optimization.stage3_max_live_parameters`: no effect here: `resident_units` bounds what is gathered
            ds.json:17:34: hint: `zero_optimization.stage3_max_reuse_distance`: no effect here: `resident_units` bounds what is gathered; the program decides what stays
            ds.json:20:49: hint: `zero_optimization.stage3_gather_fp16_weights_on_model_save`: no effect here: weights are always saved whole, gathered unit by unit
            ds.json:23:30: hint: `zero_optimization.round_robin_gradients`: no effect here: each data rank owns one contiguous shard of each unit
            ds.json:26:30: hint: `activation_checkpointing.partition_activations`: no effect here: it splits saved activations over the ranks of tensor parallelism, and there are none
            ds.json:28:39: hint: `activation_checkpointing.contiguous_memory_optimization`: no effect here: saved activations lie in buffers that the plan sizes, allocated once
            ds.json:29:27: hint: `activation_checkpointing.number_checkpoints`: no effect here: buffers are sized from the plan; `every_layers` sets how much is kept
            ds.json:30:40: hint: `activation_checkpointing.synchronize_checkpoint_boundary`: no effect here: the program orders compute and communication
            ds.json:31:16: hint: `activation_checkpointing.profile`: no effect here: measured times are in the run's metrics
            ds.json:33:18: hint: `tensorboard`: no effect here: each step is one line of `metrics.jsonl` in the run's folder
            ds.json:34:19: hint: `comms_logger`: no effect here: messages and bytes are always counted by kind and rank
            ds.json:35:21: hint: `flops_profiler`: no effect here: measured times are in the run's metrics
        "#]],
    );
    let thresholds = (run.zero.param_persistence_threshold, run.zero.model_persistence_threshold);
    assert_eq!((run.precision, thresholds), (Precision::Bf16, (100_000, 10_000_000)));
}

/// Each refusal is at the key that asks for it, and nothing else is wrong.
#[test]
fn what_would_change_memory_or_numbers_is_refused_by_name() {
    for (name, expected) in [
        (
            "refused-amp.json",
            expect![[r#"
                ds.json:4:10: `amp` is an object, but automatic mixed precision (apex amp) is not offered; remove it; `bf16` selects precision
                ds.json:5:30: `communication_data_type` is the string "fp16", but reduction in another type than f32 is not offered; remove it, or write "fp32"
            "#]],
        ),
        (
            "refused-onebit-adam.json",
            expect![[r#"
                ds.json:5:13: `optimizer.type` is "OneBitAdam", but that is not offered; use "AdamW", "Adam" or "SGD"
            "#]],
        ),
        (
            "refused-tensor-parallel.json",
            expect![[r#"
                ds.json:4:22: `tensor_parallel` is an object, but tensor parallelism is not offered; remove it; `parallel.pipeline` and ZeRO-3 split the model instead
                ds.json:6:85: `activation_checkpointing.cpu_checkpointing` is true, but offload of activations is not offered; remove it, or set false
            "#]],
        ),
        (
            "refused-zero2-cpu-offload.json",
            expect![[r#"
                ds.json:6:26: `zero_optimization.offload_optimizer` is an object, but offload of the optimizer is not offered; remove it; more data ranks shard the optimizer further
            "#]],
        ),
        (
            "refused-zero3-nvme-offload.json",
            expect![[r#"
                ds.json:6:26: `zero_optimization.offload_optimizer` is an object, but offload of the optimizer is not offered; remove it; more data ranks shard the optimizer further
                ds.json:7:22: `zero_optimization.offload_param` is an object, but offload of parameters is not offered; remove it; ZeRO-3 with smaller units gathers less at once
            "#]],
        ),
        (
            "refused-zeropp.json",
            expect![[r#"
                ds.json:7:31: `zero_optimization.zero_quantized_weights` is true, but quantised gathering (ZeRO++) is not offered; remove it, or set false
                ds.json:8:32: `zero_optimization.zero_hpz_partition_size` is 16, but a secondary copy of the weights in each host (ZeRO++ hpZ) is not offered; remove it, or set 1
                ds.json:9:33: `zero_optimization.zero_quantized_gradients` is true, but quantised reduction (ZeRO++) is not offered; remove it, or set false
            "#]],
        ),
    ] {
        expected.assert_eq(&format!("{}\n", resolve(name, &[]).unwrap_err()));
    }
}
