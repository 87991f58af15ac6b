//! What happened to one instruction, and when.
//!
//! ```text
//! compute   started ----------------------------------------- ended
//! meeting   started -- own part -- joined -- the others ----- ended
//! message   started -- issue -- issued ... awaited -- wait -- arrived -- landing -- ended
//! ```
//!
//! Between `issued` and `awaited` the row goes on with other instructions. A message that was there before anybody asked
//! for it arrives when it is awaited: the moment is when the rank *knew*, and so the latest at which it can have come.

use pipezero_schedule::{CheckedProgram, Instruction, Lane};

use crate::run::executor::EventKind;

/// When one rank came to an instruction, and what followed: nanoseconds since the first rank of the grid came to its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moments {
    /// On the compute lane, by this rank alone.
    Compute {
        /// The row came to it.
        started_ns: u64,
        /// It was done.
        ended_ns: u64,
    },
    /// On the compute lane, together with other ranks.
    Meeting {
        /// The row came to it.
        started_ns: u64,
        /// The rank's own part was done; from then on it waited for the others.
        joined_ns: u64,
        /// The result was there.
        ended_ns: u64,
    },
    /// On another lane.
    Message(MessageMoments),
}

/// When one end of a message was issued, awaited and taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageMoments {
    /// The row came to it.
    pub started_ns: u64,
    /// It was under way, and the row went on.
    pub issued_ns: u64,
    /// The row began to wait for it.
    pub awaited_ns: u64,
    /// It was there.
    pub arrived_ns: u64,
    /// It was taken in, and the row went on.
    pub ended_ns: u64,
}

impl MessageMoments {
    /// How long the rank was busy with it itself: to issue it and to take it in.
    pub fn own_ns(&self) -> u64 {
        self.issue_ns() + self.landing_ns()
    }

    /// How long the rank was busy issuing it.
    pub fn issue_ns(&self) -> u64 {
        self.issued_ns - self.started_ns
    }

    /// How long the rank was busy taking it in.
    pub fn landing_ns(&self) -> u64 {
        self.ended_ns - self.arrived_ns
    }

    /// How long the row stood still for it.
    pub fn exposed_ns(&self) -> u64 {
        self.arrived_ns - self.awaited_ns
    }
}

impl Moments {
    /// When the row came to the instruction.
    pub fn started_ns(&self) -> u64 {
        match *self {
            Self::Compute { started_ns, .. } | Self::Meeting { started_ns, .. } => started_ns,
            Self::Message(message) => message.started_ns,
        }
    }

    /// When the instruction was done; a message when it had been taken in.
    pub fn ended_ns(&self) -> u64 {
        match *self {
            Self::Compute { ended_ns, .. } | Self::Meeting { ended_ns, .. } => ended_ns,
            Self::Message(message) => message.ended_ns,
        }
    }

    /// When the row went on to the next instruction.
    pub(super) fn goes_on_ns(&self) -> u64 {
        match *self {
            Self::Compute { ended_ns, .. } | Self::Meeting { ended_ns, .. } => ended_ns,
            Self::Message(message) => message.issued_ns,
        }
    }

    /// The message, if it is one.
    pub fn message(&self) -> Option<&MessageMoments> {
        match self {
            Self::Message(message) => Some(message),
            Self::Compute { .. } | Self::Meeting { .. } => None,
        }
    }
}

/// Which moments an instruction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Compute,
    Meeting,
    Message,
}

impl Form {
    pub(super) fn of(program: &CheckedProgram, instruction: Instruction) -> Self {
        match instruction {
            Instruction::GradientNorm => Self::Meeting,
            // On one rank there is nobody to meet.
            Instruction::AddTied { embedding, head } => {
                let chain = program.chain();
                if chain.rank(embedding) == chain.rank(head) { Self::Compute } else { Self::Meeting }
            }
            _ if instruction.lane() == Lane::Compute => Self::Compute,
            _ => Self::Message,
        }
    }

    /// The events that make it up, in their order.
    pub(super) fn kinds(self) -> &'static [EventKind] {
        match self {
            Self::Compute => &[EventKind::Started, EventKind::Ended],
            Self::Meeting => &[EventKind::Started, EventKind::Awaited, EventKind::Ended],
            Self::Message => &[
                EventKind::Started,
                EventKind::Issued,
                EventKind::Awaited,
                EventKind::Arrived,
                EventKind::Ended,
            ],
        }
    }
}
