//! What a rank would gather if only some of its units were sharded: for a plan that weighs many such choices and lowers a program
//! for one of them.
//!
//! Gathers depend on the reads of weights along the row and on nothing else of it, so the row is cut down to those once. Each
//! choice is then answered by the passes that lowering and the checker use, on the reads of the units that it shards.

use alloc::vec::Vec;

use super::residency;
use crate::chain::Chain;
use crate::dataflow::reads_weights;
use crate::gather_buffers::{GatherBuffers, allowed_for};
use crate::id::{PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::options::Weights;
use crate::program::Program;

/// The reads of weights along a rank's row.
#[derive(Clone, Debug)]
pub struct RowReads<'a> {
    chain: &'a Chain,
    rank: PipelineRank,
    weights: &'a Weights,
    /// The rank's units, ascending.
    units: Vec<Unit>,
    reads: Vec<(Unit, Instruction)>,
}

/// What a rank gathers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowGathers {
    /// Bytes of each gather buffer, descending.
    pub buffer_bytes: Vec<u64>,
    /// `[place]`: gathers of each of the rank's units, which are counted in ascending order.
    pub num_gathers: Vec<u64>,
}

impl<'a> RowReads<'a> {
    /// The reads of a row, if units are gathered as `weights` says; of units that stay whole in this program there are none.
    pub fn new(program: &'a Program, rank: PipelineRank, weights: &'a Weights) -> Self {
        let chain = &program.chain;
        let read = |&instruction: &Instruction| Some((reads_weights(chain, instruction)?, instruction));
        Self {
            chain,
            rank,
            weights,
            units: chain.units_on(rank).collect(),
            reads: program.row(rank).iter().filter_map(read).collect(),
        }
    }

    /// Bytes of the buffers that the rank may have, descending, if of its units in ascending order those are sharded that `is_sharded`
    /// marks, and the others stay whole. It needs the first in any case, and may need fewer or smaller ones beside it.
    pub fn allowed_buffer_bytes(&self, is_sharded: &[bool]) -> Vec<u64> {
        let sharded = self.units.iter().zip(is_sharded).filter(|of| *of.1).map(|of| *of.0);
        allowed_for(self.chain, self.rank, sharded, self.weights)
    }

    /// What the rank gathers with the same units sharded.
    ///
    /// # Panics
    /// If `is_sharded` has not one entry for each unit of the rank; if residency is listed per rank and the list has no number for
    /// this one.
    pub fn gathers(&self, is_sharded: &[bool]) -> RowGathers {
        let Self { chain, weights, units, reads, .. } = self;
        assert_eq!(is_sharded.len(), units.len(), "an entry for each unit of the rank");
        let mut num_gathers = vec![0; units.len()];
        let Weights::Sharded { residency, prefetch_units } = weights else {
            return RowGathers { buffer_bytes: Vec::new(), num_gathers };
        };
        let place = |unit: Unit| units.binary_search(&unit).expect("a row reads units of its rank");
        let allowed = self.allowed_buffer_bytes(is_sharded);
        let row: Vec<Instruction> =
            reads.iter().filter(|&&(unit, _)| is_sharded[place(unit)]).map(|&(_, read)| read).collect();
        let row = residency::insert(&row, chain, &allowed, residency, *prefetch_units as usize);
        for instruction in &row {
            if let Instruction::Unshard { unit } = instruction {
                num_gathers[place(*unit)] += 1;
            }
        }
        let buffers =
            GatherBuffers::assign(chain, &row, &allowed).expect("lowering leaves each gather a buffer");
        RowGathers { buffer_bytes: buffers.bytes().to_vec(), num_gathers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::CheckedProgram;
    use crate::generate::{gpipe, interleaved, one_f_one_b, zb_h1};
    use crate::id::Stage;
    use crate::lower;
    use crate::options::{LowerOptions, Residency};
    use crate::unit_facts::{UnitFacts, UnitSharding};
    use core::num::NonZeroU32;

    /// All choices of 4 units of unequal sizes on each rank, against programs lowered for them.
    #[test]
    fn gathers_are_those_of_a_program_lowered_for_the_choice() {
        let orders = [one_f_one_b(2, 4), gpipe(2, 2), zb_h1(2, 3), interleaved(2, 2, 4, 2)]
            .map(|order| order.unwrap());
        for order in orders {
            let num_stages = order.placement.num_stages();
            let per_stage = 8 / num_stages;
            let units = |sharded: usize| -> Vec<UnitFacts> {
                (0..8)
                    .map(|unit| UnitFacts {
                        sharding: match sharded >> unit & 1 {
                            1 => UnitSharding::Sharded,
                            _ if unit % 3 == 0 => UnitSharding::Persistent,
                            _ => UnitSharding::Whole,
                        },
                        backward_reads_weights: unit > 0,
                        recomputes: unit == 2 && !order.rows.iter().flatten().any(|of| of.kind.is_half()),
                        ..UnitFacts::new(Stage((unit / per_stage) as u32), [7, 3, 20, 3][unit % 4])
                    })
                    .collect()
            };
            for (residency, prefetch_units) in [
                (Residency::Strict, 1),
                (Residency::Units(NonZeroU32::new(1).unwrap()), 0),
                (Residency::Units(NonZeroU32::new(2).unwrap()), 1),
                (Residency::All, 2),
            ] {
                let options = LowerOptions::zero_3(residency, prefetch_units);
                let all = lower(&order, &units(255), &options).unwrap();
                for sharded in 0..256 {
                    let program =
                        CheckedProgram::new(lower(&order, &units(sharded), &options).unwrap()).unwrap();
                    for rank in program.ranks() {
                        let reads = RowReads::new(&all, rank, &options.weights);
                        let is_sharded: Vec<bool> =
                            reads.units.iter().map(|unit| sharded >> unit.0 & 1 == 1).collect();
                        let found = reads.gathers(&is_sharded);
                        assert_eq!(found.buffer_bytes, program.gather_buffers(rank), "{sharded:b}");
                        let gathers = |unit: &Unit| {
                            let is_it = |of: &&Instruction| **of == Instruction::Unshard { unit: *unit };
                            program.row(rank).iter().filter(is_it).count() as u64
                        };
                        let expected: Vec<u64> = reads.units.iter().map(gathers).collect();
                        assert_eq!(found.num_gathers, expected, "{sharded:b}");
                    }
                }
            }
        }
    }
}
