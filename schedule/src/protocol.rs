//! What the ranks agree on beside the program: how many buffers there are, and which compute makes and reads a message.

use crate::chain::Chain;
pub use crate::gather_buffers::gather_buffer_bytes;
use crate::id::{MicroBatch, Unit};
use crate::instruction::{Edge, Instruction};

/// Buffers into which an edge receives. One would make the next message wait for the consumer of the last.
pub const RECEIVE_BUFFERS: usize = 2;

/// The fewest buffers out of which a stage sends input gradients: one being filled, one being sent. Where a rank turns
/// to another stage while its messages wait, it has as many as wait, see
/// [`crate::CheckedProgram::num_gradient_send_buffers`]. Activations are sent out of their own slot.
pub const GRADIENT_SEND_BUFFERS: usize = 2;

/// Activation slots of a stage that sends, in an evaluation: one being computed, one being sent.
pub const EVALUATION_SLOTS: usize = 2;

/// Unsharded gradients of a rank that reduces after every micro-batch: one being added to, one being reduced.
pub const GRADIENT_BUFFERS: usize = 2;

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

/// The unit and micro-batch whose weight gradient a compute adds: `B` or `W`.
pub(crate) fn weight_gradient(compute: Instruction) -> Option<(Unit, MicroBatch)> {
    match compute {
        Instruction::Backward { unit, micro_batch } | Instruction::BackwardWeight { unit, micro_batch } => {
            Some((unit, micro_batch))
        }
        _ => None,
    }
}

/// The unit whose gathered weights an instruction reads, if it reads any; persistent ones are not gathered for it.
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
    (reads && !chain.facts(unit).is_persistent).then_some(unit)
}
