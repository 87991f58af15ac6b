//! Balanced splits against every split there is.

use super::*;
use crate::split::SplitError;
use crate::testing::{blocks_of, gpt, lists_of_blocks};
use proptest::prelude::*;

/// Bytes of every stage and range of blocks, by a table of arbitrary numbers; stages and blocks stay below 10.
#[derive(Clone, Debug)]
struct Bytes(Vec<u64>);

impl Bytes {
    fn of(&self, stage: usize, blocks: Range<usize>) -> u64 {
        self.0[(stage * 10 + blocks.start) * 10 + blocks.end]
    }
}

/// A chain of `L` blocks of one layer between an embedding and two heads, with everything that is random about it.
#[derive(Clone, Debug)]
struct Case {
    costs: Vec<u64>,
    rank_of_stage: Vec<usize>,
    bytes: Bytes,
    /// Whether the bound says what stages need at least.
    has_least: bool,
    limit_bytes: u64,
}

/// Placements of up to four stages: one per rank, loops, a V, all on one rank; ranks need not be small numbers.
const PLACEMENTS: [&[usize]; 8] =
    [&[0], &[0, 1], &[2, 9, 5], &[0, 1, 2, 3], &[0, 1, 0, 1], &[0, 1, 1, 0], &[7, 7, 7], &[0, 0, 1, 0]];

impl Case {
    fn num_blocks(&self) -> usize {
        self.costs.len() - 3
    }

    fn graph(&self) -> LayerGraph {
        gpt(self.num_blocks(), 1)
    }

    fn solve(&self, num_steps_max: usize) -> Result<Balanced, BalanceError> {
        // With one layer per block, block `i` is layer `i + 1`; embedding and heads are at the ends.
        let num_blocks = self.num_blocks();
        let blocks = |layers: Range<usize>| {
            let start = if layers.start == 0 { 0 } else { layers.start - 1 };
            start..(layers.end - 1).min(num_blocks)
        };
        let least_bytes = |stage, layers| if self.has_least { self.least(stage, blocks(layers)) } else { 0 };
        let bound = MemoryBound {
            limit_bytes: self.limit_bytes,
            stage_bytes: &|stage, layers| self.bytes.of(stage, blocks(layers)),
            least_bytes: &least_bytes,
        };
        balanced_within(&self.graph(), &self.costs, &self.rank_of_stage, Some(bound), num_steps_max)
    }

    /// The sharpest of all that may be said: the least of all ranges around this one.
    fn least(&self, stage: usize, blocks: Range<usize>) -> u64 {
        let starts = 0..=blocks.start;
        let around = starts.flat_map(|start| (blocks.end..=self.num_blocks()).map(move |end| start..end));
        around.map(|around| self.bytes.of(stage, around)).min().expect("a range is around itself")
    }

    fn lists(&self) -> Vec<Vec<usize>> {
        lists_of_blocks(self.num_blocks(), self.rank_of_stage.len())
    }

    /// What the fullest rank needs.
    fn needs_bytes(&self, list: &[usize]) -> u64 {
        let mut of_ranks = vec![0; 10];
        let mut start = 0;
        for (stage, &blocks) in list.iter().enumerate() {
            of_ranks[self.rank_of_stage[stage]] += self.bytes.of(stage, start..start + blocks);
            start += blocks;
        }
        of_ranks.into_iter().max().unwrap_or(0)
    }

    /// Slowest stage, squares of costs, squares of blocks, the list itself.
    fn key(&self, list: &[usize]) -> (u64, u64, usize, Vec<usize>) {
        let (mut start, last) = (0, list.len() - 1);
        let sums: Vec<u64> = list
            .iter()
            .enumerate()
            .map(|(stage, blocks)| {
                let end =
                    if stage == last { self.costs.len() } else { start + blocks + usize::from(stage == 0) };
                let sum = self.costs[start..end].iter().sum();
                start = end;
                sum
            })
            .collect();
        let squares = sums.iter().map(|sum| sum * sum).sum();
        let blocks = list.iter().map(|blocks| blocks * blocks).sum();
        (sums.into_iter().max().unwrap_or(0), squares, blocks, list.to_vec())
    }

