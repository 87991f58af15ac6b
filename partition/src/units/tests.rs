//! Units against rules that do not know how they were cut.

use super::*;
use crate::graph::LayerNode;
use crate::manual::manual;
use crate::testing::{chain, gpt, gpt_layers, layer, lists_of_blocks, num_blocks};
use crate::uniform::uniform;
use proptest::prelude::*;

fn ranges(units: &UnitSplit) -> Vec<Range<usize>> {
    units.iter().map(|unit| unit.layers.clone()).collect()
}

fn cut(graph: &LayerGraph, split: &Split, unit_layers: UnitLayers) -> UnitSplit {
    UnitSplit::new(graph, split, unit_layers).expect("every block has so many layers")
}

fn blocks(size: usize) -> UnitLayers {
    UnitLayers::of_blocks(size).expect("sizes are positive")
}

/// 48 layers on 4 stages in units of 4: 3 units per stage; the embedding in the first, norm and head in the last.
#[test]
fn forty_eight_layers_make_three_units_per_stage() {
    let graph = gpt(48, 1);
    let units = cut(&graph, &uniform(&graph, 4).expect("it fits"), blocks(4));
    assert_eq!((0..4).map(|stage| units.of_stage(stage).len()).collect::<Vec<_>>(), [3; 4]);
    assert_eq!(units.of_stage(0)[0].layers, 0..5);
    assert_eq!(units.of_stage(1)[0].layers, 13..17);
    assert_eq!(units.of_stage(3)[2].layers, 45..51);
    assert!(units.of_stage(4).is_empty());
}

/// Tied layers stand alone and everything untied around them still finds a unit.
#[test]
fn tied_layers_are_units_of_their_own() {
    let mut layers = gpt_layers(4, 1);
    layers[0].tying = Tying::Embedding;
    layers[6].tying = Tying::Head;
    layers.insert(1, layer("wpe", LayerRole::Embedding));
    let graph = chain(layers);
    let one_stage = uniform(&graph, 1).expect("it fits");
    // wte | wpe h.0 h.1 | h.2 h.3 ln_f | lm_head
    assert_eq!(ranges(&cut(&graph, &one_stage, blocks(2))), [0..1, 1..4, 4..7, 7..8]);
    let stage = cut(&graph, &one_stage, UnitLayers::Stage);
    assert_eq!(ranges(&stage), [0..1, 1..7, 7..8]);
    let tying: Vec<_> = stage.iter().map(|unit| unit.tying).collect();
    assert_eq!(tying, [Tying::Embedding, Tying::Untied, Tying::Head]);
}

/// Slices of both tables, tied or not: a unit each.
#[test]
fn slices_are_units_of_their_own() {
    for tied in [[Tying::Untied; 2], [Tying::Embedding, Tying::Head]] {
        let mut layers = gpt_layers(2, 1);
        let slice = |name: &str, role, tying| LayerNode { tying, is_slice: true, ..layer(name, role) };
        let embedding = |name| slice(name, LayerRole::Embedding, tied[0]);
        let head = |name| slice(name, LayerRole::Head, tied[1]);
        let last = layers.len() - 1;
        layers.splice(last.., [head("lm_head.0"), head("lm_head.1")]);
        layers.splice(..1, [embedding("wte.0"), embedding("wte.1"), layer("wpe", LayerRole::Embedding)]);
        let graph = chain(layers);
        let one_stage = uniform(&graph, 1).expect("it fits");
        // wte.0 | wte.1 | wpe h.0 | h.1 ln_f | lm_head.0 | lm_head.1
        assert_eq!(ranges(&cut(&graph, &one_stage, blocks(1))), [0..1, 1..2, 2..4, 4..6, 6..7, 7..8]);
        assert_eq!(ranges(&cut(&graph, &one_stage, UnitLayers::Stage)), [0..1, 1..2, 2..6, 6..7, 7..8]);
    }
}

