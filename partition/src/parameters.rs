//! The split by parameters: the stage with the most has as few as any split allows.
//!
//! Equal parameters are equal model states, and for layers of one kind nearly equal work. It is DeepSpeed's default
//! (`PipelineModule`, `partition_method="parameters"`). What it does not see: a head's work grows with the
//! vocabulary, an embedding has hardly any, and early stages hold more activations. [`balanced`](crate::balanced())
//! does.

use crate::graph::LayerGraph;
use crate::minimax::{BlockWeights, most_even_split};
use crate::split::{Split, SplitError};

/// Splits the blocks so that the largest number of parameters of a stage is as small as possible; embeddings count on
/// the first stage, heads on the last, both uses of a tied weight included.
///
/// Among the splits with the smallest maximum: the most even one in parameters (smallest sum of squares), then in
/// blocks, then the one with the fewest blocks in the first stage, the second, and so on.
///
/// # Errors
/// [`SplitError::NoStages`]; [`SplitError::MoreStagesThanBlocks`].
pub fn parameters(graph: &LayerGraph, num_stages: usize) -> Result<Split, SplitError> {
    Split::check_num_stages(graph, num_stages)?;
    let weights = BlockWeights::of(graph, |layer| graph.layer(layer).num_parameters);
    Split::by_blocks(graph, &most_even_split(&weights, num_stages))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks_of, chain, gpt, gpt_layers, lists_of_blocks};
    use crate::uniform::uniform;

    /// A model whose head has as many parameters as three blocks: the last stage gets three blocks fewer.
    #[test]
    fn embedding_and_head_weigh_on_their_stages() {
        let mut layers = gpt_layers(9, 1);
        (layers[0].num_parameters, layers[10].num_parameters, layers[11].num_parameters) = (0, 0, 300);
        let graph = chain(layers);
        assert_eq!(blocks_of(&graph, &parameters(&graph, 3).expect("it fits")), [4, 4, 1]);
        assert_eq!(blocks_of(&graph, &uniform(&graph, 3).expect("it fits")), [3, 3, 3]);
    }

    /// Every split is weighed layer by layer; the winner has the least maximum, then the least squares, then comes
    /// first.
    #[test]
    fn is_the_best_of_all_splits() {
        for num_blocks in 1..=8 {
            let mut layers = gpt_layers(num_blocks, 2);
            for (position, layer) in layers.iter_mut().enumerate() {
                layer.num_parameters = (position as u64 * 7 + 3) % 11;
            }
            let graph = chain(layers);
            for num_stages in 1..=num_blocks {
                let key = |list: &Vec<usize>| {
                    let split = Split::by_blocks(&graph, list).expect("the list fits");
                    let sums: Vec<u64> = split.stages().map(|layers| graph.num_parameters(layers)).collect();
                    let squares: u64 = sums.iter().map(|sum| sum * sum).sum();
                    let blocks: usize = list.iter().map(|blocks| blocks * blocks).sum();
                    (sums.iter().copied().max(), squares, blocks, list.clone())
                };
                let best = lists_of_blocks(num_blocks, num_stages).into_iter().min_by_key(key);
                let split = parameters(&graph, num_stages).expect("stages fit the blocks");
                assert_eq!(Some(blocks_of(&graph, &split)), best);
            }
        }
    }

    #[test]
    fn refuses_what_no_split_can_be() {
        let graph = gpt(3, 1);
        assert_eq!(parameters(&graph, 0), Err(SplitError::NoStages));
        let too_many = Err(SplitError::MoreStagesThanBlocks { num_stages: usize::MAX, num_blocks: 3 });
        assert_eq!(parameters(&graph, usize::MAX), too_many);
    }
}
