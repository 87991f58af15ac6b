//! Equal units: Belady's plan is the best, with and without prefetch.

use super::*;
use crate::id::Unit;

fn belady(reads: &[Unit], num_units: usize, budget: usize, prefetch_units: usize) -> Vec<GatheredCopy> {
    let (uses, bytes, buffers) = (uses_of(reads), vec![1; num_units], vec![1; budget]);
    farthest::plan(&Question { uses: &uses, bytes: &bytes, buffers: &buffers, prefetch_units })
}

fn assert_fewest(reads: &[Unit], num_units: usize) {
    for budget in 1..=num_units {
        for prefetch_units in 0..budget {
            let found = belady(reads, num_units, budget, prefetch_units).len();
            let fewest = fewest_bytes_if_moved(reads, &vec![1; num_units], budget, prefetch_units);
            assert_eq!(found as u64, fewest, "{reads:?}, budget {budget}, prefetch {prefetch_units}");
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
    for (p, rank) in (1..=4).flat_map(|p| (0..p).map(move |rank| (p, rank))) {
        for (m, num_units) in (1..=6).flat_map(|m| (1..=6).map(move |num_units| (m, num_units))) {
            assert_fewest(&reads_of_1f1b(p, m, num_units, rank), num_units as usize);
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
