//! The timed family.

use std::time::Duration;

use expect_test::expect;

use super::{check_each, check_values, run};
use crate::resolved::{ModelConfig, PassTimes, TimedConfig};

const TIMED: &str = r#"{"family": "timed", "num_layers": 48, "seq_length": 128, "parameters_per_layer": 1e6,
    "activation_elements": 512, "forward_ms": 2.5}"#;

#[test]
fn its_layers_hold_memory_and_take_time_and_need_no_text() {
    let run = run(&[("model", TIMED), ("data", "")]);
    let tenths = |tenths: u64| Duration::from_micros(100 * tenths);
    let expected = TimedConfig {
        num_layers: 48,
        seq_length: 128,
        parameters_per_layer: 1_000_000,
        activation_elements: 512,
        times: PassTimes {
            forward: tenths(25),
            backward_input: tenths(25),
            backward_weight: tenths(25),
            recompute: tenths(25),
        },
    };
    assert_eq!(run.model, ModelConfig::Timed(expected));
    assert_eq!((run.model.num_layers(), run.model.seq_length()), (48, 128));
    assert!(!run.model.learns() && run.data.text.is_empty());
}

#[test]
fn each_time_may_be_given() {
    let times = TIMED
        .replace("2.5", "2, \"backward_input_ms\": 0, \"backward_weight_ms\": 0.25, \"recompute_ms\": 3");
    let ModelConfig::Timed(timed) = run(&[("model", &times)]).model else { panic!("the family is timed") };
    let timed = timed.times;
    let found = [timed.forward, timed.backward_input, timed.backward_weight, timed.recompute];
    assert_eq!(found, [2000, 0, 250, 3000].map(Duration::from_micros));
}

