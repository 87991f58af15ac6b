//! The split by type: layers of one type are distributed evenly, whatever lies between them.
//!
//! It is DeepSpeed's `type:REGEX` (`PipelineModule`, `partition_method`): a layer whose name matches weighs 1, any
//! other
//! 0. The pattern is the caller's, as a predicate, so that this crate needs no regular expressions.

use crate::graph::{LayerGraph, LayerNode};
use crate::minimax::{BlockWeights, most_even_split};
use crate::split::{Split, SplitError};

/// Splits the blocks so that the largest number of matching layers of a stage is as small as possible; embeddings
/// count on the first stage, heads on the last. Every stage has a block all the same, matching or not.
///
/// Among the splits with the smallest maximum: the most even one in matching layers (smallest sum of squares), then in
/// blocks, then the one with the fewest blocks in the first stage, the second, and so on.
///
/// # Errors
/// [`SplitError::NoStages`]; [`SplitError::MoreStagesThanBlocks`]; [`SplitError::NoLayerMatches`].
pub fn by_type(
    graph: &LayerGraph,
    num_stages: usize,
    matches: impl Fn(&LayerNode) -> bool,
) -> Result<Split, SplitError> {
    Split::check_num_stages(graph, num_stages)?;
    let weights = BlockWeights::of(graph, |layer| u64::from(matches(graph.layer(layer))));
    if weights.total() == 0 {
        return Err(SplitError::NoLayerMatches { num_layers: graph.num_layers() });
    }
    Split::by_blocks(graph, &most_even_split(&weights, num_stages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::LayerRole;
    use crate::testing::{blocks_of, gpt, gpt_layers};
    use crate::uniform::uniform;

    #[test]
    fn every_block_alike_is_as_even_as_the_uniform_split() {
        for num_blocks in 1..=9 {
            let graph = gpt(num_blocks, 2);
            for num_stages in 1..=num_blocks {
                let is_block = |layer: &LayerNode| matches!(layer.role, LayerRole::Block { .. });
                let by_blocks = by_type(&graph, num_stages, is_block).expect("blocks match");
                let mut blocks = blocks_of(&graph, &by_blocks);
                // The same sizes, but the larger ones at the end: early stages hold more activations.
                blocks.reverse();
                assert_eq!(blocks, blocks_of(&graph, &uniform(&graph, num_stages).expect("it fits")));
            }
        }
    }

    #[test]
    fn only_matching_layers_weigh() {
        // Every fourth of twelve blocks is of the type: one on each of three stages.
        let graph = gpt(12, 1);
        let is_sparse = |layer: &LayerNode| ["h.0.0", "h.4.0", "h.8.0"].contains(&layer.name.as_str());
        assert_eq!(blocks_of(&graph, &by_type(&graph, 3, is_sparse).expect("three match")), [4, 4, 4]);
        // The embedding is on the first stage wherever the cuts are; then blocks decide.
        let is_embedding = |layer: &LayerNode| layer.name == "wte";
        assert_eq!(blocks_of(&graph, &by_type(&graph, 3, is_embedding).expect("one matches")), [4, 4, 4]);
        // Embedding and first block cannot be parted.
        let is_early = |layer: &LayerNode| ["wte", "h.0.0", "h.1.0"].contains(&layer.name.as_str());
        assert_eq!(by_type(&graph, 2, is_early).expect("three match").layers(0), 0..2);
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_an_error() {
        let graph = gpt(2, 1);
        let error = by_type(&graph, 2, |_| false).expect_err("nothing matches");
        assert_eq!(error, SplitError::NoLayerMatches { num_layers: gpt_layers(2, 1).len() });
        assert_eq!(
            error.to_string(),
            "the pattern matches none of the model's 5 layers, so there is nothing to distribute evenly; match at \
             least one layer, or use the uniform split"
        );
        assert_eq!(
            by_type(&graph, 3, |_| true).map(|_| ()),
            Err(SplitError::MoreStagesThanBlocks { num_stages: 3, num_blocks: 2 })
        );
    }
}
