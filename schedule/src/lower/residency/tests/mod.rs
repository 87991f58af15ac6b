//! Plans against brute force, against each other, and against the buffers.

mod equal;
mod per_rank;
mod unequal;

use super::*;
use crate::gather_buffers::round_up;
use crate::generate::one_f_one_b;
use crate::id::PipelineRank;
use crate::id::Unit;
use crate::lower::units;
use crate::placement::Placement;

/// What a rank of 1F1B reads, its units counted from 0.
fn reads_of_1f1b(p: u32, m: u32, per_stage: u32, rank: u32) -> Vec<Unit> {
    let facts = crate::testing::units(p, per_stage, false);
    let chain = Chain::new(Placement::linear(p).unwrap(), facts).unwrap();
    let rows = units::expand(&one_f_one_b(p, m).unwrap(), &chain).unwrap();
    let first = chain.units_on(PipelineRank(rank)).next().unwrap();
    let uses = uses::of_row(&rows[rank as usize], &chain);
    uses.iter().map(|of| Unit(of.unit.0 - first.0)).collect()
}

/// Uses that stand one after the other.
fn uses_of(reads: &[Unit]) -> Vec<Use> {
    let of = |(position, &unit)| Use { unit, begins: position, ends: position };
    reads.iter().enumerate().map(of).collect()
}

/// A buffer for each of the largest units, as [`crate::gather_buffers`] makes them.
fn buffers_of(bytes: &[u64], num_buffers: usize) -> Vec<u64> {
    let mut buffers = bytes.to_vec();
    buffers.sort_unstable_by(|a, b| b.cmp(a));
    buffers.truncate(num_buffers);
    round_up(&mut buffers);
    buffers
}

/// The rows of up to `length` reads of so many units that number `number` stands for.
fn digits(number: usize, num_units: usize, length: u32) -> Vec<Unit> {
    (0..length).map(|place| Unit((number / num_units.pow(place) % num_units) as u32)).collect()
}

/// The fewest bytes if copies could be moved between `budget` buffers, by trying every choice of what is held: for each
/// set of units that can be held while a use runs (the unit used and those of the next `prefetch_units` uses among them),
/// the fewest that lead there.
fn fewest_bytes_if_moved(reads: &[Unit], bytes: &[u64], budget: usize, prefetch_units: usize) -> u64 {
    let num_sets = 1usize << bytes.len();
    let mut fewest = vec![None; num_sets];
    fewest[0] = Some(0);
    for position in 0..reads.len() {
        let coming = &reads[position..reads.len().min(position + prefetch_units + 1)];
        let needed = coming.iter().fold(0, |set, unit| set | 1 << unit.0);
        let mut next = vec![None; num_sets];
        for (held, fewest) in fewest.into_iter().enumerate().filter_map(|(held, of)| Some((held, of?))) {
            let is_gathered = |&unit: &usize| needed & !held & (1 << unit) != 0;
            let gathered: u64 = (0..bytes.len()).filter(is_gathered).map(|unit| bytes[unit]).sum();
            // Every subset of what was held beside the needed may stay.
            let sets = (0..num_sets).filter(|set| set & needed == needed && set & !(needed | held) == 0);
            for set in sets.filter(|set| set.count_ones() as usize <= budget) {
                next[set] = Some(next[set].unwrap_or(u64::MAX).min(fewest + gathered));
            }
        }
        fewest = next;
    }
    fewest.into_iter().flatten().min().unwrap()
}
