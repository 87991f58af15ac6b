//! Units of different sizes: near the best, never worse than the simple plans, always within the buffers.

use alloc::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::gather_buffers::GatherBuffers;
use crate::id::Unit;
use crate::id::{MicroBatch, Stage};
use crate::unit_facts::UnitFacts;

/// The fewest bytes, by trying every buffer for every gather: for every content of all buffers, the fewest that lead
/// there.
fn fewest_bytes(reads: &[Unit], bytes: &[u64], buffers: &[u64]) -> u64 {
    let mut fewest: BTreeMap<Vec<Option<Unit>>, u64> = BTreeMap::from([(vec![None; buffers.len()], 0)]);
    for &unit in reads {
        let mut next: BTreeMap<Vec<Option<Unit>>, u64> = BTreeMap::new();
        for (content, gathered) in fewest {
            let mut reach = |content: Vec<Option<Unit>>, gathered: u64| {
                let fewest = next.entry(content).or_insert(gathered);
                *fewest = gathered.min(*fewest);
            };
            if content.contains(&Some(unit)) {
                reach(content, gathered);
                continue;
            }
            for buffer in (0..buffers.len()).filter(|&buffer| buffers[buffer] >= bytes[unit.index()]) {
                let mut content = content.clone();
                content[buffer] = Some(unit);
                reach(content, gathered + bytes[unit.index()]);
            }
        }
        fewest = next;
    }
    fewest.into_values().min().unwrap()
}

/// Bytes gathered if the unit whose next use is farthest is evicted: the rule in its simplest form.
fn farthest_next_use_bytes(question: &Question<'_>) -> u64 {
    let &Question { uses, bytes, buffers, prefetch_units } = question;
    let mut content: Vec<Option<Unit>> = vec![None; buffers.len()];
    let mut gathered = 0;
    for position in 0..uses.len() {
        let next_use = |unit| uses[position..].iter().position(|of| of.unit == unit).unwrap_or(usize::MAX);
        for wanted in position..uses.len().min(position + prefetch_units + 1) {
            let unit = uses[wanted].unit;
            if content.contains(&Some(unit)) {
                continue;
            }
            let is_wanted = |unit| uses[position..wanted].iter().any(|of| of.unit == unit);
            let may_give_way = |&buffer: &usize| {
                buffers[buffer] >= bytes[unit.index()] && !content[buffer].is_some_and(is_wanted)
            };
            let farthest = |&buffer: &usize| content[buffer].map_or(usize::MAX, next_use);
            let Some(buffer) = (0..buffers.len()).filter(may_give_way).max_by_key(farthest) else { break };
            content[buffer] = Some(unit);
            gathered += bytes[unit.index()];
        }
    }
    gathered
}

fn bytes_of(copies: &[GatheredCopy], bytes: &[u64]) -> u64 {
    copies.iter().map(|copy| bytes[copy.unit.index()]).sum()
}

/// Emits the plan and plays the row: every read finds its unit, every gather a buffer.
fn assert_runs(question: &Question<'_>, copies: &[GatheredCopy]) {
    let forward = |(number, of): (usize, &Use)| Instruction::Forward {
        unit: of.unit,
        micro_batch: MicroBatch(number as u32),
    };
    let computes: Vec<Instruction> = question.uses.iter().enumerate().map(forward).collect();
    let row = emit(&computes, question.uses, copies);
    let facts = question.bytes.iter().map(|&bytes| UnitFacts::new(Stage(0), bytes)).collect();
    let chain = Chain::new(Placement::linear(1).unwrap(), facts).unwrap();
    let assigned = GatherBuffers::assign(&chain, &row, question.buffers);
    let assigned = assigned.unwrap_or_else(|error| panic!("{error:?}\n{row:?}"));
    assert!(assigned.bytes().len() <= question.buffers.len());
    assert!(assigned.bytes().iter().zip(question.buffers).all(|(used, allowed)| used <= allowed));
    let mut held: Vec<Unit> = Vec::new();
    for &instruction in &row {
        match instruction {
            Instruction::Unshard { unit } => held.push(unit),
            Instruction::Reshard { unit } => {
                let at = held.iter().position(|&held| held == unit).unwrap();
                held.remove(at);
            }
            Instruction::Forward { unit, .. } => assert!(held.contains(&unit), "{unit} in {row:?}"),
            other => panic!("{other}"),
        }
    }
    assert!(held.is_empty());
    for copy in copies {
        assert!(
            copy.issued_at + question.prefetch_units >= copy.first_use && copy.issued_at <= copy.first_use
        );
    }
}

/// All sizes of 1, 2, 4 or 16 for up to 4 units, every budget, up to 4 micro-batches, every rank of up to 3.
///
/// The figures that this prints stand in `docs/zero.md`.
#[test]
fn bytes_are_within_8_percent_of_the_fewest_possible() {
    let (mut num_plans, mut num_best, mut worst) = (0u32, 0u32, (1, 1));
    for (p, rank) in [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)] {
        for (m, num_units) in (1..=4).flat_map(|m| (1..=4u32).map(move |num_units| (m, num_units))) {
            let reads = reads_of_1f1b(p, m, num_units, rank);
            let uses = uses_of(&reads);
            for number in 0..4usize.pow(num_units) {
                let sizes = digits(number, 4, num_units);
                let bytes: Vec<u64> = sizes.iter().map(|size| [1, 2, 4, 16][size.index()]).collect();
                for budget in 1..=num_units as usize {
                    let buffers = buffers_of(&bytes, budget);
                    let question =
                        Question { uses: &uses, bytes: &bytes, buffers: &buffers, prefetch_units: 0 };
                    let found = bytes_of(&cheapest::plan(&question), &bytes);
                    let fewest = fewest_bytes(&reads, &bytes, &buffers);
                    assert!(found >= fewest, "brute force is best");
                    num_plans += 1;
                    num_best += u32::from(found == fewest);
                    if found * worst.1 > worst.0 * fewest {
                        worst = (found, fewest);
                    }
                }
            }
        }
    }
    let (found, fewest) = worst;
    std::println!("{num_best} of {num_plans} plans gather the fewest bytes; the worst {found} for {fewest}");
    // What docs/zero.md says.
    assert_eq!((num_best, num_plans, worst), (30_043, 30_048, (15, 14)));
}

