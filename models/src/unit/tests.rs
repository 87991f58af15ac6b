//! What holds for every unit; that passes compute the right thing is shown by the families' tests.

use super::*;
use crate::buffer::Buffer;
use crate::gpt2;
use crate::layer::Tokens;
use crate::testing::{Batch, config};

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
                stash: part.iter().map(|sizes| sizes.stash).sum(),
                workspace: largest(|sizes| sizes.workspace),
                gradient: largest(|sizes| sizes.gradient),
            };
            assert_eq!(sizes, want, "layers {first}..{end}");
        }
    }
}

#[test]
fn shares_are_the_same_from_both_ends() {
    let shape = MicroBatchShape { num_sequences: 2, seq_length: 13 };
    let unit = Unit::new(layers());
    let place = |share: Share<'_>| {
        (share.layer.name().to_string(), share.sizes, share.parameters, share.saved, share.stash)
    };
    let forward: Vec<_> = unit.shares(shape).map(place).collect();
    let mut backward: Vec<_> = unit.shares_from_the_last(shape).map(place).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    for pair in forward.windows(2) {
        assert_eq!(pair[0].3.end, pair[1].3.start, "saved regions touch");
        assert_eq!(pair[0].4.end, pair[1].4.start, "stashes touch");
        assert!(pair[0].2.end <= pair[1].2.start, "parameters do not overlap");
    }
}

#[test]
fn a_unit_whose_backward_reads_no_weights_needs_none() {
    let unit = Unit::new(layers()[..1].to_vec());
    assert!(!unit.backward_reads_weights());
    let batch = Batch::random(2, 13, 37, 0);
    let sizes = unit.sizes(batch.shape);
    let mut parameter_gradients = Buffer::zeros(unit.num_elements()).unwrap();
    unit.backward(
        batch.shape,
        UnitBackward {
            tokens: Tokens { inputs: &batch.inputs, targets: &batch.targets, masks: None },
            parameters: &Buffer::zeros(0).unwrap(),
            gradient: &mut Buffer::from_vec(vec![1.0; sizes.gradient]).unwrap(),
            saved: &mut Buffer::zeros(sizes.saved).unwrap(),
            parameter_gradients: &mut parameter_gradients,
            workspace: &mut Buffer::zeros(sizes.workspace).unwrap(),
            loss_seed: 1.0,
        },
    );
    // Every token adds a one to a row of each table.
    assert_eq!(parameter_gradients.read().iter().sum::<f32>(), 2.0 * 26.0 * 24.0);
}

#[test]
fn a_layer_without_parameters_has_an_empty_share() {
    let unit = Unit::new(Vec::new());
    assert_eq!((unit.num_elements(), unit.num_parameters()), (0, 0));
    assert!(!unit.backward_reads_weights());
    assert_eq!(unit.sizes(MicroBatchShape { num_sequences: 1, seq_length: 1 }), UnitSizes::default());
}
