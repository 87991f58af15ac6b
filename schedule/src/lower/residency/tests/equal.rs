//! Equal units: Belady's plan is the best, with and without prefetch.

use super::*;
use crate::closed_form::last_rank_gathers;
use crate::id::Unit;

fn belady(reads: &[Unit], num_units: usize, budget: usize, prefetch_units: usize) -> Vec<GatheredCopy> {
    let (uses, bytes, buffers) = (uses_of(reads), vec![1; num_units], vec![1; budget]);
    farthest::plan(&Question { uses: &uses, bytes: &bytes, buffers: &buffers, prefetch_units })
}

/// The fewest gathers, by trying every choice of what is held: for each set of units that can be held while a use runs
/// (the unit used and those of the next `prefetch_units` uses among them), the fewest that lead there.
fn brute_force(reads: &[Unit], num_units: usize, budget: usize, prefetch_units: usize) -> u32 {
    const NEVER: u32 = u32::MAX;
    let num_sets = 1usize << num_units;
    let mut fewest = vec![NEVER; num_sets];
    fewest[0] = 0;
    for position in 0..reads.len() {
        let coming = &reads[position..reads.len().min(position + prefetch_units + 1)];
        let needed = coming.iter().fold(0, |set, unit| set | 1 << unit.0);
        let mut next = vec![NEVER; num_sets];
        for held in (0..num_sets).filter(|&held| fewest[held] != NEVER) {
            let gathers = fewest[held] + (needed & !held).count_ones();
            // Every subset of what was held beside the needed may stay.
            let others = held & !needed;
            let mut stay = others;
            loop {
                let set = stay | needed;
                if set.count_ones() as usize <= budget {
                    next[set] = next[set].min(gathers);
                }
                if stay == 0 {
                    break;
                }
                stay = (stay - 1) & others;
            }
        }
        fewest = next;
    }
    fewest.into_iter().min().unwrap()
}

fn assert_fewest(reads: &[Unit], num_units: usize) {
    for budget in 1..=num_units {
        for prefetch_units in 0..budget {
            let found = belady(reads, num_units, budget, prefetch_units).len();
            let fewest = brute_force(reads, num_units, budget, prefetch_units) as usize;
            assert_eq!(found, fewest, "{reads:?}, budget {budget}, prefetch {prefetch_units}");
        }
    }
}

#[test]
fn no_plan_gathers_less_on_any_short_row() {
    for (num_units, length) in [(2usize, 9u32), (3, 7), (4, 6)] {
        for number in 0..num_units.pow(length) {
            assert_fewest(&digits(number, num_units, length), num_units);
        }
    }
}

/// First, middle and last ranks, every budget, every prefetch that it allows.
#[test]
fn no_plan_gathers_less_on_1f1b_of_up_to_6_units_and_6_micro_batches() {
    for p in 1..=4 {
        for rank in 0..p {
            for m in 1..=6 {
                for num_units in 1..=6 {
                    assert_fewest(&reads_of_1f1b(p, m, num_units, rank), num_units as usize);
                }
            }
        }
    }
}

#[test]
fn the_last_rank_gathers_as_little_as_the_closed_form() {
    for m in 1..=6 {
        for num_units in 1..=6 {
            for budget in 1..=num_units {
                let reads = reads_of_1f1b(3, m, num_units, 2);
                let gathers = belady(&reads, num_units as usize, budget as usize, 0).len() as u64;
                assert_eq!(gathers, u64::from(budget + 2 * m * (num_units - budget)));
                assert_eq!(gathers, last_rank_gathers(m, num_units, budget));
            }
        }
    }
}

#[test]
fn copies_are_issued_in_time_and_never_exceed_the_budget() {
    for (num_units, length) in [(3usize, 7u32), (4, 6)] {
        for number in 0..num_units.pow(length) {
            let reads = digits(number, num_units, length);
            for (budget, prefetch_units) in [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)] {
                let copies = belady(&reads, num_units, budget, prefetch_units);
                for copy in &copies {
                    assert_eq!(copy.issued_at, copy.first_use.saturating_sub(prefetch_units));
                }
                for (position, &unit) in reads.iter().enumerate() {
                    let held = |copy: &&GatheredCopy| (copy.issued_at..=copy.last_use).contains(&position);
                    assert!(copies.iter().filter(held).count() <= budget, "{reads:?}");
                    let serves = |copy: &&GatheredCopy| {
                        copy.unit == unit && (copy.first_use..=copy.last_use).contains(&position)
                    };
                    assert_eq!(copies.iter().filter(serves).count(), 1, "{reads:?}");
                }
            }
        }
    }
}