#[test]
fn strict_gathers_for_every_use_in_buffers_of_the_largest_units() {
    // A vocabulary that is used twice in a row beside blocks: the second gather waits for the first copy's buffer.
    let reads = [1, 2, 0, 0, 2, 1, 1, 2, 0, 0, 2, 1].map(Unit);
    let (uses, bytes) = (uses_of(&reads), [1000, 10, 10]);
    for prefetch_units in 0..=3 {
        let buffers = buffers_of(&bytes, 1 + prefetch_units);
        let question = Question { uses: &uses, bytes: &bytes, buffers: &buffers, prefetch_units };
        let copies = strict::plan(&question);
        assert_eq!(copies.len(), reads.len());
        assert_runs(&question, &copies);
        let second = copies.iter().find(|copy| copy.first_use == 3).unwrap();
        assert_eq!(second.issued_at, 3, "there is one buffer of 1000 bytes");
    }
}

/// Blocks that are a little smaller than the largest one take its buffers, and only those: small units that come to lie
/// there must not stay at their cost. An evaluation of nine blocks between two halves.
#[test]
fn units_that_are_nearly_as_large_count_for_the_buffers_that_they_need() {
    let bytes = [9, 81, 77, 77, 77, 77, 77, 77, 77, 78, 9];
    let reads: Vec<Unit> = (0..44).map(|position| Unit(position % 11)).collect();
    let uses = uses_of(&reads);
    let next_uses = uses::next_uses(&uses, bytes.len());
    for (budget, prefetch_units) in (1..=11).flat_map(|budget| (0..budget.min(4)).map(move |k| (budget, k))) {
        let buffers = buffers_of(&bytes, budget);
        let question = Question { uses: &uses, bytes: &bytes, buffers: &buffers, prefetch_units };
        assert_runs(&question, &cheapest::plan(&question));
        let wanted = flow::kept(&question, &next_uses).unwrap();
        assert_runs(&question, &keep::plan(&question, &next_uses, &wanted));
    }
}

#[test]
fn the_flow_saves_as_much_as_any_choice_if_copies_could_be_moved() {
    for (bytes, length) in [(&[1, 2, 4][..], 7), (&[3, 3, 1], 7), (&[1, 2, 4, 16], 6), (&[5, 4, 3, 3], 6)] {
        for number in 0..bytes.len().pow(length) {
            let reads = digits(number, bytes.len(), length);
            let uses = uses_of(&reads);
            for budget in 1..=bytes.len() {
                let buffers = buffers_of(bytes, budget);
                let question = Question { uses: &uses, bytes, buffers: &buffers, prefetch_units: 0 };
                let next_uses = uses::next_uses(&uses, bytes.len());
                let kept = flow::kept(&question, &next_uses).unwrap();
                let is_gathered = |&use_index: &usize| {
                    let before = (0..use_index).find(|&before| next_uses[before] == Some(use_index));
                    !before.is_some_and(|before| kept[before])
                };
                let gathered = (0..reads.len()).filter(is_gathered).map(|at| bytes[reads[at].index()]);
                assert_eq!(
                    gathered.sum::<u64>(),
                    fewest_bytes_if_moved(&reads, bytes, budget, 0),
                    "{reads:?} of {bytes:?}, budget {budget}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn no_plan_is_worse_than_a_simple_one_or_leaves_the_buffers(
        bytes in prop::collection::vec(prop::sample::select(vec![1u64, 2, 3, 4, 15, 16, 100]), 1..7),
        reads in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
        budget in 1usize..7,
        prefetch_units in 0usize..4,
    ) {
        let reads: Vec<Unit> = reads.iter().map(|unit| Unit(unit.index(bytes.len()) as u32)).collect();
        let uses = uses_of(&reads);
        let prefetch_units = prefetch_units.min(budget - 1);
        let buffers = buffers_of(&bytes, budget);
        let question = Question { uses: &uses, bytes: &bytes, buffers: &buffers, prefetch_units };
        let plan = cheapest::plan(&question);
        assert_runs(&question, &plan);
        let farthest = farthest::plan(&question);
        assert_runs(&question, &farthest);
        prop_assert_eq!(bytes_of(&farthest, &bytes), farthest_next_use_bytes(&question));
        prop_assert!(bytes_of(&plan, &bytes) <= farthest_next_use_bytes(&question));
        let strict = strict::plan(&question);
        assert_runs(&question, &strict);
        prop_assert!(bytes_of(&plan, &bytes) <= bytes_of(&strict, &bytes));
        // Whatever is to be kept, the plan runs.
        let next_uses = uses::next_uses(&uses, bytes.len());
        let greedy = [cheapest::largest_first, cheapest::densest_first].map(|choose| choose(&question, &next_uses));
        for wanted in greedy.into_iter().chain([vec![true; uses.len()], vec![false; uses.len()]]) {
            assert_runs(&question, &keep::plan(&question, &next_uses, &wanted));
        }
    }
}
