//! Operations in flight: issued, and not completed yet.

use pipezero_comm::Pending;
use pipezero_schedule::{Edge, Lane, MicroBatch, Stage, Unit};

/// An operation that was issued.
#[derive(Debug)]
pub(super) struct InFlight {
    /// The instruction's index in the row.
    pub(super) index: usize,
    /// The communicator's handle, which returns the buffer.
    pub(super) pending: Box<dyn Pending>,
    /// What is done with the buffer.
    pub(super) completion: Completion,
}

/// What completes an operation once its buffer is back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Completion {
    /// One of the unit's parts is gathered, in the gather buffer of this index.
    Unshard { unit: Unit, part: usize, buffer: usize },
    /// This rank's shard is added to the gradient of one of the unit's parts; the rest was in the gradient buffer of this index.
    Reduce { unit: Unit, part: usize, buffer: usize },
    /// The buffer is the gradient of one of the unit's parts.
    ReduceLast { unit: Unit, part: usize },
    /// The buffer is the parameters of one of the unit's parts.
    GatherAfterStep { unit: Unit, part: usize },
    /// The buffer is the output of the stage's slot, free again.
    SendActivation { stage: Stage, slot: usize },
    /// The buffer is free for the edge's next gradient.
    SendGradient { edge: Edge },
    /// The message is kept until it is used.
    Receive { edge: Edge, micro_batch: MicroBatch },
}

impl Completion {
    pub(super) fn lane(self) -> Lane {
        match self {
            Self::Unshard { .. } | Self::GatherAfterStep { .. } => Lane::Gather,
            Self::Reduce { .. } | Self::ReduceLast { .. } => Lane::Reduce,
            Self::SendActivation { stage, .. } => Lane::Edge(Edge::Up(stage)),
            Self::SendGradient { edge } | Self::Receive { edge, .. } => Lane::Edge(edge),
        }
    }
}