/// An untied embedding before a tied one has no block beside it, so it is a unit too.
#[test]
fn untied_layers_beyond_a_tied_one_are_not_lost() {
    let mut layers = gpt_layers(1, 1);
    layers[0].tying = Tying::Embedding;
    layers[2].tying = Tying::Head;
    layers.insert(0, layer("wpe", LayerRole::Embedding));
    let graph = chain(layers);
    // wpe | wte | h.0 | ln_f (here the tied one) | lm_head
    let units = cut(&graph, &uniform(&graph, 1).expect("it fits"), blocks(1));
    assert_eq!(ranges(&units), [0..1, 1..2, 2..3, 3..4, 4..5]);
}

#[test]
fn no_units_of_zero_blocks() {
    assert_eq!(UnitLayers::of_blocks(0), None);
}

/// Attention and MLP of two layers each: cut in the middle; the embedding is with the first half, norm and head with
/// the last one, tied layers apart.
#[test]
fn halves_are_cut_in_the_middle_of_a_block() {
    let graph = gpt(2, 4);
    // wte h.0.0 h.0.1 | h.0.2 h.0.3 | h.1.0 h.1.1 | h.1.2 h.1.3 ln_f lm_head
    for num_stages in [1, 2] {
        let split = uniform(&graph, num_stages).expect("it fits");
        assert_eq!(ranges(&cut(&graph, &split, UnitLayers::Half)), [0..3, 3..5, 5..7, 7..11]);
    }
    // Of an odd number the first half has one more.
    let graph = gpt(2, 3);
    let one_stage = uniform(&graph, 1).expect("it fits");
    assert_eq!(ranges(&cut(&graph, &one_stage, UnitLayers::Half)), [0..3, 3..4, 4..6, 6..9]);
    let mut layers = gpt_layers(1, 2);
    let last = layers.len() - 1;
    (layers[0].tying, layers[last].tying) = (Tying::Embedding, Tying::Head);
    let graph = chain(layers);
    let one_stage = uniform(&graph, 1).expect("it fits");
    assert_eq!(ranges(&cut(&graph, &one_stage, UnitLayers::Half)), [0..1, 1..2, 2..4, 4..5]);
}

/// Two halves are the unit of one block, in every model and split.
#[test]
fn two_halves_are_a_block() {
    for layers_per_block in 2..=5 {
        for num_blocks in 1..=6 {
            let graph = gpt(num_blocks, layers_per_block);
            for list in (1..=num_blocks).flat_map(|num_stages| lists_of_blocks(num_blocks, num_stages)) {
                let split = manual(&graph, &list).expect("the list fits");
                let halves = cut(&graph, &split, UnitLayers::Half);
                let joined: Vec<_> =
                    ranges(&halves).chunks(2).map(|pair| pair[0].start..pair[1].end).collect();
                assert_eq!(joined, ranges(&cut(&graph, &split, blocks(1))));
            }
        }
    }
}

#[test]
fn a_block_of_one_layer_has_no_halves() {
    let mut layers = gpt_layers(3, 2);
    layers.remove(4);
    let graph = chain(layers);
    let split = uniform(&graph, 3).expect("it fits");
    let error = UnitSplit::new(&graph, &split, UnitLayers::Half).expect_err("block 1 cannot be cut");
    assert_eq!(error, UnitError::BlockOfOneLayer { block: 1, layer: "h.1.0".to_owned() });
    assert_eq!(
        error.to_string(),
        "transformer layer 1 is the single piece `h.1.0`, and a unit of half a layer needs two; use units of at least 1 \
         layer, or a model whose layers have parts"
    );
    // Larger units take it as it is.
    assert_eq!(ranges(&cut(&graph, &split, blocks(1))), [0..3, 3..4, 4..8]);
}