#[test]
fn each_family_has_its_own_sizes() {
    let width = TIMED.replace("\"seq_length\"", "\"hidden_size\": 4, \"dropout\": 0, \"seq_length\"");
    let all = r#""num_attention_heads": 2, "vocab_size": 300, "tie_embeddings": false, "init_std": 0.1, "seq_length""#;
    let times = TIMED.replace("2.5", "-1, \"backward_input_ms\": 1e9, \"backward_weight_ms\": 0");
    check_values(
        "model",
        &[
            r#"{"family": "timed"}"#,
            &width,
            &TIMED.replace("\"seq_length\"", all),
            r#"{"family": "mlp", "num_layers": 1, "hidden_size": 3, "seq_length": 1, "forward_ms": 1, "parameters_per_layer": 9}"#,
            &times,
        ],
        expect![[r#"
            run.json:2:3: `model.num_layers` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.seq_length` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.parameters_per_layer` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.activation_elements` is missing: the model's size is yours to choose; add it
              run.json:2:3: `model.forward_ms` is missing: a timed layer takes the time that is written here; add it
            run.json:2:65: `model.hidden_size` is 4, but it belongs to family "gpt2", "llama" or "mlp", not to "timed"; remove it
              run.json:2:79: `model.dropout` is 0, but it belongs to family "gpt2", not to "timed"; remove it
            run.json:2:73: `model.num_attention_heads` is 2, but it belongs to family "gpt2" or "llama", not to "timed"; remove it
              run.json:2:90: `model.vocab_size` is 300, but it belongs to family "gpt2", "llama" or "mlp", not to "timed"; remove it
              run.json:2:113: `model.tie_embeddings` is false, but it belongs to family "gpt2", "llama" or "mlp", not to "timed"; remove it
              run.json:2:132: `model.init_std` is 0.1, but it belongs to family "gpt2", "llama" or "mlp", not to "timed"; remove it
            run.json:2:96: `model.forward_ms` is 1, but it belongs to family "timed", not to "mlp"; remove it
              run.json:2:123: `model.parameters_per_layer` is 9, but it belongs to family "timed", not to "mlp"; remove it
            run.json:3:47: `model.forward_ms` is -1, but it is a time of 0 to 3600000 milliseconds; use a value such as 1.5
              run.json:3:72: `model.backward_input_ms` is 1000000000, but it is a time of 0 to 3600000 milliseconds; use a value such as 1.5
        "#]],
    );
}

/// A time that would be rounded to 0 is refused, since the user did not mean 0.
#[test]
fn times_that_would_be_rounded_to_0_are_refused() {
    let links = r#"{"links": {"near": {"latency_us": 1e-5, "gb_per_s": 1}}}"#;
    check_each(
        &[
            &[("model", &TIMED.replace("2.5", "1e-400"))],
            &[("model", &TIMED.replace("2.5", "-1e-400"))],
            &[("model", &TIMED.replace("2.5", "1e-7"))],
            &[("model", &TIMED.replace("2.5", "0.0000004"))],
            &[("model", &TIMED.replace("2.5", "0e-400, \"recompute_ms\": 0.0000006"))],
            &[("model", TIMED), ("comm", links)],
        ],
        expect![[r#"
            run.json:3:47: `model.forward_ms` is 1e-400, but the smallest number above 0 is 4.9e-324; use 0, or a number further from 0
            run.json:3:47: `model.forward_ms` is -1e-400, but the smallest number above 0 is 4.9e-324; use 0, or a number further from 0
            run.json:3:47: `model.forward_ms` is 0.0000001, but times are rounded to whole nanoseconds, and this one would be rounded to 0; use 0, or at least 0.000001
            run.json:3:47: `model.forward_ms` is 0.0000004, but times are rounded to whole nanoseconds, and this one would be rounded to 0; use 0, or at least 0.000001
            run.json:4:3: hint: `data`: no effect here: a timed model reads no text
            run.json:7:45: `comm.links.near.latency_us` is 0.00001, but times are rounded to whole nanoseconds, and this one would be rounded to 0; use 0, or at least 0.001
        "#]],
    );
}

/// A key that is accepted and does nothing is reported.
#[test]
fn it_reads_no_text_and_is_not_evaluated() {
    let timed = ("model", TIMED);
    check_each(
        &[
            &[timed],
            &[timed, ("data", r#"{"validation": 0.5}"#), ("evaluation", r#"{"every": 3}"#)],
            &[timed, ("data", ""), ("evaluation", r#"{"batches": 0}"#)],
        ],
        expect![[r#"
            run.json:4:3: hint: `data`: no effect here: a timed model reads no text
            run.json:4:3: hint: `data`: no effect here: a timed model reads no text
              run.json:7:3: hint: `evaluation`: no effect here: a timed model learns nothing that could be evaluated
            run.json:6:29: `evaluation.batches` is 0, but an evaluation needs at least one batch; use 1 or more; for no evaluation, set `data.validation` to 0
        "#]],
    );
}

/// 12 layers on each of 4 ranks: 12 million parameters, of which a unit has a twelfth.
#[test]
fn it_is_held_to_the_same_rules() {
    let parallel = ("parallel", r#"{"pipeline": 4, "data": 2}"#);
    let timed = ("model", TIMED);
    let auto = r#"{"stage": 3, "stage3_param_persistence_threshold": "auto"}"#;
    check_each(
        &[
            &[timed, parallel, ("zero_optimization", r#"{"stage": 2}"#)],
            &[timed, parallel, ("zero_optimization", r#"{"stage": 3, "unit_layers": 0.5}"#)],
            &[timed, parallel, ("zero_optimization", auto)],
            &[("model", &TIMED.replace("48", "49")), ("parallel", r#"{"pipeline": 50}"#)],
            &[("model", &TIMED.replace("1e6", "1e15"))],
        ],
        expect![[r#"
            run.json:8:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 4): with one micro-batch the ranks of a pipeline compute one after the other, and with more, gradients would either accumulate unsharded over them, which is ZeRO-1's memory, or be reduced after every one, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
            run.json:8:52: `zero_optimization.unit_layers` is 0.5, but only the blocks of families "gpt2" and "llama" have halves: attention and MLP; use 1 or more
            run.json:8:75: `zero_optimization.stage3_param_persistence_threshold` is "auto", but it is 10 x `model.hidden_size`, which family "timed" does not have; use a number of elements
            run.json:7:28: `parallel.pipeline` is 50, but the model has 49 layers: every stage needs at least one; use at most 49
            run.json:2:3: `model` is 4.8e16 parameters large, but a model may have at most 2^53 parameters; use smaller sizes
        "#]],
    );
}
