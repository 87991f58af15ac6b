//! Sizes that no plan could be made for.

use expect_test::expect;

use super::check;

const LONG: &str = r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 100000000}"#;

#[test]
fn a_program_has_an_end() {
    let deep = r#"{"family": "gpt2", "num_layers": 1000000000, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16}"#;
    check(
        &[("model", deep)],
        expect![[r#"
            run.json:2:45: `model.num_layers` is 1000000000, but with 1 micro-batch that is more than 4194304 forwards of a layer in a step, too many for a program; use fewer of either
        "#]],
    );
    let changes = [("train_batch_size", "4000000"), ("gradient_accumulation_steps", "4000000")];
    check(
        &changes,
        expect![[r#"
            run.json:2:45: `model.num_layers` is 4, but with 4000000 micro-batches that is more than 4194304 forwards of a layer in a step, too many for a program; use fewer of either
        "#]],
    );
}

#[test]
fn activations_can_be_counted() {
    check(
        &[("model", LONG)],
        expect![[r#"
            run.json:2:107: `model.seq_length` is 100000000, but what 4 layers save of 1 micro-batch x 8 sequences of that length is more than 2^53 elements; use shorter or fewer sequences
        "#]],
    );
}

#[test]
fn grids_and_threads_have_an_end() {
    let changes =
        [("parallel", r#"{"data": 100000}"#), ("train_batch_size", "400000"), ("threads", "1000000")];
    check(
        &changes,
        expect![[r#"
            run.json:6:24: `parallel.data` is 100000, but at `parallel.pipeline` 1 that is 100000 ranks, of at most 65536; use a smaller grid
            run.json:7:14: `threads` is 1000000, but a rank has at most 4096 threads; use "auto"
        "#]],
    );
}
