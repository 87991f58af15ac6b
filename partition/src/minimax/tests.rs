//! The dynamic program against every split there is.

use super::*;
use crate::testing::lists_of_blocks;
use proptest::prelude::*;

fn weights(of_blocks: &[u64]) -> BlockWeights {
    BlockWeights::new(of_blocks.iter().map(|&weight| u128::from(weight)))
}

/// Where each stage's blocks are.
fn stages(list: &[usize]) -> Vec<Range<usize>> {
    let ends = list.iter().scan(0, |end, blocks| {
        *end += blocks;
        Some(*end)
    });
    list.iter().zip(ends).map(|(blocks, end)| end - blocks..end).collect()
}

/// The best of all allowed splits by the order of the module's head, every split weighed block by block.
fn brute_force(
    of_blocks: &[u64],
    num_stages: usize,
    fits: impl Fn(usize, Range<usize>) -> bool,
) -> Option<Vec<usize>> {
    let key = |list: &Vec<usize>| {
        let sums: Vec<u64> = stages(list).into_iter().map(|blocks| of_blocks[blocks].iter().sum()).collect();
        let squares: u64 = sums.iter().map(|sum| sum * sum).sum();
        let blocks: usize = list.iter().map(|blocks| blocks * blocks).sum();
        (sums.into_iter().max(), squares, blocks, list.clone())
    };
    let is_allowed =
        |list: &Vec<usize>| stages(list).into_iter().enumerate().all(|(stage, blocks)| fits(stage, blocks));
    lists_of_blocks(of_blocks.len(), num_stages).into_iter().filter(is_allowed).min_by_key(key)
}

/// Every list of up to six weights of 0, 1, 2 and 5, on every number of stages.
#[test]
fn is_the_best_split_of_all_small_chains() {
    let mut chains: Vec<Vec<u64>> = vec![vec![]];
    for _ in 0..6 {
        chains = chains
            .iter()
            .flat_map(|chain| [0, 1, 2, 5].map(|weight| [chain.as_slice(), &[weight]].concat()))
            .collect();
        for chain in &chains {
            for num_stages in 1..=chain.len() {
                let found = minimax(&weights(chain), num_stages, |_, _| true, |_, _| true);
                assert_eq!(found, brute_force(chain, num_stages, |_, _| true), "{chain:?} on {num_stages}");
            }
        }
    }
}

proptest! {
    /// Any set of forbidden stages, monotone or not.
    #[test]
    fn is_the_best_split_that_fits(
        of_blocks in prop::collection::vec(0_u64..20, 1..=9),
        stages in any::<prop::sample::Index>(),
        forbidden in prop::collection::vec(any::<bool>(), 9 * 10 * 10),
        sparsity in 0_usize..4,
    ) {
        let num_stages = stages.index(of_blocks.len()) + 1;
        let fits = |stage: usize, blocks: Range<usize>| {
            let place = (stage * 10 + blocks.start) * 10 + blocks.end;
            (0..=sparsity).any(|shift| !forbidden[(place + 7 * shift) % forbidden.len()])
        };
        let found = minimax(&weights(&of_blocks), num_stages, |_, _| true, fits);
        prop_assert_eq!(found, brute_force(&of_blocks, num_stages, fits));
    }
}

/// Only 6 | 6 | 1 and 7 | 3 | 3 are allowed: the second is more even, the first has the smaller maximum and wins.
#[test]
fn the_maximum_comes_before_evenness_where_memory_binds() {
    let of_blocks = [1, 1, 1, 1, 1, 1, 1, 3, 2, 1];
    let allowed = [[0..6, 6..9, 9..10], [0..7, 7..8, 8..10]];
    let fits = |stage: usize, blocks: Range<usize>| allowed.iter().any(|stages| stages[stage] == blocks);
    assert_eq!(minimax(&weights(&of_blocks), 3, |_, _| true, |_, _| true), Some(vec![5, 3, 2]));
    assert_eq!(minimax(&weights(&of_blocks), 3, |_, _| true, fits), Some(vec![6, 3, 1]));
    let only_second = |stage: usize, blocks: Range<usize>| allowed[1][stage] == blocks;
    assert_eq!(minimax(&weights(&of_blocks), 3, |_, _| true, only_second), Some(vec![7, 1, 2]));
}

/// Windows hold exactly the cuts of the splits up to the cap, and are empty somewhere if there is none.
#[test]
fn windows_hold_every_split_up_to_the_cap_and_no_more() {
    let chains: [&[u64]; 4] = [&[3, 1, 4, 1, 5, 9, 2], &[0, 0, 7, 0, 0], &[1; 8], &[9, 1, 1, 1, 1, 1]];
    for chain in chains {
        let (of_blocks, weights) = (chain, weights(chain));
        for num_stages in 1..=of_blocks.len() {
            for cap in 0..=weights.total() as u64 {
                let splits: Vec<_> = lists_of_blocks(of_blocks.len(), num_stages)
                    .into_iter()
                    .map(|list| stages(&list))
                    .filter(|stages| {
                        stages.iter().all(|blocks| of_blocks[blocks.clone()].iter().sum::<u64>() <= cap)
                    })
                    .collect();
                let is_light = |_, blocks| weights.sum(blocks) <= u128::from(cap);
                let windows = windows(of_blocks.len(), num_stages, is_light);
                assert_eq!(windows.iter().any(RangeInclusive::is_empty), splits.is_empty());
                for stage in (0..num_stages).filter(|_| !splits.is_empty()) {
                    let starts = splits.iter().map(|stages| stages[stage].start);
                    let wanted = starts.clone().min().zip(starts.max());
                    assert_eq!(Some((*windows[stage].start(), *windows[stage].end())), wanted);
                }
            }
        }
    }
}

#[test]
fn absurd_weights_do_not_overflow() {
    let chain = [u64::MAX; 5];
    assert_eq!(minimax(&weights(&chain), 2, |_, _| true, |_, _| true), Some(vec![2, 3]));
    assert_eq!(minimax(&weights(&chain), 2, |_, _| true, |_, _| false), None);
}

/// A thousand blocks on 64 stages look at the windows, not at the half million ranges of each stage.
#[test]
fn a_thousand_blocks_need_few_looks() {
    // Time alone would put 32 of the light blocks on a stage or 11 of the heavy ones; memory allows 16 of either.
    let of_blocks: Vec<u64> = (0..1000).map(|block| if block < 500 { 1000 } else { 3000 }).collect();
    for (blocks_max, wanted, looks_max) in [(1000, 33_000, 70_000), (16, 48_000, 700_000)] {
        let num_looks = std::cell::Cell::new(0);
        let fits = |_, blocks: Range<usize>| {
            num_looks.set(num_looks.get() + 1);
            blocks.len() <= blocks_max
        };
        let split =
            minimax(&weights(&of_blocks), 64, |_, _| true, fits).expect("64 stages of 16 blocks hold 1000");
        let sums = stages(&split).into_iter().map(|blocks| of_blocks[blocks].iter().sum::<u64>());
        assert_eq!(sums.max(), Some(wanted));
        assert!(split.iter().all(|&blocks| blocks <= blocks_max));
        assert!(num_looks.get() < looks_max, "{} looks", num_looks.get());
    }
}
