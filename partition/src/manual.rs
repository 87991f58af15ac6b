//! The manual split: the user says how many transformer blocks each stage has.

use crate::graph::LayerGraph;
use crate::split::{Split, SplitError};

/// Gives stage `s` the next `blocks_per_stage[s]` blocks. Embeddings join the first stage, heads the last.
///
/// # Errors
/// [`SplitError::NoStages`] for an empty list; [`SplitError::EmptyStage`], [`SplitError::MoreStagesThanBlocks`] and
/// [`SplitError::WrongSum`] for lists that do not fit the model.
pub fn manual(graph: &LayerGraph, blocks_per_stage: &[usize]) -> Result<Split, SplitError> {
    Split::by_blocks(graph, blocks_per_stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks_of, gpt, lists_of_blocks};

    #[test]
    fn every_list_that_fits_is_taken_as_it_is() {
        for layers_per_block in [1, 2] {
            for num_blocks in 1..=10 {
                let graph = gpt(num_blocks, layers_per_block);
                for list in (1..=num_blocks).flat_map(|num_stages| lists_of_blocks(num_blocks, num_stages)) {
                    let split = manual(&graph, &list).expect("the list fits");
                    assert_eq!(blocks_of(&graph, &split), list);
                    assert_covers(&graph, &split);
                }
            }
        }
    }

    /// Complete, contiguous and non-empty: the stages' layers, one after the other, are 0, 1, 2, ...
    fn assert_covers(graph: &LayerGraph, split: &Split) {
        assert!(split.stages().all(|layers| !layers.is_empty()));
        assert!(split.stages().flatten().eq(0..graph.num_layers()));
    }

    /// All lists of up to five numbers up to six against a model of five blocks: accepted if and only if they fit.
    #[test]
    fn every_list_that_does_not_fit_is_refused_with_its_values() {
        let graph = gpt(5, 1);
        let mut lists: Vec<Vec<usize>> = vec![vec![]];
        for _ in 0..5 {
            let longer =
                lists.iter().flat_map(|list| (0..=6).map(move |next| [list.as_slice(), &[next]].concat()));
            lists = lists.clone().into_iter().chain(longer).collect();
            lists.sort_unstable();
            lists.dedup();
        }
        assert_eq!(lists.len(), (0..=5).map(|length| 7_usize.pow(length)).sum::<usize>());
        for list in lists {
            let sum = list.iter().sum();
            let expected = match list.iter().position(|&blocks| blocks == 0) {
                _ if list.is_empty() => Err(SplitError::NoStages),
                Some(stage) => Err(SplitError::EmptyStage { stage, num_stages: list.len() }),
                None if sum != 5 => Err(SplitError::WrongSum { sum, num_blocks: 5 }),
                None => Ok(()),
            };
            assert_eq!(manual(&graph, &list).map(|_| ()), expected, "{list:?}");
        }
        let ones = manual(&graph, &[1; 6]).expect_err("six stages do not fit five blocks");
        assert_eq!(ones, SplitError::MoreStagesThanBlocks { num_stages: 6, num_blocks: 5 });
        let huge = manual(&graph, &[usize::MAX, 2]).expect_err("the sum is far too large");
        assert_eq!(huge, SplitError::WrongSum { sum: usize::MAX, num_blocks: 5 });
    }

    #[test]
    fn messages_name_value_rule_and_repair() {
        let messages = [
            (SplitError::NoStages, "there are 0 pipeline stages; a model needs at least 1"),
            (
                SplitError::EmptyStage { stage: 1, num_stages: 3 },
                "stage 1 of 3 gets 0 transformer layers; give every stage at least 1, or use fewer stages",
            ),
            (
                SplitError::WrongSum { sum: 7, num_blocks: 5 },
                "the stages' transformer layers add up to 7 but the model has 5; remove 2",
            ),
            (
                SplitError::WrongSum { sum: 3, num_blocks: 5 },
                "the stages' transformer layers add up to 3 but the model has 5; add 2",
            ),
        ];
        for (error, message) in messages {
            assert_eq!(error.to_string(), message);
        }
    }
}
