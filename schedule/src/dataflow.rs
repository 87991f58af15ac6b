//! What an instruction reads and makes: messages, gathered weights, weight gradients.

use crate::chain::Chain;
use crate::id::{MicroBatch, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::{LowerOptions, Reduction};

/// Whether a compute is part of a backward that does nothing, in front of all that is trained.
pub(crate) fn does_nothing(chain: &Chain, compute: Instruction) -> bool {
    match compute {
        Instruction::Backward { unit, .. }
        | Instruction::BackwardInput { unit, .. }
        | Instruction::BackwardWeight { unit, .. } => !chain.has_backward(unit),
        _ => false,
    }
}

/// The message that a compute reads, if it comes from another rank.
pub(crate) fn consumed_message(chain: &Chain, compute: Instruction) -> Option<(Edge, MicroBatch)> {
    match compute {
        Instruction::Forward { unit, micro_batch } => Some((chain.forward_input(unit)?, micro_batch)),
        Instruction::Backward { unit, micro_batch } | Instruction::BackwardInput { unit, micro_batch } => {
            Some((chain.backward_input(unit)?, micro_batch))
        }
        _ => None,
    }
}

/// The message without which a compute must not hold up its row.
///
/// A recompute reads no message. But its backward follows at once, so a receive that were issued after it would be late
/// by a forward; issued before it, the gradient arrives while it runs.
pub(crate) fn awaited_message(chain: &Chain, compute: Instruction) -> Option<(Edge, MicroBatch)> {
    match compute {
        Instruction::Recompute { unit, micro_batch } => {
            consumed_message(chain, Instruction::Backward { unit, micro_batch })
        }
        _ => consumed_message(chain, compute),
    }
}

/// The message that a compute makes, if it goes to another rank.
pub(crate) fn produced_message(chain: &Chain, compute: Instruction) -> Option<(Edge, MicroBatch)> {
    match compute {
        Instruction::Forward { unit, micro_batch } => Some((chain.forward_output(unit)?, micro_batch)),
        Instruction::Backward { unit, micro_batch } | Instruction::BackwardInput { unit, micro_batch } => {
            Some((chain.backward_output(unit)?, micro_batch))
        }
        _ => None,
    }
}

/// The unit and micro-batch whose weight gradient a compute adds: `B` or `W`, but for those of a frozen unit.
pub(crate) fn weight_gradient(chain: &Chain, compute: Instruction) -> Option<(Unit, MicroBatch)> {
    match compute {
        Instruction::Backward { unit, micro_batch } | Instruction::BackwardWeight { unit, micro_batch } => {
            (!chain.facts(unit).is_frozen).then_some((unit, micro_batch))
        }
        _ => None,
    }
}

/// As [`weight_gradient`], of a unit that has gradients which are reduced after every micro-batch: they lie in a buffer of their own until
/// then.
pub(crate) fn unreduced_gradient(
    chain: &Chain,
    options: &LowerOptions,
    compute: Instruction,
) -> Option<(Unit, MicroBatch)> {
    weight_gradient(chain, compute)
        .filter(|&(unit, _)| options.reduces(chain.facts(unit), Reduction::ScatterEvery))
}

/// The unit whose gathered weights an instruction reads, if it reads any; those that stay whole are not gathered for it.
pub(crate) fn reads_weights(chain: &Chain, instruction: Instruction) -> Option<Unit> {
    let (unit, reads) = match instruction {
        Instruction::Forward { unit, .. } | Instruction::Recompute { unit, .. } => {
            (unit, chain.facts(unit).forward_reads_weights)
        }
        Instruction::Backward { unit, .. } | Instruction::BackwardInput { unit, .. } => {
            (unit, chain.facts(unit).backward_reads_weights)
        }
        _ => return None,
    };
    (reads && !chain.facts(unit).stays_whole()).then_some(unit)
}

/// The activation slot that a forward begins to fill, by its stage and micro-batch.
pub(crate) fn filled_slot(chain: &Chain, instruction: Instruction) -> Option<(Stage, MicroBatch)> {
    let Instruction::Forward { unit, micro_batch } = instruction else { return None };
    chain.is_first(unit).then(|| (chain.stage(unit), micro_batch))
}

/// As [`filled_slot`], if the slot is sent from: with the edge over which it is.
pub(crate) fn filled_send_slot(chain: &Chain, instruction: Instruction) -> Option<(Stage, Edge, MicroBatch)> {
    let (stage, micro_batch) = filled_slot(chain, instruction)?;
    let edge = Edge::Up(stage);
    chain.crosses_ranks(edge).then_some((stage, edge, micro_batch))
}
