//! What holds for every unit; that passes compute the right thing is shown by the families' tests.

mod first_gradient;
mod parts;
mod precision;

use super::*;
use crate::buffer::Buffer;
use crate::gpt2;
use crate::layer::{GradientView, Tokens};
use crate::queue::Host;
use crate::testing::{Batch, config, segments};
use crate::views::PartViews;

fn layers() -> Vec<Arc<dyn Layer>> {
    gpt2::build(&config()).unwrap().layers.into_iter().map(|layer| layer.layer).collect()
}

#[test]
fn sizes_add_up_over_layers_or_are_their_largest() {
    let shape = MicroBatchShape { num_sequences: 2, seq_length: 13 };
    let layers = layers();
    let each: Vec<UnitSizes> =
        layers.iter().map(|layer| Unit::new(vec![Arc::clone(layer)]).sizes(shape)).collect();
    for first in 0..layers.len() {
        for end in first + 1..=layers.len() {
            let sizes = Unit::new(layers[first..end].to_vec()).sizes(shape);
            let part = &each[first..end];
            let largest = |of: fn(&UnitSizes) -> usize| part.iter().map(of).max().unwrap();
            let want = UnitSizes {
                input: part[0].input,
                output: part[part.len() - 1].output,
                saved: part.iter().map(|sizes| sizes.saved).sum(),
                recompute: 0,
                weight_inputs: part.iter().map(|sizes| sizes.weight_inputs).sum(),
                workspace: largest(|sizes| sizes.workspace),
                gradient: largest(|sizes| sizes.gradient),
                ..UnitSizes::default()
            };
            assert_eq!(sizes, want, "layers {first}..{end}");
        }
    }
}

#[test]
fn a_segment_keeps_its_input_and_one_buffer_holds_the_largest() {
    let shape = MicroBatchShape { num_sequences: 2, seq_length: 13 };
    // Embedding, two blocks of two layers, norm, head.
    let layers = layers();
    let sizes_with = |segments| Unit::new(layers.clone()).with_checkpoints(segments).sizes(shape);
    let kept = |index: usize| {
        let sizes = layers[index].sizes(shape);
        aligned(sizes.input) + aligned(sizes.saved) + aligned(sizes.exact)
    };
    let input = |index: usize| aligned(layers[index].sizes(shape).input);
    let all: usize = (0..layers.len()).map(kept).sum();
    let plain = sizes_with(Vec::new());
    assert_eq!((plain.saved, plain.recompute), (all, 0));
    let block = kept(1) + kept(2) - input(1);
    for (segments, saved, recompute) in [
        (segments([(1, 3)]), all - block, block),
        (segments([(1, 3), (3, 5)]), all - 2 * block, block),
        (segments([(1, 5)]), all - 2 * block - input(3), 2 * block + input(3)),
        (
            segments([(1, 2), (2, 5)]),
            all - 2 * block - input(3) + input(2),
            2 * block + input(3) - kept(1) + input(1) - input(2),
        ),
        (segments([(0, 6)]), kept(6), all - kept(6)),
    ] {
        let sizes = sizes_with(segments.clone());
        assert_eq!(sizes, UnitSizes { saved, recompute, ..plain }, "{segments:?}");
    }
}

#[test]
#[should_panic(expected = "segments [1..3, 2..4] are no ascending ranges of 7 layers")]
fn overlapping_segments_are_refused() {
    let _ = Unit::new(layers()).with_checkpoints(segments([(1, 3), (2, 4)]));
}

#[test]
#[should_panic(expected = "runs its backward at once")]
fn a_unit_with_segments_refuses_half_a_backward() {
    let batch = Batch::random(1, 3, 37, 0);
    let buffer = || Buffer::zeros(0).unwrap();
    let unit = Unit::new(layers()).with_checkpoints(segments([(1, 3)]));
    let [inputs, targets] = batch.uploaded();
    unit.backward_weight(
        &Host,
        batch.shape,
        UnitBackwardWeight {
            tokens: Tokens {
                inputs: inputs.view(),
                targets: targets.view(),
                document_starts: None,
                loss_inputs: None,
                masks: None,
                encoder_inputs: None,
            },
            saved: &buffer(),
            weight_inputs: &buffer(),
            parameter_gradients: GradientView::overwriting(buffer().view_mut()).into(),
            workspace: &mut buffer(),
        },
    );
}

#[test]
fn a_unit_whose_backward_reads_no_weights_needs_none() {
    let unit = Unit::new(layers()[..1].to_vec());
    assert!(!unit.backward_reads_weights());
    let batch = Batch::random(2, 13, 37, 0);
    let sizes = unit.sizes(batch.shape);
    let mut parameter_gradients = Buffer::from_vec(vec![f32::NAN; unit.num_elements()]).unwrap();
    let [inputs, targets] = batch.uploaded();
    unit.backward(
        &Host,
        batch.shape,
        UnitBackward {
            tokens: Tokens {
                inputs: inputs.view(),
                targets: targets.view(),
                document_starts: None,
                loss_inputs: None,
                masks: None,
                encoder_inputs: None,
            },
            parameters: PartViews::default(),
            gradient: &mut Buffer::from_vec(vec![1.0; sizes.gradient]).unwrap(),
            saved: &mut Buffer::zeros(sizes.saved).unwrap(),
            recomputed: &mut Buffer::zeros(0).unwrap(),
            parameter_gradients: GradientView::overwriting(parameter_gradients.view_mut()).into(),
            workspace: &mut Buffer::zeros(sizes.workspace).unwrap(),
            loss_seed: 1.0,
        },
    );
    // Every token adds a one to a row of each table.
    assert_eq!(parameter_gradients.host().iter().sum::<f32>(), 2.0 * 26.0 * 24.0);
}

#[test]
fn a_layer_without_parameters_has_an_empty_share() {
    let unit = Unit::new(Vec::new());
    assert_eq!((unit.num_elements(), unit.num_parameters()), (0, 0));
    assert!(!unit.backward_reads_weights());
    assert_eq!(unit.sizes(MicroBatchShape { num_sequences: 1, seq_length: 1 }), UnitSizes::default());
}
