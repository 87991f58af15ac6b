//! Sizes that no plan could be made for.

use expect_test::expect;
use serde_json::json;

use super::{RESOURCES, check, check_each, file, listed, outcome};

const LONG: &str = r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 100000000}"#;

#[test]
fn models_and_programs_that_are_too_large_are_refused() {
    let deep = r#"{"family": "gpt2", "num_layers": 1000000000, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16}"#;
    let changes = [("train_batch_size", "4000000"), ("gradient_accumulation_steps", "4000000")];
    check_each(
        &[&[("model", deep)], &changes],
        expect![[r#"
            run.json:2:45: `model.num_layers` is 1000000000, but a model has at most 32768, so that a plan takes seconds; use fewer
            run.json:2:45: `model.num_layers` is 4, but with 4000000 micro-batches that is more than 4194304 forwards of a layer in a step, too many for a program; use fewer of either
        "#]],
    );
}

/// Memory is planned for the longest.
#[test]
fn micro_batches_are_no_longer_than_the_model_s_sequences() {
    let data = |lengths: &str| format!(r#"{{"text": "text.txt", "seq_lengths": {lengths}}}"#);
    let [longer, empty] = [data("[16, 17]"), data("[0]")];
    check_each(
        &[&[("data", longer.as_str())], &[("data", empty.as_str())]],
        expect![[r#"
            run.json:3:47: `data.seq_lengths` is 17, but lengths are from 1 to `model.seq_length`, 16, for which memory is planned; use lengths from there
            run.json:3:47: `data.seq_lengths` is 0, but lengths are from 1 to `model.seq_length`, 16, for which memory is planned; use lengths from there
        "#]],
    );
}

#[test]
fn activations_can_be_counted() {
    check(
        &[("model", LONG)],
        expect![[r#"
            run.json:2:107: `model.seq_length` is 100000000, but the activations that 4 layers would keep for the backward of 1 micro-batch of 8 sequences of this length are more than 2^53 elements, too many to count exactly; use shorter or fewer sequences
        "#]],
    );
}

/// Those of the timed family are given, whatever the sequences are.
#[test]
fn given_activations_can_be_counted() {
    let timed = r#"{"family": "timed", "num_layers": 4, "seq_length": 8, "parameters_per_layer": 16, "activation_elements": 4503599627370496, "forward_ms": 1}"#;
    check(
        &[("model", timed)],
        expect![[r#"
            run.json:2:117: `model.activation_elements` is 4503599627370496, but the activations that 4 layers would keep for the backward of 1 micro-batch are more than 2^53 elements, too many to count exactly; use a smaller number
        "#]],
    );
}

#[test]
fn grids_and_threads_that_are_too_large_are_refused() {
    let changes =
        [("parallel", r#"{"data": 100000}"#), ("train_batch_size", "400000"), ("threads", "1000000")];
    check(
        &changes,
        expect![[r#"
            run.json:6:24: `parallel.data` is 100000, but with `parallel.pipeline` 1 that is 100000 ranks, and a grid has at most 65536; use a smaller grid
            run.json:7:14: `threads` is 1000000, but a rank has at most 4096 threads; use "auto"
        "#]],
    );
}

/// Numbers that no key can have say why, and what is written is repeated.
#[test]
fn numbers_that_are_too_large_are_refused() {
    check_each(
        &[
            &[("steps", "1e18")],
            &[("steps", "1e19")],
            &[("steps", "9223372036854775808")],
            &[("steps", "18446744073709551615")],
            &[("steps", "18446744073709551616")],
            &[("steps", "1e400")],
            &[("steps", "-1e400")],
            &[("steps", "-0")],
            &[("steps", "-3")],
            &[("steps", "2.5")],
            &[("memory", "1e20")],
            &[("memory", "\"99999999999TiB\"")],
            &[("threads", "99999999999999999999")],
            &[("train_batch_size", "1e18")],
            &[("gradient_accumulation_steps", "18446744073709551615")],
            &[("gradient_clipping", "1e400")],
            &[("gradient_clipping", "-1e300")],
            &[("gradient_clipping", "-0")],
            &[("optimizer", r#"{"params": {"betas": [0.9, 1e999]}}"#)],
            &[("optimizer", r#"{"params": {"lr": -1e400}}"#)],
            &[("parallel", r#"{"pipeline": 1e18}"#)],
            &[("parallel", r#"{"data": 9223372036854775808}"#)],
            &[("parallel", r#"{"partition": [4, 1e20]}"#)],
            &[("zero_optimization", r#"{"stage": -1}"#)],
            &[("zero_optimization", r#"{"stage": 3, "unit_layers": 1e400}"#)],
            &[("zero_optimization", r#"{"stage": 3, "unit_layers": 1e300}"#)],
            &[("zero_optimization", r#"{"stage": 3, "resident_units": 1e20}"#)],
            &[("fp16", r#"{"enabled": true, "loss_scale": 1e300}"#)],
            &[("fp16", r#"{"enabled": true, "hysteresis": 1e19}"#)],
            &[("comm", r#"{"timeout_s": 1e300}"#)],
        ],
        expect![[r#"
            run.json:5:12: `steps` is 1000000000000000000, but with 8 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:5:12: `steps` is 10000000000000000000, but with 8 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:5:12: `steps` is 9223372036854775808, but with 8 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:5:12: `steps` is 18446744073709551615, but with 8 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:5:12: `steps` is 18446744073709551616, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:5:12: `steps` is 1e400, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:5:12: `steps` is -1e400, but it must not be negative; use a positive number
            run.json:5:12: `steps` is 0, but a run has at least one step; use 1 or more
            run.json:5:12: `steps` is -3, but it must not be negative; use a positive number
            run.json:5:12: `steps` must be a whole number, but is 2.5; write 3
            run.json:6:13: `memory` is 1e20, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:6:13: `memory` is "99999999999TiB", but sizes end at 2^64 - 1 bytes; use a smaller one
            run.json:6:14: `threads` is 99999999999999999999, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:4:23: `train_batch_size` is 1000000000000000000, but the largest activation of a micro-batch, 1000000000000000000 sequences x 16 tokens x 256 values, would have more than 2^53 elements, too many to count exactly; use fewer or shorter sequences
              run.json:5:12: `steps` is 10, but with 1000000000000000000 sequences of 16 tokens a step that is more than 2^53 tokens, which cannot be counted exactly; use fewer
            run.json:4:23: `train_batch_size` is 8, but `gradient_accumulation_steps` 18446744073709551615 x data degree 1 = 18446744073709551615 does not divide it: every data rank gets the same share; use a multiple such as 18446744073709551615
            run.json:6:24: `gradient_clipping` is 1e400, but numbers must lie between -1.8e308 and 1.8e308; use a number nearer to 0
            run.json:6:24: `gradient_clipping` is -1e300, but it must not be negative; use 0 or more
            valid
            run.json:6:43: `optimizer.params.betas[1]` is 1e999, but numbers must lie between -1.8e308 and 1.8e308; use a number nearer to 0
            run.json:6:34: `optimizer.params.lr` is -1e400, but numbers must lie between -1.8e308 and 1.8e308; use a number nearer to 0
            run.json:6:3: `parallel.data` is 1, but with `parallel.pipeline` 1000000000000000000 that is more than 2^32 ranks; use a smaller grid
              run.json:6:28: `parallel.pipeline` is 1000000000000000000, but the model has 4 layers: every stage needs at least one; use at most 4
            run.json:6:24: `parallel.data` is 9223372036854775808, but with `parallel.pipeline` 1 that is more than 2^32 ranks; use a smaller grid
            run.json:6:33: `parallel.partition[1]` is 1e20, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:6:34: `zero_optimization.stage` is -1, but it must not be negative; use a positive number
            run.json:6:52: `zero_optimization.unit_layers` is 1e400, but numbers must lie between -1.8e308 and 1.8e308; use a number nearer to 0
            run.json:6:52: `zero_optimization.unit_layers` is 1e300, but no stage has so many blocks; use "stage"
            run.json:6:55: `zero_optimization.resident_units` is 1e20, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
            run.json:6:43: `fp16.loss_scale` is 1e300, but it multiplies an f32: it must be positive and at most 3.4e38, or 0 for a scale that adapts; use a value such as 1024, or 0
            valid
            run.json:6:25: `comm.timeout_s` is 1e300, but every wait has a limit: it must be a positive number of seconds, below 2^64; use a value such as 300
        "#]],
    );
}

/// So have the sizes of a model.
#[test]
fn sizes_that_are_too_large_are_refused() {
    let outcome_of = |(key, value): (&str, &str)| {
        let mut model = json!({"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16});
        model[key] = "VALUE".into();
        outcome(&file(&[("model", &model.to_string().replace("\"VALUE\"", value))]), &[], RESOURCES)
    };
    let cases = [
        ("hidden_size", "99999999999999999999"),
        ("hidden_size", "1e18"),
        ("hidden_size", "18446744073709551615"),
        ("num_layers", "1e18"),
        ("num_layers", "18446744073709551615"),
        ("num_attention_heads", "1e18"),
        ("seq_length", "18446744073709551615"),
        ("vocab_size", "1e18"),
        ("dropout", "1e400"),
        ("dropout", "1e300"),
        ("init_std", "-1e-300"),
    ];
    expect![[r#"
        run.json:2:58: `model.hidden_size` is 99999999999999999999, but whole numbers end at 2^64 - 1, which is 18446744073709551615; use a smaller one
        run.json:2:3: `model` is 4.8e37 parameters large, but a model may have at most 2^53 parameters; use smaller sizes
        run.json:2:101: `model.num_attention_heads` is 4, but `model.hidden_size` is 18446744073709551615, which 4 does not divide: every head has the same width; use a divisor such as 3
        run.json:2:3: `model` is 1.3e22 parameters large, but a model may have at most 2^53 parameters; use smaller sizes
        run.json:2:3: `model` is 2.3e23 parameters large, but a model may have at most 2^53 parameters; use smaller sizes
        run.json:2:83: `model.num_attention_heads` is 1000000000000000000, but `model.hidden_size` is 32, which 1000000000000000000 does not divide: every head has the same width; use a divisor such as 32
        run.json:2:3: `model` is 5.9e20 parameters large, but a model may have at most 2^53 parameters; use smaller sizes
        run.json:2:114: `model.vocab_size` is 1000000000000000000, but tokens are numbers of 32 bits, of which the largest marks a target without loss; use at most 4294967294
        run.json:2:111: `model.dropout` is 1e400, but numbers must lie between -1.8e308 and 1.8e308; use a number nearer to 0
        run.json:2:111: `model.dropout` is 1e300, but it must be at least 0 and below 1; use a value such as 0.1
        run.json:2:112: `model.init_std` is -1e-300, but with 0 all weights would start equal and stay equal: it must be positive; use a value such as 0.02
    "#]]
    .assert_eq(&listed(cases.map(outcome_of)));
}

#[test]
fn what_a_gpu_does_not_take_is_refused() {
    let on_gpu = ("device", "\"cuda\"");
    let wide = r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 1028, "num_attention_heads": 4, "seq_length": 16}"#;
    let on_cpu = [("device", "\"cpu\""), ("model", wide)];
    check_each(
        &[&[on_gpu, ("model", wide)], &on_cpu, &[on_gpu, ("comm", r#"{"backend": "mpi"}"#)]],
        expect![[r#"
            run.json:2:92: `model.num_attention_heads` is 4, but `model.hidden_size` is 1028: heads of 257 elements, and a GPU takes at most 256; use more, or `device` "cpu"
            valid
            run.json:6:13: `device` is "cuda", but ranks that are processes of MPI compute on CPUs; use "cpu", or `comm.backend` "threads"
        "#]],
    );
}
