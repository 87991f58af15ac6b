//! Slices of the vocabulary's tables, and logits.

use expect_test::expect;
use pipezero_models::HeadLogits;

use super::{check_each, run};
use crate::resolved::VocabularyConfig;

const MODEL: &str = r#"{"family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16, "vocab_size": 2100}"#;

#[test]
fn what_is_not_said_is_left_to_the_plan() {
    let vocabulary = |zero: &str, checkpointing: &str| {
        let keys =
            [("model", MODEL), ("zero_optimization", zero), ("activation_checkpointing", checkpointing)];
        run(&keys).vocabulary
    };
    let auto = VocabularyConfig::default();
    assert_eq!(vocabulary("{}", "{}"), auto);
    assert_eq!(vocabulary(r#"{"vocabulary_slices": "auto"}"#, r#"{"head_logits": "auto"}"#), auto);
    let given = vocabulary(r#"{"vocabulary_slices": 3}"#, r#"{"head_logits": "recompute"}"#);
    assert_eq!(given, VocabularyConfig::new(3, HeadLogits::Recompute));
}

#[test]
fn slices_are_of_whole_blocks_and_split_backwards_keep_logits() {
    let slices = |num: &str| format!(r#"{{"vocabulary_slices": {num}}}"#);
    let recompute = r#"{"head_logits": "recompute"}"#;
    let zb_h1 = r#"{"pipeline": 2, "data": 2, "schedule": "zb-h1"}"#;
    let timed = r#"{"family": "timed", "num_layers": 4, "seq_length": 16, "parameters_per_layer": 100, "activation_elements": 10, "forward_ms": 1}"#;
    check_each(
        &[
            &[("model", MODEL), ("zero_optimization", &slices("4"))],
            &[("model", MODEL), ("zero_optimization", &slices("0"))],
            &[("zero_optimization", &slices("2"))],
            &[("model", MODEL), ("zero_optimization", &slices("\"all\""))],
            &[("parallel", zb_h1), ("activation_checkpointing", recompute)],
            &[("activation_checkpointing", r#"{"head_logits": "never"}"#)],
            &[("model", timed), ("zero_optimization", &slices("2")), ("activation_checkpointing", recompute)],
        ],
        expect![[r#"
            run.json:6:46: `zero_optimization.vocabulary_slices` is 4, but slices are cut between blocks of 1024 tokens, and `model.vocab_size` 2100 has 3 blocks; use at most 3, or "auto"
            run.json:6:46: `zero_optimization.vocabulary_slices` is 0, but it must be at least 1; use 1 or more
            run.json:6:46: `zero_optimization.vocabulary_slices` is 2, but slices are cut between blocks of 1024 tokens, and `model.vocab_size` 256 has 1 block; use at most 1, or "auto"
            run.json:6:46: `zero_optimization.vocabulary_slices` must be a whole number or "auto", but is the string "all"; write a value such as 8
            run.json:7:47: `activation_checkpointing.head_logits` is "recompute", but `parallel.schedule` runs weight gradients apart from input gradients, and the head's would wait with all logits' gradients: as much as keeping them; use "keep", or a schedule with whole backwards, such as "1f1b"
            run.json:6:47: `activation_checkpointing.head_logits` is "never", but it must be "keep", "recompute" or "auto"; use "keep", "recompute" or "auto"
            run.json:3:3: hint: `data`: no effect here: a timed model reads no text
              run.json:6:46: hint: `zero_optimization.vocabulary_slices`: no effect here: family "timed" has no vocabulary
              run.json:7:47: hint: `activation_checkpointing.head_logits`: no effect here: family "timed" has no vocabulary
        "#]],
    );
}
