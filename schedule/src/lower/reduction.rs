//! Fourth pass: reductions of gradients over the data ranks.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::dataflow::weight_gradient;
use crate::instruction::{Instruction, InstructionKind};
use crate::options::{LowerOptions, Reduction};

/// The row with a reduction for every `B` or `W`, or for each unit's last one: issued with the rank's next backward work.
///
/// A gradient buffer is needed again by the second backward after the one that filled it, so a reduction has the whole
/// time of the backward between them. Issued any sooner it would run beside the forwards that come first where a
/// pipeline turns from backwards to forwards; and those have only time for their gathers where both share a link.
pub(super) fn insert(row: &[Instruction], chain: &Chain, options: &LowerOptions) -> Vec<Instruction> {
    let mut last = vec![None; chain.num_units()];
    for (index, &instruction) in row.iter().enumerate() {
        if let Some((unit, _)) = weight_gradient(chain, instruction) {
            last[unit.index()] = Some(index);
        }
    }
    let mut reduced = Vec::with_capacity(2 * row.len());
    let mut to_reduce = None;
    for (index, &instruction) in row.iter().enumerate() {
        if is_backward_work(instruction) {
            reduced.extend(to_reduce.take());
        }
        if let Some((unit, micro_batch)) = weight_gradient(chain, instruction) {
            let is_last = last[unit.index()] == Some(index);
            to_reduce = match options.reduction_of(chain.facts(unit)) {
                Some(Reduction::ScatterEvery) => Some(Instruction::Reduce { unit, micro_batch }),
                Some(Reduction::ScatterLast) => is_last.then_some(Instruction::ReduceLast { unit }),
                Some(Reduction::AllReduceLast) => is_last.then_some(Instruction::AllReduce { unit }),
                None => None,
            };
        }
        reduced.push(instruction);
    }
    reduced.extend(to_reduce);
    reduced
}

/// Whether an instruction is work of a backward; its gathers are issued before it.
fn is_backward_work(instruction: Instruction) -> bool {
    instruction.is_micro_batch_compute() && instruction.kind() != InstructionKind::Forward
}
