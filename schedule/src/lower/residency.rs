//! Third pass: when sharded weights are gathered and given back.
//!
//! Weights do not change inside a step and the order is fixed, so which gathered units stay is a caching problem
//! with a known future. First every use is given a gathered *copy*, with its first and last use; then copies become
//! instructions: the gather stands before the compute `prefetch_units` uses ahead of the first use, the reshard
//! right after the last one.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use crate::chain::Chain;
use crate::id::Unit;
use crate::instruction::Instruction;
use crate::options::Residency;
use crate::protocol::reads_weights;

/// A gathered copy of a unit, held from before one use until after another (the same, if strict).
///
/// Uses are counted along the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GatheredCopy {
    unit: Unit,
    first_use: usize,
    last_use: usize,
}

/// The row with `UNSHARD` and `RESHARD`.
pub(super) fn insert(
    row: &[Instruction],
    chain: &Chain,
    residency: Residency,
    prefetch_units: u32,
) -> Vec<Instruction> {
    let uses: Vec<Unit> = row.iter().filter_map(|&instruction| reads_weights(chain, instruction)).collect();
    let copies = match residency {
        Residency::Strict => one_copy_per_use(&uses),
        Residency::Units(budget) => {
            fewest_copies(&uses, chain.num_units(), budget.get() as usize, prefetch_units as usize)
        }
    };
    emit(row, chain, &copies, uses.len(), prefetch_units as usize)
}

fn one_copy_per_use(uses: &[Unit]) -> Vec<GatheredCopy> {
    uses.iter()
        .enumerate()
        .map(|(position, &unit)| GatheredCopy { unit, first_use: position, last_use: position })
        .collect()
}

/// Belady's rule (IBM Systems Journal 5(2), 1966): when a gather needs a place, the unit whose next use is farthest
/// gives up its own. For equal units and no prefetch no plan gathers less.
///
/// A copy that gives way is given back right after its last use, not only when its place is needed: the future is
/// known, so nothing is held for nothing.
///
/// The budget exceeds the prefetch, so the units of the coming `prefetch_units` uses never have to give way: their
/// next uses are the nearest.
fn fewest_copies(uses: &[Unit], num_units: usize, budget: usize, prefetch_units: usize) -> Vec<GatheredCopy> {
    let next_uses = next_uses(uses, num_units);
    let mut copies: Vec<GatheredCopy> = Vec::new();
    // The copy that a unit has now, and the held units by their next use: two views of the same set.
    let mut held_copy: Vec<Option<usize>> = vec![None; num_units];
    let mut held = BTreeSet::new();
    let mut next_gather = 0;
    for position in 0..uses.len() {
        while next_gather < uses.len() && next_gather <= position + prefetch_units {
            let unit = uses[next_gather];
            if held_copy[unit.index()].is_none() {
                if held.len() == budget {
                    let (_, farthest): (usize, Unit) = held.pop_last().expect("a full budget is not empty");
                    held_copy[farthest.index()] = None;
                }
                held_copy[unit.index()] = Some(copies.len());
                held.insert((next_gather, unit));
                copies.push(GatheredCopy { unit, first_use: next_gather, last_use: next_gather });
            }
            next_gather += 1;
        }
        let unit = uses[position];
        let copy = held_copy[unit.index()].expect("the copy of the nearest use never gives way");
        copies[copy].last_use = position;
        held.remove(&(position, unit));
        match next_uses[position] {
            Some(next_use) => {
                held.insert((next_use, unit));
            }
            None => held_copy[unit.index()] = None,
        }
    }
    copies
}

/// For each use, the next use of the same unit.
fn next_uses(uses: &[Unit], num_units: usize) -> Vec<Option<usize>> {
    let mut seen = vec![None; num_units];
    let mut next_uses = vec![None; uses.len()];
    for (position, unit) in uses.iter().enumerate().rev() {
        next_uses[position] = seen[unit.index()].replace(position);
    }
    next_uses
}

