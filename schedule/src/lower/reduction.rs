//! Fourth pass: reductions of gradients over the data ranks.

use alloc::vec::Vec;

use crate::chain::Chain;
use crate::dataflow::{does_nothing, weight_gradient};
use crate::instruction::{Instruction, InstructionKind};
use crate::options::{LowerOptions, Reduction};

/// The row with a reduction for every `B` or `W`, or for each unit's last one: issued with the rank's next backward work.
///
/// A gradient buffer is needed again by the second backward after the one that filled it, so a reduction has the whole
/// time of the backward between them. Issued any sooner it would run beside the forwards that come first where a
/// pipeline turns from backwards to forwards; and those have only time for their gathers where both share a link.
///
/// With one gradient buffer the next weight gradient waits for the reduction, so it is issued at once: whatever is computed before
/// that gradient (forwards, recomputation, an `I`) runs beside it.
pub(super) fn insert(row: &[Instruction], chain: &Chain, options: &LowerOptions) -> Vec<Instruction> {
    let mut last = vec![None; chain.num_units()];
    for (index, &instruction) in row.iter().enumerate() {
        if let Some((unit, _)) = weight_gradient(chain, instruction) {
            last[unit.index()] = Some(index);
        }
    }
    let mut reduced = Vec::with_capacity(2 * row.len());
    let mut to_reduce = Vec::new();
    for (index, &instruction) in row.iter().enumerate() {
        if is_due_before(instruction, options) && !does_nothing(chain, instruction) {
            reduced.append(&mut to_reduce);
        }
        if let Some((unit, micro_batch)) = weight_gradient(chain, instruction) {
            let is_last = last[unit.index()] == Some(index);
            let reductions = [
                (Reduction::ScatterEvery, true, Instruction::Reduce { unit, micro_batch }),
                (Reduction::ScatterLast, is_last, Instruction::ReduceLast { unit }),
                (Reduction::AllReduceLast, is_last, Instruction::AllReduce { unit }),
            ];
            let facts = chain.facts(unit);
            let due =
                reductions.into_iter().filter(|&(how, is_due, _)| is_due && options.reduces(facts, how));
            to_reduce.extend(due.map(|(.., reduction)| reduction));
        }
        reduced.push(instruction);
    }
    reduced.extend(to_reduce);
    reduced
}

/// Whether reductions that are due are issued before an instruction: work of a backward, whose gathers are issued before it, or with one
/// gradient buffer any compute.
fn is_due_before(instruction: Instruction, options: &LowerOptions) -> bool {
    let is_forward = instruction.kind() == InstructionKind::Forward;
    instruction.is_micro_batch_compute() && (options.reduces_in_turn() || !is_forward)
}
