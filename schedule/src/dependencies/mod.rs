//! The dependency graph of a program, derived in one place for checker, simulator and executor.
//!
//! A lane runs its instructions one after the other, in issue order, so the graph holds only what a lane alone does
//! not say: which instructions on *other* lanes of the same rank must have ended before one may start, and which
//! send each receive belongs to.

use alloc::vec::Vec;

use crate::gradient_buffers::GradientBuffers;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::Instruction;
use crate::program::Program;
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;

mod row;

/// What each instruction waits for.
///
/// Same-rank waits, by instruction:
///
/// | Instruction | Waits for |
/// |---|---|
/// | `F`, `R`, `B`, `I` that reads sharded weights | the `UNSHARD` of the oldest copy held |
/// | `F` of a stage's first unit, `B`/`I` of its last | the `RECV` of its input, if that comes from another rank |
/// | `F` of a stage's first unit | the `SEND` of the activation that lies in the slot it takes |
/// | `B`/`I` of a stage's first unit | the `SEND` over its edge whose gradient send buffer it takes: two back, or more |
/// | `B`/`W`, reducing after every micro-batch | the `REDUCE` out of the gradient buffer that it takes: the last one where there is one buffer, else the one before last or an earlier one |
/// | `SEND` | the compute that makes the message |
/// | `RECV` | the compute that reads the message before last: there are two receive buffers |
/// | `UNSHARD` | the compute-lane instruction before it in the row, so that a gather starts where it is issued |
/// | `REDUCE`, `REDUCE_LAST`, `ALL_REDUCE` | the last compute that adds to the gradient |
/// | `ADD_TIED`, `GRAD_NORM` | the reductions of the tied units, of all units |
/// | `GATHER_STEP` | the `STEP` of its unit |
///
/// `RESHARD`, `STEP` and `W` under another policy wait for nothing beyond their lane.
///
/// Instructions off the compute lane wait for compute-lane instructions alone, which have ended when a row is issued in
/// order: only computes ever hold up a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependencies {
    rows: Vec<Waits>,
    /// `peers[rank][index]`: the position of the other end of a transfer in its row.
    peers: Vec<Vec<Option<u32>>>,
    slots: Slots,
    send_buffers: SendBuffers,
    /// `[rank]`
    gradient_buffers: Vec<GradientBuffers>,
}

/// The waits of one row: those of instruction `i` are `waits[starts[i]..starts[i + 1]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waits {
    starts: Vec<u32>,
    waits: Vec<usize>,
}

impl Dependencies {
    /// Derives the graph of a program that follows the rules of [`crate::check`] up to liveness.
    pub(crate) fn derive(
        program: &Program,
        slots: Slots,
        send_buffers: SendBuffers,
        gradient_buffers: Vec<GradientBuffers>,
    ) -> Self {
        let (rows, peers) = row::waits_and_peers(program, &slots, &send_buffers, &gradient_buffers);
        Self { rows, peers, slots, send_buffers, gradient_buffers }
    }

    /// Positions in the same row that must have ended before an instruction may start, beside what is before it on its
    /// lane; ascending.
    ///
    /// # Panics
    /// If there is no such instruction.
    pub fn waits(&self, of: InstructionId) -> &[usize] {
        let Waits { starts, waits } = &self.rows[of.rank.index()];
        &waits[starts[of.index] as usize..starts[of.index + 1] as usize]
    }

    /// The other end of a transfer: a receive's send, a send's receive.
    ///
    /// # Panics
    /// If there is no such instruction.
    pub fn peer(&self, program: &Program, of: InstructionId) -> Option<InstructionId> {
        let position = self.peers[of.rank.index()][of.index]?;
        let other_end = match program.instruction(of) {
            Instruction::Send { edge, .. } => edge.receiver(),
            Instruction::Receive { edge, .. } => edge.sender(),
            _ => return None,
        };
        Some(program.chain.placement().rank(other_end).at(position as usize))
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn gradient_buffers(&self, rank: PipelineRank) -> &GradientBuffers {
        &self.gradient_buffers[rank.index()]
    }

    pub(crate) fn send_buffers(&self) -> &SendBuffers {
        &self.send_buffers
    }
}
