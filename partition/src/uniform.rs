//! The uniform split: as equal as possible in transformer blocks.

use crate::graph::LayerGraph;
use crate::split::{Split, SplitError};

/// Splits the blocks as equally as possible over `num_stages`: two stages differ by at most one block, and a remainder
/// goes to the first stages. Embeddings join the first stage, heads the last.
///
/// # Errors
/// [`SplitError::NoStages`]; [`SplitError::MoreStagesThanBlocks`].
pub fn uniform(graph: &LayerGraph, num_stages: usize) -> Result<Split, SplitError> {
    // Checked before a list of stages is made, which a mistyped number could make larger than memory.
    Split::check_num_stages(graph, num_stages)?;
    let num_blocks = graph.num_blocks();
    let blocks_per_stage: Vec<usize> = (0..num_stages)
        .map(|stage| num_blocks / num_stages + usize::from(stage < num_blocks % num_stages))
        .collect();
    Split::by_blocks(graph, &blocks_per_stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks_of, gpt, lists_of_blocks};

    /// The uniform split is the one among all splits that is balanced and never grows towards the end.
    #[test]
    fn is_the_only_balanced_split_with_the_remainder_first() {
        for num_blocks in 1..=10 {
            let graph = gpt(num_blocks, 1);
            for num_stages in 1..=num_blocks {
                let wanted: Vec<_> = lists_of_blocks(num_blocks, num_stages)
                    .into_iter()
                    .filter(|list| list.is_sorted_by(|a, b| a >= b))
                    .filter(|list| list[0] - list[num_stages - 1] <= 1)
                    .collect();
                let split = uniform(&graph, num_stages).expect("stages fit the blocks");
                assert_eq!(wanted, [blocks_of(&graph, &split)], "{num_blocks} blocks, {num_stages} stages");
            }
        }
    }

    #[test]
    fn refuses_more_stages_than_blocks_and_none() {
        let graph = gpt(3, 2);
        for num_stages in [4, 5, usize::MAX] {
            let error = uniform(&graph, num_stages).expect_err("three blocks fill at most three stages");
            assert_eq!(error, SplitError::MoreStagesThanBlocks { num_stages, num_blocks: 3 });
        }
        assert_eq!(uniform(&graph, 0), Err(SplitError::NoStages));
        assert_eq!(
            SplitError::MoreStagesThanBlocks { num_stages: 4, num_blocks: 3 }.to_string(),
            "3 transformer layers cannot fill 4 pipeline stages, every stage needs at least 1; use at most 3 stages \
             or more layers"
        );
    }
}