/// Writes the copies, which are in order of first use, into the row.
fn emit(
    row: &[Instruction],
    chain: &Chain,
    copies: &[GatheredCopy],
    num_uses: usize,
    prefetch_units: usize,
) -> Vec<Instruction> {
    let mut ends_at = vec![None; num_uses];
    for copy in copies {
        ends_at[copy.last_use] = Some(copy.unit);
    }
    let mut emitted = Vec::with_capacity(row.len() + 2 * copies.len());
    let mut to_gather = copies.iter().peekable();
    let mut position = 0;
    let mut to_reshard = None;
    for &instruction in row {
        // A send stays glued to its compute; it is what another rank waits for.
        if !matches!(instruction, Instruction::Send { .. }) {
            emitted.extend(to_reshard.take().map(|unit| Instruction::Reshard { unit }));
        }
        if reads_weights(chain, instruction).is_some() {
            while let Some(copy) = to_gather.next_if(|copy| copy.first_use <= position + prefetch_units) {
                emitted.push(Instruction::Unshard { unit: copy.unit });
            }
            to_reshard = ends_at[position];
            position += 1;
        }
        emitted.push(instruction);
    }
    emitted.extend(to_reshard.map(|unit| Instruction::Reshard { unit }));
    emitted
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;
    use crate::generate::{gpipe, one_f_one_b};
    use crate::lower::units;
    use crate::placement::Placement;

    /// The fewest gathers, by trying every choice of what gives way: for every set that can be held, the fewest.
    fn brute_force(uses: &[Unit], budget: usize) -> usize {
        let mut fewest = BTreeMap::from([(BTreeSet::new(), 0)]);
        for unit in uses {
            let mut next: BTreeMap<BTreeSet<Unit>, usize> = BTreeMap::new();
            let mut reach = |held: BTreeSet<Unit>, gathers: usize| {
                let fewest = next.entry(held).or_insert(gathers);
                *fewest = gathers.min(*fewest);
            };
            for (mut held, gathers) in fewest {
                if held.contains(unit) {
                    reach(held, gathers);
                    continue;
                }
                held.insert(*unit);
                if held.len() <= budget {
                    reach(held, gathers + 1);
                    continue;
                }
                for giving_way in held.iter().filter(|&held| held != unit) {
                    let mut held = held.clone();
                    held.remove(giving_way);
                    reach(held, gathers + 1);
                }
            }
            fewest = next;
        }
        fewest.into_values().min().expect("some set is held")
    }

    fn assert_fewest(uses: &[Unit], num_units: usize) {
        for budget in 1..=num_units {
            let copies = fewest_copies(uses, num_units, budget, 0);
            assert_eq!(copies.len(), brute_force(uses, budget), "{uses:?}, budget {budget}");
        }
    }

    #[test]
    fn no_plan_gathers_less_on_any_short_row() {
        for (num_units, length) in [(2usize, 9u32), (3, 7), (4, 6)] {
            for number in 0..num_units.pow(length) {
                let digit = |place| Unit((number / num_units.pow(place) % num_units) as u32);
                assert_fewest(&(0..length).map(digit).collect::<Vec<_>>(), num_units);
            }
        }
    }

    #[test]
    fn no_plan_gathers_less_on_small_pipelines() {
        for (p, m) in [(1, 1), (1, 3), (2, 2), (2, 4), (3, 4)] {
            for per_stage in 1..=4 {
                let facts = crate::testing::units(p, per_stage, false);
                let chain = Chain::new(Placement::linear(p).unwrap(), facts).unwrap();
                for order in [one_f_one_b(p, m).unwrap(), gpipe(p, m).unwrap()] {
                    for row in units::expand(&order, &chain).unwrap() {
                        let reads = row.iter().filter_map(|&instruction| reads_weights(&chain, instruction));
                        let first = chain.num_units() as u32;
                        let uses: Vec<Unit> = reads.collect();
                        let lowest = uses.iter().map(|unit| unit.0).min().unwrap_or(first);
                        let local: Vec<Unit> = uses.iter().map(|unit| Unit(unit.0 - lowest)).collect();
                        assert_fewest(&local, per_stage as usize);
                    }
                }
            }
        }
    }

    #[test]
    fn copies_never_exceed_the_budget_and_serve_every_use() {
        for (num_units, length) in [(3usize, 7u32), (4, 6)] {
            for number in 0..num_units.pow(length) {
                let digit = |place| Unit((number / num_units.pow(place) % num_units) as u32);
                let uses: Vec<Unit> = (0..length).map(digit).collect();
                for (budget, prefetch_units) in [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)] {
                    let copies = fewest_copies(&uses, num_units, budget, prefetch_units);
                    for (position, &unit) in uses.iter().enumerate() {
                        let held = |copy: &&GatheredCopy| {
                            (copy.first_use.saturating_sub(prefetch_units)..=copy.last_use)
                                .contains(&position)
                        };
                        assert!(copies.iter().filter(held).count() <= budget, "{uses:?}");
                        let serves = |copy: &&GatheredCopy| {
                            copy.unit == unit && (copy.first_use..=copy.last_use).contains(&position)
                        };
                        assert_eq!(copies.iter().filter(serves).count(), 1, "{uses:?}");
                    }
                }
            }
        }
    }
}
