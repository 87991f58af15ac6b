//! Slices of the vocabulary's tables and recomputed logits: in no bit other than whole tables with logits kept, and those against
//! candle's autograd.

use super::{GptConfig, HeadLogits, VocabularyOptions, num_blocks};
use crate::element::ElementType;
use crate::model::Model;
use crate::testing::{Backward, Batch, Oracle, Run, assert_same_bits, check_against_oracle, config};
use crate::{gpt2, mlp};

type Build = fn(&GptConfig) -> Model;

/// Four blocks, the last of them short.
const SMALL: usize = 3 * 1024 + 77;
/// Five larger ones.
const LARGE: usize = 4 * 4096 + 77;

fn sizes(vocab_size: usize, tie_embeddings: bool, num_slices: usize, head_logits: HeadLogits) -> GptConfig {
    let vocabulary = VocabularyOptions { num_slices, head_logits };
    GptConfig { vocab_size, tie_embeddings, num_layers: 1, vocabulary, ..config() }
}

#[test]
fn no_slice_and_no_recomputation_changes_a_bit() {
    let gpt2 = |sizes: &GptConfig| gpt2::build(sizes).unwrap();
    let mlp = |sizes: &GptConfig| mlp::build(sizes).unwrap();
    let cases: [(usize, Build); 3] = [(SMALL, gpt2), (SMALL, mlp), (LARGE, mlp)];
    for ((vocab_size, build), element) in cases
        .into_iter()
        .flat_map(|case| [ElementType::F32, ElementType::Bf16, ElementType::F16].map(|of| (case, of)))
    {
        let batch = Batch::random(2, 13, vocab_size, 5);
        for tie_embeddings in [false, true] {
            let run = |num_slices, head_logits, layers_per_unit, backward| {
                let model = build(&sizes(vocab_size, tie_embeddings, num_slices, head_logits));
                let mut run = Run::new(&model, layers_per_unit).with_precision(element);
                let losses = [(); 2].map(|()| run.step(&batch, backward, 0.03));
                (losses, run.gradients())
            };
            let (want_losses, want) = run(1, HeadLogits::Keep, 1, Backward::Full);
            for num_slices in 1..=num_blocks(vocab_size) {
                for (head_logits, backward) in [
                    (HeadLogits::Keep, Backward::Full),
                    (HeadLogits::Keep, Backward::Split),
                    (HeadLogits::Recompute, Backward::Full),
                ] {
                    let what = format!(
                        "{num_slices} slices of {vocab_size}, {head_logits:?}, {backward:?}, {element:?}"
                    );
                    let (losses, gradients) = run(num_slices, head_logits, 100, backward);
                    assert_eq!(losses, want_losses, "{what}");
                    assert_eq!(gradients.len(), want.len(), "{what}");
                    for (name, gradient) in gradients {
                        assert_same_bits(&format!("{name}, {what}"), &gradient, &want[&name]);
                    }
                }
            }
        }
    }
}

#[test]
fn loss_and_every_gradient_of_many_blocks_equal_autograd_in_f64() {
    for (vocab_size, tie_embeddings, num_slices, head_logits) in [
        (SMALL, false, 1, HeadLogits::Keep),
        (SMALL, true, 3, HeadLogits::Recompute),
        (SMALL, false, 4, HeadLogits::Recompute),
        (LARGE, true, 3, HeadLogits::Recompute),
    ] {
        let sizes = sizes(vocab_size, tie_embeddings, num_slices, head_logits);
        let batch = Batch::random(2, 13, vocab_size, 5);
        check_against_oracle(&sizes, &gpt2::build(&sizes).unwrap(), &batch, Oracle::gpt2_loss);
        check_against_oracle(&sizes, &mlp::build(&sizes).unwrap(), &batch, Oracle::mlp_loss);
    }
}
