//! Plans against brute force, against each other, and against the buffers.

mod equal;
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
