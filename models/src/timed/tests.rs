//! What a timed model is made of. That it takes its time is seen where time is measured, in `benches/`.

use super::{TimedConfig, build};
use crate::error::ModelError;
use crate::facts::PassTimes;
use crate::layer::{LossSum, MicroBatchShape};
use crate::model::{LayerRole, Tying};
use crate::testing::{Backward, Batch, Run, assert_same_bits, segments};
use crate::unit::{Unit, UnitSizes};

fn config() -> TimedConfig {
    TimedConfig {
        num_layers: 3,
        seq_length: 8,
        parameters_per_layer: 100,
        activation_elements: 40,
        times: PassTimes::default(),
    }
}

#[test]
fn a_model_is_a_chain_of_blocks_from_tokens_to_loss() {
    let model = build(&config()).unwrap();
    assert_eq!((model.num_blocks, model.seq_length), (3, 8));
    let shape = MicroBatchShape { num_sequences: 2, seq_length: 8 };
    let layers: Vec<_> = model.layers.iter().map(|layer| (layer.layer.sizes(shape), layer)).collect();
    for (index, (_, layer)) in layers.iter().enumerate() {
        assert_eq!((layer.role, layer.tying), (LayerRole::Block { index }, Tying::Untied));
        let parameters = layer.layer.parameters();
        assert_eq!(parameters.iter().map(|spec| spec.num_elements()).sum::<usize>(), 100);
        assert_eq!(parameters[0].name, format!("h.{index}.weight"));
    }
    let ends: Vec<_> = layers.iter().map(|(sizes, _)| (sizes.input, sizes.output, sizes.saved)).collect();
    assert_eq!(ends, [(0, 40, 40), (40, 40, 40), (40, 0, 40)]);
}

#[test]
fn a_unit_of_timed_layers_holds_what_its_sizes_say() {
    let layers = build(&config()).unwrap().layers;
    let unit = Unit::new(layers.into_iter().map(|layer| layer.layer).collect());
    let shape = MicroBatchShape { num_sequences: 2, seq_length: 8 };
    // Pieces start at multiples of 16.
    assert_eq!((unit.num_parameters(), unit.num_elements()), (300, 2 * 112 + 100));
    let sizes = UnitSizes { saved: 5 * 48, gradient: 40, ..UnitSizes::default() };
    assert_eq!(unit.sizes(shape), sizes);
    // The second segment keeps its input; two saved values and the input between them are recomputed.
    let checkpointed = UnitSizes { saved: 48, recompute: 3 * 48, ..sizes };
    assert_eq!(unit.with_checkpoints(segments([(0, 1), (1, 3)])).sizes(shape), checkpointed);
}

#[test]
fn every_counted_target_costs_one_nat_and_no_gradient_is_added() {
    let model = build(&config()).unwrap();
    let batch = Batch::random(2, 8, 256, 4);
    for backward in [Backward::Full, Backward::Split] {
        let mut run = Run::new(&model, 2);
        assert_eq!(run.step(&batch, backward, 1.0), LossSum { sum: 12.0, num_targets: 12 });
        for (name, gradient) in run.gradients() {
            assert_same_bits(&name, &gradient, &[0.0; 100]);
        }
    }
}

#[test]
fn empty_sizes_are_refused() {
    type Change = fn(&mut TimedConfig) -> &mut usize;
    let sizes: [(&str, Change); 4] = [
        ("num_layers", |c| &mut c.num_layers),
        ("seq_length", |c| &mut c.seq_length),
        ("parameters_per_layer", |c| &mut c.parameters_per_layer),
        ("activation_elements", |c| &mut c.activation_elements),
    ];
    for (name, size) in sizes {
        let mut config = config();
        *size(&mut config) = 0;
        match build(&config) {
            Err(error @ ModelError::Shape { .. }) => {
                assert_eq!(error.to_string(), format!("{name} = 0: must be at least 1"));
            }
            other => panic!("{other:?}"),
        }
    }
}
