//! Last pass: the end of the step, after all gradients are reduced.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::id::{PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::options::LowerOptions;

/// The tail of a rank: the two parts of each tied gradient are added, the norm is taken over the whole grid, and each unit
/// that is trained is stepped in chain order and, where it stays whole, gathered.
pub(crate) fn tail(chain: &Chain, rank: PipelineRank, options: &LowerOptions) -> Vec<Instruction> {
    let mut tail = Vec::new();
    for (embedding, head) in chain.summed_pairs() {
        if chain.rank(embedding) == rank || chain.rank(head) == rank {
            tail.push(Instruction::AddTied { embedding, head });
        }
    }
    tail.push(Instruction::GradientNorm);
    for unit in stepped_units(chain, rank) {
        tail.push(Instruction::OptimizerStep { unit });
        if options.gathers_after_step(chain.facts(unit)) {
            tail.push(Instruction::GatherAfterStep { unit });
        }
    }
    tail
}

/// A tied weight whose two uses lie on one rank is one weight there: stepped once, at the embedding's unit.
fn stepped_units(chain: &Chain, rank: PipelineRank) -> impl Iterator<Item = Unit> + '_ {
    let is_here = move |embedding: Unit| chain.rank(embedding) == rank;
    let is_stepped =
        move |&unit: &Unit| !chain.facts(unit).is_frozen && !chain.tied_embedding(unit).is_some_and(is_here);
    chain.units_on(rank).filter(is_stepped)
}
