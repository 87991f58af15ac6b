//! GPT-2 against candle's autograd.

use super::build;
use crate::config::{Ablation, GptConfig};
use crate::testing::{Backward, Batch, Oracle, Run, assert_close};

fn config() -> GptConfig {
    GptConfig {
        num_layers: 2,
        hidden_size: 24,
        num_attention_heads: 3,
        seq_length: 13,
        vocab_size: 37,
        tie_embeddings: false,
        init_std: 0.02,
        ablation: Ablation::None,
    }
}

#[test]
fn loss_and_every_gradient_equal_autograd_in_f64() {
    let config = config();
    let mut run = Run::new(&build(&config).unwrap(), 2);
    let batch = Batch::random(2, 13, 37, 5);
    let oracle = Oracle::new(&config, &run);
    let want = oracle.gpt2_loss(&batch).unwrap();
    let loss = run.step(&batch, Backward::Full, 0.03);
    assert_close("loss", &[loss.sum as f32], &[want.to_scalar::<f64>().unwrap()], 1e-6);
    let gradients = run.gradients();
    for (name, want) in oracle.gradients(&want, 0.03) {
        assert_close(&name, &gradients[&name], &want, 1e-5);
    }
}
