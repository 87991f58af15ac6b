//! The MLP family against candle's autograd.

use std::collections::BTreeMap;

use super::build;
use crate::shared::GptConfig;
use crate::testing::{
    Backward, Batch, Oracle, Run, assert_same_bits, check_against_oracle, config, segments,
};

fn check(config: &GptConfig, num_sequences: usize, seq_length: usize, masked: usize) {
    let batch = Batch::random(num_sequences, seq_length, config.vocab_size, masked);
    check_against_oracle(config, &build(config).unwrap(), &batch, Oracle::mlp_loss);
}

#[test]
fn loss_and_every_gradient_equal_autograd_in_f64() {
    check(&config(), 2, 13, 5);
    check(&GptConfig { tie_embeddings: true, num_layers: 3, ..config() }, 1, 13, 0);
    check(&GptConfig { hidden_size: 1, vocab_size: 3, num_layers: 1, ..config() }, 2, 1, 0);
    // Heads do not reach this family, so they need not divide.
    check(&GptConfig { hidden_size: 17, num_attention_heads: 5, ..config() }, 2, 5, 2);
}

#[test]
fn a_split_backward_and_checkpointing_cannot_be_seen_in_the_bits() {
    let model = build(&config()).unwrap();
    let batch = Batch::random(2, 13, 37, 5);
    let gradients = |mut run: Run, backward| {
        run.step(&batch, backward, 0.03);
        run.gradients()
    };
    let want = gradients(Run::new(&model, 1), Backward::Full);
    let assert_same = |gradients: BTreeMap<String, Vec<f32>>| {
        gradients.iter().for_each(|(name, gradient)| assert_same_bits(name, gradient, &want[name]));
    };
    assert_same(gradients(Run::new(&model, 3), Backward::Split));
    for segments in [
        segments([]),
        segments([(0, 4)]),
        segments([(1, 3)]),
        segments([(1, 2), (2, 3)]),
        segments([(0, 2), (3, 4)]),
    ] {
        let run = Run::new(&model, 100).with_checkpoints(|_| segments.clone());
        assert_same(gradients(run, Backward::Full));
    }
}

#[test]
fn dropout_is_refused() {
    let error = build(&GptConfig { dropout: 0.1, ..config() }).unwrap_err();
    assert_eq!(error.to_string(), "dropout = 0.1: the mlp family has no dropout; use 0, or the gpt2 family");
}

#[test]
fn layers_have_their_roles() {
    let model = build(&GptConfig { tie_embeddings: true, ..config() }).unwrap();
    let roles: Vec<_> =
        model.layers.iter().map(|layer| format!("{:?} {:?}", layer.role, layer.tying)).collect();
    let blocks = "Block { index: 0 } Untied, Block { index: 1 } Untied";
    assert_eq!(roles.join(", "), format!("Embedding Embedding, {blocks}, Head Head"));
}
