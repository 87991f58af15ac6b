//! The three classes of DeepSpeed's keys.

use expect_test::expect;

use super::{check, file, outcome};
use crate::keys::{self, Meaning, Off, Offer};
use crate::raw::RawRun;
use crate::section::Section;

#[test]
fn hints_get_one_line_each() {
    let changes = [
        ("steps_per_print", "10"),
        ("wall_clock_breakdown", "false"),
        ("zero_optimization", r#"{"stage": 1, "overlap_comm": true, "reduce_bucket_size": "auto"}"#),
        ("parallel", r#"{"data": 2}"#),
        ("$schema", "\"run.schema.json\""),
    ];
    check(
        &changes,
        expect![[r#"
            run.json:6:22: hint: `steps_per_print`: no effect here: every step is a line of `metrics.jsonl`; progress is shown by time, not by steps
            run.json:7:27: hint: `wall_clock_breakdown`: no effect here: measured times are in the run's metrics
            run.json:8:81: hint: `zero_optimization.reduce_bucket_size`: no effect here: each unit is gathered and reduced by one collective; `unit_layers` sets its size
        "#]],
    );
}

#[test]
fn features_that_are_not_offered_are_named() {
    let changes = [
        ("amp", r#"{"enabled": true, "opt_level": "O1"}"#),
        ("tensor_parallel", r#"{"autotp_size": 4}"#),
        ("communication_data_type", "\"bf16\""),
        ("gradient_predivide_factor", "2.0"),
        (
            "zero_optimization",
            r#"{"stage": 3, "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "nvme"},
          "zero_quantized_weights": true, "zero_hpz_partition_size": 8, "mics_shard_size": 4,
          "stage3_gather_fp16_weights_on_model_save": true, "include": ["h.0"]}"#,
        ),
        ("activation_checkpointing", r#"{"cpu_checkpointing": true, "profile": true}"#),
        ("checkpoint", r#"{"every": 100, "tag_validation": "Warn"}"#),
        ("data_types", r#"{"grad_accum_dtype": "bf16"}"#),
        ("elasticity", r#"{"enabled": true}"#),
    ];
    check(
        &changes,
        expect![[r#"
            run.json:6:10: `amp` is an object, but automatic mixed precision (apex amp) is not offered; remove it; `bf16` selects precision
            run.json:7:22: `tensor_parallel` is an object, but tensor parallelism is not offered; remove it; `parallel.pipeline` and ZeRO-3 split the model instead
            run.json:8:30: `communication_data_type` is the string "bf16", but reduction in another type than f32 is not offered; remove it, or write "fp32"
            run.json:9:32: `gradient_predivide_factor` is 2.0, but dividing gradients before the reduction is not offered; remove it: gradients are reduced in f32 and cannot overflow there
            run.json:10:54: `zero_optimization.offload_param` is an object, but offload of parameters is not offered; remove it; ZeRO-3 with smaller units gathers less at once
            run.json:10:94: `zero_optimization.offload_optimizer` is an object, but offload of the optimizer is not offered; remove it; more data ranks shard the optimizer further
            run.json:11:37: `zero_optimization.zero_quantized_weights` is true, but quantised gathering (ZeRO++) is not offered; remove it, or set false
            run.json:11:70: `zero_optimization.zero_hpz_partition_size` is 8, but a secondary copy of the weights in each host (ZeRO++ hpZ) is not offered; remove it, or set 1
            run.json:11:92: `zero_optimization.mics_shard_size` is 4, but MiCS (sharding over a part of the data ranks) is not offered; remove it, or set -1
            run.json:12:72: `zero_optimization.include` is a list, but a list of what is sharded alone is not offered yet; write "parameters": ["whole:.", "sharded:REGEX"]
            run.json:13:53: `activation_checkpointing.cpu_checkpointing` is true, but offload of activations is not offered; remove it, or set false
            run.json:15:38: `data_types.grad_accum_dtype` is the string "bf16", but accumulation in another type than f32 is not offered; remove it, or write "fp32"
            run.json:16:17: `elasticity` is an object, but elasticity is not offered; remove it and write the batch keys
        "#]],
    );
}

#[test]
fn features_that_are_switched_off_are_accepted_in_silence() {
    let changes = [
        ("amp", r#"{"enabled": false}"#),
        ("elasticity", "{}"),
        ("tensor_parallel", r#"{"autotp_size": 1, "tp": {"tp_size": 1}}"#),
        ("expert_parallel", r#"{"enabled": false, "autoep_size": 8}"#),
        ("hybrid_engine", r#"{"enabled": "auto", "max_out_tokens": 256}"#),
        ("communication_data_type", "null"),
        ("prescale_gradients", "false"),
        ("gradient_predivide_factor", "1"),
        (
            "zero_optimization",
            r#"{"offload_param": {"device": "none"}, "offload_optimizer": "auto", "mics_shard_size": -1,
          "zero_hpz_partition_size": "auto", "zenflow": null}"#,
        ),
        ("activation_checkpointing", r#"{"cpu_checkpointing": null}"#),
        ("data_types", r#"{"grad_accum_dtype": "fp32"}"#),
    ];
    check(
        &changes,
        expect![[r#"
            valid
        "#]],
    );
}

/// A section's line speaks for the keys that DeepSpeed knows in it, and for no others.
#[test]
fn sections_without_effect_have_known_keys() {
    check(
        &[
            ("pipeline", r#"{"stages": "auto", "partition": "uniform", "seed_layers": true}"#),
            ("compile", r#"{"double_buffer": true}"#),
            ("timers", r#"{"throughput": {"enabled": true}}"#),
            ("activation_checkpointing", r#"{"partition_activations": true}"#),
            ("comms_config", r#"{"comms_logger": {"enabled": true}}"#),
        ],
        expect![[r#"
            run.json:6:15: hint: `pipeline`: no effect here: `parallel` holds the pipeline's keys; DeepSpeed reads its degree from Python alone
            run.json:7:14: hint: `compile`: no effect here: there is no PyTorch, and so no torch.compile
            run.json:8:13: hint: `timers`: no effect here: measured times are in the run's metrics
            run.json:9:57: hint: `activation_checkpointing.partition_activations`: no effect here: it splits saved activations over the ranks of tensor parallelism, and there are none
            run.json:10:19: hint: `comms_config`: no effect here: DeepSpeed does not read it either; messages and bytes are always counted by kind and rank
        "#]],
    );
    check(
        &[
            ("pipeline", r#"{"stages": 4, "nonsense": 1, "seed_layer": true}"#),
            ("compile", r#"{"deepcompile": true, "pases": []}"#),
            ("timers", r#"{"throughput": {"enable": true}}"#),
            ("zero_optimization", r#"{"offload_param": {"device": "none", "pin_memry": true}}"#),
        ],
        expect![[r#"
            run.json:6:26: `pipeline.stages` is 4, but a pipeline degree in this section is not offered; write `parallel.pipeline`
            run.json:6:29: unknown key `pipeline.nonsense`; remove it; docs/run-file.md lists every key
            run.json:6:44: unknown key `pipeline.seed_layer`; did you mean `seed_layers`?
            run.json:7:30: `compile.deepcompile` is true, but DeepCompile (gathers and offload by a compiler) is not offered; remove it; the program plans gathers, and nothing is offloaded
            run.json:7:36: unknown key `compile.pases`; did you mean `passes`?
            run.json:8:29: unknown key `timers.throughput.enable`; did you mean `enabled`?
            run.json:9:61: unknown key `zero_optimization.offload_param.pin_memry`; did you mean `pin_memory`?
        "#]],
    );
}

/// A spelling of `off` as JSON, and one value that is not it.
fn spellings(off: Off) -> (Option<String>, &'static str) {
    match off {
        Off::Never => (None, "{\"some\": 1}"),
        Off::False => (Some("false".to_owned()), "true"),
        Off::True => (Some("true".to_owned()), "false"),
        Off::Number(number) => (Some(number.to_string()), "123456"),
        Off::Word(word) => (Some(format!("\"{word}\"")), "\"other\""),
        Off::Disabled => (Some("{\"enabled\": false}".to_owned()), "{\"enabled\": true}"),
        Off::F32 => (Some("\"Float32\"".to_owned()), "\"bf16\""),
        Off::NotPositive => (Some("-1".to_owned()), "4"),
        Off::NoneEnabled => {
            let off = "{\"layer_reduction\": {\"enabled\": false}, \"groups\": [{}]}";
            (Some(off.to_owned()), "{\"layer_reduction\": {\"enabled\": true}}")
        }
        Off::Null => (Some("null".to_owned()), "{\"some\": 1}"),
        Off::NoDegree(degree) => {
            assert_eq!(degree, "autotp_size", "the other value is that degree above 1");
            (Some("{\"autotp_size\": 0, \"preset_model\": \"llama\"}".to_owned()), "{\"autotp_size\": 2}")
        }
        Off::NoDevice => (Some("{\"device\": \"none\"}".to_owned()), "{\"device\": \"cpu\"}"),
        Off::Empty => (Some("[]".to_owned()), "[\"h.*\"]"),
    }
}

/// Every key without effect, at every level: its class is what happens.
#[test]
fn every_foreign_key_keeps_its_class() {
    let run = RawRun::spec();
    let keys: Vec<_> = run.all().iter().flat_map(|section| keys::foreign_within(section.path)).collect();
    assert!(keys.len() > 100, "every table is reached: {}", keys.len());
    // A file at ZeRO-3, where no key is passed over as one of a higher level.
    let base = file(&[("parallel", r#"{"data": 2}"#), ("zero_optimization", r#"{"stage": 3}"#)]);
    for (section, key) in keys {
        let path = pipezero_files::json::join(&section, key.name);
        let outcome = |value: &str| {
            let argument = format!("{path}={value}");
            let arguments = ["scheduler.type=WarmupLR", "optimizer.type=Adam", &argument];
            let first = if section == "scheduler.params" { 0 } else { 1 };
            outcome(&base, &arguments[first..], super::RESOURCES)
        };
        let is_unmentioned_in = |text: &str| !text.contains(&format!("`{path}`"));
        match key.meaning {
            Meaning::Silent => assert!(is_unmentioned_in(&outcome("\"x\"")), "{path}"),
            Meaning::Hint(decides) => {
                let found = outcome("\"auto\"");
                assert!(
                    found.contains(&format!("hint: `{path}`: no effect here: {decides}")),
                    "{path}: {found}"
                );
            }
            Meaning::NotOffered { offer, off, what, repair } => {
                let yet = if offer == Offer::Later { " yet" } else { "" };
                let repair = repair.map_or_else(|| off.repair(), str::to_owned);
                let (spelled, other) = spellings(off);
                let found = outcome(other);
                let error = format!(", but {what} is not offered{yet}; {repair}");
                assert!(found.contains(&error) && !is_unmentioned_in(&found), "{path}: {found}");
                if let Some(spelled) = spelled {
                    assert!(is_unmentioned_in(&outcome(&spelled)), "{path}={spelled}");
                }
            }
        }
    }
}

/// No key is both effective and foreign, and none stands twice.
#[test]
fn every_key_has_one_class() {
    for section in RawRun::spec().all() {
        let own =
            section.keys.iter().map(|key| key.name).chain(section.sections.iter().map(|(name, _)| *name));
        let mut names: Vec<&str> =
            own.chain(keys::foreign(section.path).iter().map(|key| key.name)).collect();
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{}: {twice:?}", section.path);
    }
}
