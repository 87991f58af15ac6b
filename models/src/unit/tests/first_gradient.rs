//! The first gradient overwrites what its buffer held: the bits are those of one that is added to zeros, but for a zero's sign.

use crate::element::ElementType;
use crate::layer::MaskKey;
use crate::model::Model;
use crate::shared::GptConfig;
use crate::testing::{Backward, Batch, Run, assert_same_bits, config, segments};
use crate::timed::{self, TimedConfig};
use crate::{gpt2, mlp};

/// Every layer of every family, in sizes that leave elements between parameters.
fn models() -> Vec<(&'static str, Model)> {
    let tied = GptConfig { tie_embeddings: true, ..config() };
    let timed = TimedConfig {
        num_layers: 3,
        seq_length: 13,
        parameters_per_layer: 100,
        activation_elements: 40,
        times: Default::default(),
    };
    vec![
        ("gpt2", gpt2::build(&config()).unwrap()),
        ("tied gpt2", gpt2::build(&tied).unwrap()),
        ("gpt2 with dropout", gpt2::build(&GptConfig { dropout: 0.1, ..tied.clone() }).unwrap()),
        ("mlp", mlp::build(&config()).unwrap()),
        ("tied mlp", mlp::build(&tied).unwrap()),
        ("timed", timed::build(&timed).unwrap()),
    ]
}

#[test]
fn a_backward_onto_nan_that_overwrites_equals_one_that_adds_to_zeros() {
    let masks = Some(MaskKey { seed: 1, step: 2, first_sequence: 3 });
    // Shorter than the longest sequence, and fewer tokens than the vocabulary has: some rows of both tables get no gradient.
    let batches = [(2, 13, 5), (2, 4, 0), (1, 3, 1), (1, 1, 0)].map(|(num_sequences, seq_length, masked)| {
        Batch { masks, ..Batch::random(num_sequences, seq_length, 37, masked) }
    });
    for (name, model) in models() {
        for (layers_per_unit, backward, is_checkpointed) in [
            (1, Backward::Full, false),
            (1, Backward::Split, false),
            (3, Backward::Full, true),
            (100, Backward::Full, false),
            (100, Backward::Split, false),
        ] {
            for (element, batch) in [ElementType::F32, ElementType::Bf16, ElementType::F16]
                .into_iter()
                .flat_map(|element| batches.iter().map(move |batch| (element, batch)))
            {
                let run = || {
                    let segments_of = |num_layers| {
                        if is_checkpointed { segments([(0, num_layers)]) } else { Vec::new() }
                    };
                    Run::new(&model, layers_per_unit).with_precision(element).with_checkpoints(segments_of)
                };
                let (mut overwriting, mut adding) = (run(), run().adding_to_zeros());
                assert!(overwriting.gradient_elements().iter().all(|element| element.is_nan()));
                for micro_batch in 0..2 {
                    let losses = [&mut overwriting, &mut adding].map(|run| run.step(batch, backward, 0.03));
                    assert_eq!(losses[0], losses[1]);
                    // What is added to a zero is never -0.0; what is assigned may be.
                    let [overwritten, added] = [&overwriting, &adding].map(|run| {
                        run.gradient_elements().iter().map(|element| element + 0.0).collect::<Vec<_>>()
                    });
                    let what = format!(
                        "{name}, {element:?}, {backward:?}, units of {layers_per_unit}, micro-batch {micro_batch}"
                    );
                    assert_same_bits(&what, &overwritten, &added);
                }
            }
        }
    }
}
