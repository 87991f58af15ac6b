//! Fourth pass: when gradients are summed over the data ranks.

use alloc::vec;
use alloc::vec::Vec;

use crate::chain::Chain;
use crate::instruction::Instruction;
use crate::options::Reduction;
use crate::protocol::weight_gradient;

/// The row with a reduction after every `B` or `W`, or after each unit's last one: as soon as nothing more urgent is
/// issued at the same moment.
pub(super) fn insert(row: &[Instruction], chain: &Chain, reduction: Reduction) -> Vec<Instruction> {
    let mut last = vec![None; chain.num_units()];
    for (index, &instruction) in row.iter().enumerate() {
        if let Some((unit, _)) = weight_gradient(instruction) {
            last[unit.index()] = Some(index);
        }
    }
    let mut reduced = Vec::with_capacity(2 * row.len());
    let mut to_reduce = None;
    for (index, &instruction) in row.iter().enumerate() {
        if !is_more_urgent(instruction) {
            reduced.extend(to_reduce.take());
        }
        if let Some((unit, micro_batch)) = weight_gradient(instruction) {
            let is_last = last[unit.index()] == Some(index);
            to_reduce = match reduction {
                Reduction::ScatterEvery => Some(Instruction::Reduce { unit, micro_batch }),
                Reduction::ScatterLast => is_last.then_some(Instruction::ReduceLast { unit }),
                Reduction::AllReduceLast => is_last.then_some(Instruction::AllReduce { unit }),
            };
        }
        reduced.push(instruction);
    }
    reduced.extend(to_reduce);
    reduced
}

/// Whether an instruction goes before a reduction that could be issued with it: another rank waits for a send, and the
/// next compute for a gather, which would come second where both share a link. Nothing waits for a reduction as soon.
fn is_more_urgent(instruction: Instruction) -> bool {
    matches!(
        instruction,
        Instruction::Send { .. } | Instruction::Reshard { .. } | Instruction::Unshard { .. }
    )
}
