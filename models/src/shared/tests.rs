//! Slices of the vocabulary's tables and recomputed logits: in no bit other than whole tables with logits kept, and those against
//! candle's autograd.

use super::{GptConfig, HeadLogits, VocabularyOptions};
use crate::element::ElementType;
use crate::model::Model;
use crate::testing::{Backward, Batch, Oracle, Run, assert_same_bits, check_against_oracle, config};
use crate::{gpt2, mlp};

/// Four blocks, the last of them short.
const VOCAB_SIZE: usize = 3 * 1024 + 77;

fn sizes(tie_embeddings: bool, num_slices: usize, head_logits: HeadLogits) -> GptConfig {
    let vocabulary = VocabularyOptions { num_slices, head_logits };
    GptConfig { vocab_size: VOCAB_SIZE, tie_embeddings, num_layers: 1, vocabulary, ..config() }
}

#[test]
fn no_slice_and_no_recomputation_changes_a_bit() {
    let batch = Batch::random(2, 13, VOCAB_SIZE, 5);
    let families: [fn(&GptConfig) -> Model; 2] =
        [|sizes| gpt2::build(sizes).unwrap(), |sizes| mlp::build(sizes).unwrap()];
    for (build, element) in families
        .into_iter()
        .flat_map(|build| [ElementType::F32, ElementType::Bf16, ElementType::F16].map(|of| (build, of)))
    {
        for tie_embeddings in [false, true] {
            let run = |num_slices, head_logits, layers_per_unit, backward| {
                let model = build(&sizes(tie_embeddings, num_slices, head_logits));
                let mut run = Run::new(&model, layers_per_unit).with_precision(element);
                let losses = [(); 2].map(|()| run.step(&batch, backward, 0.03));
                (losses, run.gradients())
            };
            let (want_losses, want) = run(1, HeadLogits::Keep, 1, Backward::Full);
            for num_slices in 1..=4 {
                for (head_logits, backward) in [
                    (HeadLogits::Keep, Backward::Full),
                    (HeadLogits::Keep, Backward::Split),
                    (HeadLogits::Recompute, Backward::Full),
                ] {
                    let what = format!("{num_slices} slices, {head_logits:?}, {backward:?}, {element:?}");
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
    for (tie_embeddings, num_slices, head_logits) in
        [(false, 1, HeadLogits::Keep), (true, 3, HeadLogits::Recompute), (false, 4, HeadLogits::Recompute)]
    {
        let sizes = sizes(tie_embeddings, num_slices, head_logits);
        let batch = Batch::random(2, 13, VOCAB_SIZE, 5);
        check_against_oracle(&sizes, &gpt2::build(&sizes).unwrap(), &batch, Oracle::gpt2_loss);
        check_against_oracle(&sizes, &mlp::build(&sizes).unwrap(), &batch, Oracle::mlp_loss);
    }
}
