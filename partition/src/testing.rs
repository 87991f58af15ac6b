//! Small models and brute-force enumeration that several tests of this crate compare against.

use std::ops::Range;

use crate::graph::{LayerGraph, LayerNode};
use crate::role::{LayerRole, Tying};
use crate::split::Split;

/// A layer with a hundred parameters.
pub(crate) fn layer(name: &str, role: LayerRole) -> LayerNode {
    LayerNode {
        name: name.to_owned(),
        role,
        tying: Tying::Untied,
        num_parameters: 100,
        is_frozen: false,
        frozen_parameters: Vec::new(),
        forward_flops: 200,
        saved_elements: 10,
        is_slice: false,
        is_input_encoder: false,
    }
}

/// The layers of an untied GPT: one embedding, the blocks, a final norm and a head.
pub(crate) fn gpt_layers(num_blocks: usize, layers_per_block: usize) -> Vec<LayerNode> {
    let mut layers = vec![layer("wte", LayerRole::Embedding)];
    for index in 0..num_blocks {
        for part in 0..layers_per_block {
            layers.push(layer(&format!("h.{index}.{part}"), LayerRole::Block { index }));
        }
    }
    layers.push(layer("ln_f", LayerRole::Head));
    layers.push(layer("lm_head", LayerRole::Head));
    layers
}

/// The chain of these layers; the cut after layer `i` has `i + 1` elements, so that no two are alike.
pub(crate) fn chain(layers: Vec<LayerNode>) -> LayerGraph {
    let cuts: Vec<u64> = (1..layers.len() as u64).collect();
    LayerGraph::chain(layers, &cuts).expect("the layers are in order")
}

/// An untied GPT.
pub(crate) fn gpt(num_blocks: usize, layers_per_block: usize) -> LayerGraph {
    chain(gpt_layers(num_blocks, layers_per_block))
}

/// Blocks that have a layer in the range, counted from the layers' roles.
pub(crate) fn num_blocks(graph: &LayerGraph, layers: Range<usize>) -> usize {
    let mut indices: Vec<_> = layers
        .filter_map(|position| match graph.layer(position).role {
            LayerRole::Block { index } => Some(index),
            LayerRole::Embedding | LayerRole::Head => None,
        })
        .collect();
    indices.dedup();
    indices.len()
}

/// How many blocks each stage of the split has, counted layer by layer.
pub(crate) fn blocks_of(graph: &LayerGraph, split: &Split) -> Vec<usize> {
    split.stages().map(|layers| num_blocks(graph, layers)).collect()
}

/// Every list of `num_stages` positive numbers that add up to `num_blocks`.
pub(crate) fn lists_of_blocks(num_blocks: usize, num_stages: usize) -> Vec<Vec<usize>> {
    if num_stages == 1 {
        return vec![vec![num_blocks]];
    }
    (1..num_blocks)
        .flat_map(|first| {
            let rest = if num_blocks - first >= num_stages - 1 {
                lists_of_blocks(num_blocks - first, num_stages - 1)
            } else {
                vec![]
            };
            rest.into_iter().map(move |list| [vec![first], list].concat())
        })
        .collect()
}