    /// The best split that fits, of all there are.
    fn best(&self) -> Option<Vec<usize>> {
        let fitting = self.lists().into_iter().filter(|list| self.needs_bytes(list) <= self.limit_bytes);
        fitting.min_by_key(|list| self.key(list))
    }

    fn is_one_stage_per_rank(&self) -> bool {
        let mut ranks = self.rank_of_stage.clone();
        ranks.sort_unstable();
        ranks.dedup();
        ranks.len() == self.rank_of_stage.len()
    }
}

/// Memory is random altogether, or grows with a stage's blocks as real memory nearly does.
fn cases() -> impl Strategy<Value = Case> {
    let sizes = (1_usize..=9, prop::sample::select(&PLACEMENTS[..]));
    sizes
        .prop_filter("every stage needs a block", |(num_blocks, placement)| placement.len() <= *num_blocks)
        .prop_flat_map(|(num_blocks, placement)| {
            let bytes = prop::collection::vec(1_u64..40, 4 * 10 * 10);
            (
                prop::collection::vec(0_u64..30, num_blocks + 3),
                Just(placement.to_vec()),
                (bytes, any::<bool>()).prop_map(|(mut bytes, is_monotone)| {
                    for (place, bytes) in bytes.iter_mut().enumerate().filter(|_| is_monotone) {
                        let (stage, start, end) = (place / 100, place / 10 % 10, place % 10);
                        *bytes = (4 - stage as u64) * (end.saturating_sub(start) as u64) + *bytes / 20;
                    }
                    Bytes(bytes)
                }),
                any::<bool>(),
                1_u64..90,
            )
        })
        .prop_map(|(costs, rank_of_stage, bytes, has_least, limit_bytes)| Case {
            costs,
            rank_of_stage,
            bytes,
            has_least,
            limit_bytes,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn is_the_best_of_all_splits_that_fit(case in cases()) {
        match (case.solve(SEARCH_STEPS_MAX), case.best()) {
            (Ok(found), Some(best)) => {
                prop_assert_eq!(blocks_of(&case.graph(), &found.split), best.clone());
                prop_assert_eq!(found.slowest_cost, case.key(&best).0);
                prop_assert!(found.is_exact);
            }
            (Err(BalanceError::Infeasible { stage, needs_bytes, limit_bytes, nearest, is_proven }), None) => {
                prop_assert!(is_proven);
                prop_assert_eq!(limit_bytes, case.limit_bytes);
                prop_assert_eq!(needs_bytes, case.needs_bytes(&nearest));
                prop_assert!(stage < nearest.len());
                // With the limit that the error asks for there is a split.
                let allowed = Case { limit_bytes: needs_bytes, ..case.clone() };
                prop_assert!(allowed.solve(SEARCH_STEPS_MAX).is_ok());
                let least = case.lists().iter().map(|list| case.needs_bytes(list)).min();
                if case.is_one_stage_per_rank() {
                    prop_assert_eq!(least, Some(needs_bytes));
                    prop_assert_eq!(allowed.best(), Some(nearest));
                }
            }
            (found, best) => prop_assert!(false, "found {found:?}, the best is {best:?}"),
        }
    }

    /// A search that may not take all its steps still breaks no bound, and claims no more than it knows.
    #[test]
    fn a_search_that_ends_early_is_safe_and_says_so(case in cases(), num_steps_max in 0_usize..12) {
        match (case.solve(num_steps_max), case.best()) {
            (Ok(found), best) => {
                let list = blocks_of(&case.graph(), &found.split);
                prop_assert!(case.needs_bytes(&list) <= case.limit_bytes);
                let best = best.expect("the one that was found fits");
                prop_assert!(!found.is_exact || found.slowest_cost == case.key(&best).0);
            }
            (Err(BalanceError::Infeasible { needs_bytes, nearest, is_proven, .. }), best) => {
                prop_assert!(!is_proven || best.is_none());
                prop_assert_eq!(needs_bytes, case.needs_bytes(&nearest));
                prop_assert!(needs_bytes > case.limit_bytes);
                prop_assert!(is_proven || !case.is_one_stage_per_rank());
            }
            (Err(error), _) => prop_assert!(false, "{error}"),
        }
    }
}

/// Two ranks with two stages each, where only one large stage beside one small stage fits: equal shares do not see it.
#[test]
fn the_search_finds_what_equal_shares_miss() {
    let graph = gpt(5, 1);
    // Bytes of stages of one and of two blocks. At 10 a rank only [2, 1, 1, 1] fits: 7 + 3 and 5 + 5.
    let needs = [[4, 7], [5, 9], [3, 8], [5, 6]];
    let num_others = [1, 0, 0, 2];
    let stage_bytes = |stage: usize, layers: Range<usize>| {
        needs[stage].get(layers.len() - num_others[stage] - 1).copied().unwrap_or(99)
    };
    let solve = |limit_bytes, num_steps_max| {
        let bound = MemoryBound { limit_bytes, stage_bytes: &stage_bytes, least_bytes: &|_, _| 0 };
        balanced_within(&graph, &[1, 5, 5, 5, 5, 5, 0, 1], &[0, 1, 0, 1], Some(bound), num_steps_max)
    };
    let found = solve(10, SEARCH_STEPS_MAX).expect("one split fits");
    assert_eq!((blocks_of(&graph, &found.split), found.is_exact), (vec![2, 1, 1, 1], true));
    for (limit_bytes, num_steps_max, is_proven) in
        [(10, 0, false), (9, 0, false), (9, SEARCH_STEPS_MAX, true)]
    {
        let wanted = BalanceError::Infeasible {
            stage: 3,
            needs_bytes: 11,
            limit_bytes,
            nearest: vec![1, 1, 1, 2],
            is_proven,
        };
        assert_eq!(solve(limit_bytes, num_steps_max), Err(wanted));
    }
}

/// 1F1B: the first of four stages holds four micro-batches, the last one. Time alone gives all stages three blocks, and
/// memory moves blocks to the later stages.
#[test]
fn memory_in_flight_moves_blocks_to_later_stages() {
    let graph = gpt(12, 1);
    let mut costs = vec![10; 15];
    (costs[0], costs[13], costs[14]) = (0, 0, 0);
    let stage_bytes = |stage: usize, layers: Range<usize>| (4 - stage as u64) * 100 * layers.len() as u64;
    let list = |limit_bytes| {
        let bound = MemoryBound { limit_bytes, stage_bytes: &stage_bytes, least_bytes: &|_, _| 0 };
        balanced(&graph, &costs, &[0, 1, 2, 3], Some(bound)).map(|found| blocks_of(&graph, &found.split))
    };
    assert_eq!(list(u64::MAX), Ok(vec![3, 3, 3, 3]));
    // The embedding is a layer of the first stage: 4 * 4 layers; the heads make the last one longer too.
    assert_eq!(list(1600), Ok(vec![3, 3, 3, 3]));
    assert_eq!(list(1599), Ok(vec![2, 3, 3, 4]));
    assert_eq!(list(800), Ok(vec![1, 2, 4, 5]));
    let error = list(700).expect_err("one block and the embedding need 800 on the first stage");
    let wanted = BalanceError::Infeasible {
        stage: 0,
        needs_bytes: 800,
        limit_bytes: 700,
        nearest: vec![1, 2, 4, 5],
        is_proven: true,
    };
    assert_eq!(error, wanted);
}

/// 256 blocks on 8 stages, of which memory allows hardly any split or none: how often bytes are asked for.
#[test]
fn a_sharp_least_spares_nearly_all_ranges() {
    let graph = gpt(256, 1);
    // A stage of 1F1B: what it keeps for each micro-batch in flight, and what a unit is gathered to.
    let kept = |stage: usize, layers: usize| (10 + 3 * (8 - stage as u64)) * layers as u64;
    let num_asked = std::cell::Cell::new(0);
    let stage_bytes = |stage: usize, layers: Range<usize>| {
        num_asked.set(num_asked.get() + 1);
        kept(stage, layers.len()) + 20
    };
    let least_bytes = |stage: usize, layers: Range<usize>| kept(stage, layers.len());
    let solve = |limit_bytes, is_sharp: bool| {
        let none: &dyn Fn(usize, Range<usize>) -> u64 = &|_, _| 0;
        let least_bytes = if is_sharp { &least_bytes } else { none };
        let bound = MemoryBound { limit_bytes, stage_bytes: &stage_bytes, least_bytes };
        num_asked.set(0);
        let ranks: Vec<usize> = (0..8).collect();
        (balanced(&graph, &[1; 259], &ranks, Some(bound)), num_asked.get())
    };
    let (error, num_asked_blindly) = solve(1, false);
    let Err(BalanceError::Infeasible { needs_bytes, .. }) = error else { panic!("nothing fits: {error:?}") };
    for limit_bytes in [1, needs_bytes / 2, needs_bytes - 1, needs_bytes, needs_bytes + 10] {
        let ((sharp, num_sharp), (blind, num_blind)) = (solve(limit_bytes, true), solve(limit_bytes, false));
        assert_eq!(sharp, blind);
        assert_eq!(sharp.is_ok(), limit_bytes >= needs_bytes);
        assert!(100 * num_sharp < num_asked_blindly, "{num_sharp} of {num_blind} at {limit_bytes}");
    }
}

#[test]
fn embeddings_and_heads_cost_where_they_are() {
    let graph = gpt(6, 1);
    // The head is as slow as two blocks.
    let costs = [1, 10, 10, 10, 10, 10, 10, 1, 20];
    let found = balanced(&graph, &costs, &[0, 1], None).expect("it fits");
    assert_eq!((blocks_of(&graph, &found.split), found.slowest_cost, found.is_exact), (vec![4, 2], 41, true));
}

#[test]
fn what_does_not_fit_the_model_is_an_error() {
    let graph = gpt(3, 1);
    let wrong = BalanceError::WrongNumberOfCosts { num_costs: 5, num_layers: 6 };
    assert_eq!(balanced(&graph, &[1; 5], &[0], None), Err(wrong));
    let none = balanced(&graph, &[1; 6], &[], None);
    assert_eq!(none, Err(BalanceError::Split(SplitError::NoStages)));
    let many = balanced(&graph, &[1; 6], &[0, 1, 2, 3], None);
    let wanted = SplitError::MoreStagesThanBlocks { num_stages: 4, num_blocks: 3 };
    assert_eq!(many, Err(BalanceError::Split(wanted)));
}

#[test]
fn absurd_costs_and_bytes_do_not_overflow() {
    let graph = gpt(3, 1);
    let stage_bytes = |_, _: Range<usize>| u64::MAX;
    let bound =
        |limit_bytes| Some(MemoryBound { limit_bytes, stage_bytes: &stage_bytes, least_bytes: &|_, _| 0 });
    let found = balanced(&graph, &[u64::MAX; 6], &[4, 4, usize::MAX], bound(u64::MAX)).expect("it fits");
    assert_eq!(found.slowest_cost, u64::MAX);
    let error = balanced(&graph, &[u64::MAX; 6], &[0, 0, 0], bound(0)).expect_err("nothing fits");
    assert!(matches!(error, BalanceError::Infeasible { needs_bytes: u64::MAX, .. }), "{error}");
}

#[test]
fn messages_name_value_rule_and_repair() {
    let infeasible = |is_proven| BalanceError::Infeasible {
        stage: 1,
        needs_bytes: 96,
        limit_bytes: 80,
        nearest: vec![2, 3],
        is_proven,
    };
    assert_eq!(
        infeasible(true).to_string(),
        "no split into 2 stages fits 80 bytes per rank: in the nearest one, with 2, 3 transformer layers, the rank of \
         stage 1 needs 96 bytes; allow that much, or use more stages"
    );
    assert!(infeasible(false).to_string().starts_with("no split into 2 stages that was tried fits 80 bytes"));
    assert_eq!(
        BalanceError::WrongNumberOfCosts { num_costs: 5, num_layers: 6 }.to_string(),
        "5 costs were given for 6 layers; give every layer one cost, embeddings and heads included"
    );
    assert_eq!(BalanceError::from(SplitError::NoStages).to_string(), SplitError::NoStages.to_string());
}