/// A model, one of its splits and a unit size.
fn cases() -> impl Strategy<Value = (LayerGraph, Split, usize)> {
    let sizes = (1_usize..=12, 1_usize..=3, 1_usize..=2, any::<bool>(), 1_usize..=14);
    (sizes, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(
        |((num_blocks, layers_per_block, num_embeddings, tied, size), stages, list)| {
            let mut layers: Vec<LayerNode> = gpt_layers(num_blocks, layers_per_block);
            if tied {
                let last = layers.len() - 1;
                layers[0].tying = Tying::Embedding;
                layers[last].tying = Tying::Head;
            }
            for _ in 1..num_embeddings {
                layers.insert(1, layer("wpe", LayerRole::Embedding));
            }
            let graph = chain(layers);
            let lists = lists_of_blocks(num_blocks, stages.index(num_blocks) + 1);
            let blocks_per_stage: &Vec<usize> = list.get(&lists);
            let split = manual(&graph, blocks_per_stage).expect("the list fits");
            (graph, split, size)
        },
    )
}

proptest! {
    #[test]
    fn units_partition_every_stage((graph, split, size) in cases()) {
        for unit_layers in [blocks(size), UnitLayers::Stage] {
            let units = cut(&graph, &split, unit_layers);
            prop_assert!(units.iter().flat_map(|unit| unit.layers.clone()).eq(0..graph.num_layers()));
            for (stage, layers) in split.stages().enumerate() {
                let own = units.of_stage(stage);
                prop_assert!(own.iter().flat_map(|unit| unit.layers.clone()).eq(layers));
                prop_assert!(own.iter().all(|unit| unit.stage == stage && !unit.layers.is_empty()));
            }
        }
    }

    /// Per stage, the units with blocks have `size` blocks each but the last, which has the rest; units without blocks
    /// are exactly the tied layers (an untied embedding always finds a block behind it in these models).
    #[test]
    fn units_have_their_size((graph, split, size) in cases()) {
        let units = cut(&graph, &split, blocks(size));
        for stage in 0..split.num_stages() {
            let mut sizes = Vec::new();
            for unit in units.of_stage(stage) {
                let num_blocks = num_blocks(&graph, unit.layers.clone());
                let tied = unit.layers.clone().any(|position| graph.layer(position).tying != Tying::Untied);
                prop_assert_eq!(tied, num_blocks == 0);
                prop_assert_eq!(tied, unit.tying != Tying::Untied);
                prop_assert!(!tied || unit.layers.len() == 1);
                sizes.extend((num_blocks > 0).then_some(num_blocks));
            }
            let total = num_blocks(&graph, split.layers(stage));
            let mut wanted = vec![size; total / size];
            wanted.extend(Some(total % size).filter(|&rest| rest > 0));
            prop_assert_eq!(sizes, wanted);
        }
    }

    /// A block of several layers is never cut.
    #[test]
    fn blocks_stay_whole((graph, split, size) in cases()) {
        let units = cut(&graph, &split, blocks(size));
        for block in 0..graph.num_blocks() {
            let layers = graph.block_layers(block);
            let holds = |unit: &&Unit| unit.layers.start <= layers.start && layers.end <= unit.layers.end;
            prop_assert_eq!(units.iter().filter(holds).count(), 1);
        }
    }
}

/// Wherever trained layers border on frozen ones a unit ends, and nowhere else one ends that did not before.
#[test]
fn a_unit_is_wholly_frozen_or_wholly_trained() {
    for frozen in 0..1_u32 << 11 {
        let mut layers = gpt_layers(4, 2);
        layers.iter_mut().enumerate().for_each(|(at, layer)| layer.is_frozen = frozen >> at & 1 == 1);
        let graph = chain(layers);
        let all_trained = gpt(4, 2);
        for (num_stages, unit_layers) in
            [(1, blocks(2)), (2, blocks(1)), (2, UnitLayers::Stage), (1, UnitLayers::Half)]
        {
            let split = uniform(&graph, num_stages).expect("it fits");
            let starts = |graph: &LayerGraph| -> Vec<usize> {
                cut(graph, &split, unit_layers).iter().map(|unit| unit.layers.start).collect()
            };
            let before = starts(&all_trained);
            let is_border = |at: usize| at > 0 && (frozen >> at ^ frozen >> (at - 1)) & 1 == 1;
            let expected: Vec<usize> =
                (0..graph.num_layers()).filter(|&at| before.contains(&at) || is_border(at)).collect();
            assert_eq!(starts(&graph), expected, "{frozen:b}");
            for unit in cut(&graph, &split, unit_layers).iter() {
                assert!(unit.layers.clone().all(|at| graph.layer(at).is_frozen == unit.is_frozen));
            }
        }
    }
}
