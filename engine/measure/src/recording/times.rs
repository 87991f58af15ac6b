//! When one rank ran one instruction.
//!
//! ```text
//! compute   started ----------------------------------------- ended
//! joint     started -- own part -- awaited -- the others ---- ended
//! message   started -- issue -- issued ... awaited -- wait -- arrived -- completion -- ended
//! ```
//!
//! Between `issued` and `awaited` the row goes on with other instructions. A message that was there before its rank asked for it
//! arrives when it is awaited: the rank cannot know how much earlier it came.

use pipezero_run::executor::EventKind;
use pipezero_schedule::{CheckedProgram, Instruction, Lane};

/// When one rank ran one instruction, in nanoseconds since the first rank of the step started its first. No time is earlier than
/// the one before it. A time that an instruction of its shape does not have equals the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The row came to it.
    pub started_ns: u64,
    /// A message was under way, and the row went on.
    pub issued_ns: u64,
    /// The row began to wait: for a message, or for the other ranks of a joint instruction.
    pub awaited_ns: u64,
    /// A message arrived, as far as the rank can tell.
    pub arrived_ns: u64,
    /// The instruction ended; for a message, when the rank had used its contents.
    pub ended_ns: u64,
}

impl From<[u64; EventKind::ALL.len()]> for Times {
    /// In the order of [`EventKind::ALL`].
    fn from([started_ns, issued_ns, awaited_ns, arrived_ns, ended_ns]: [u64; EventKind::ALL.len()]) -> Self {
        Self { started_ns, issued_ns, awaited_ns, arrived_ns, ended_ns }
    }
}

impl Times {
    /// From start to end.
    pub fn duration_ns(self) -> u64 {
        self.ended_ns - self.started_ns
    }

    /// How long the rank was busy issuing a message.
    pub fn issue_ns(self) -> u64 {
        self.issued_ns - self.started_ns
    }

    /// How long the row waited for a message.
    pub fn exposed_ns(self) -> u64 {
        self.arrived_ns - self.awaited_ns
    }

    /// How long the rank was busy completing a message that had arrived.
    pub fn completion_ns(self) -> u64 {
        self.ended_ns - self.arrived_ns
    }
}

/// From the first start in any row to the last end in any; 0 of empty rows.
pub(crate) fn makespan_ns(rows: &[Vec<Times>]) -> u64 {
    let times = || rows.iter().flatten();
    let first = times().map(|of| of.started_ns).min();
    let last = times().map(|of| of.ended_ns).max();
    last.zip(first).map_or(0, |(last, first)| last - first)
}

/// How an instruction runs, and so which times it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// On the compute lane, by one rank alone.
    Compute,
    /// On the compute lane, by several ranks together.
    Joint,
    /// On another lane.
    Message,
}

impl Shape {
    pub(crate) fn of(program: &CheckedProgram, instruction: Instruction) -> Self {
        match instruction {
            Instruction::GradientNorm => Self::Joint,
            Instruction::AddTied { embedding, head } => {
                let chain = program.chain();
                if chain.rank(embedding) == chain.rank(head) { Self::Compute } else { Self::Joint }
            }
            _ if instruction.lane() == Lane::Compute => Self::Compute,
            _ => Self::Message,
        }
    }

    /// Its events, in their order.
    pub(crate) fn events(self) -> &'static [EventKind] {
        match self {
            Self::Compute => &[EventKind::Started, EventKind::Ended],
            Self::Joint => &[EventKind::Started, EventKind::Awaited, EventKind::Ended],
            Self::Message => &EventKind::ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_makespan_is_of_all_ranks() {
        let row = |started_ns, ended_ns| vec![Times { started_ns, ended_ns, ..Times::default() }];
        assert_eq!(makespan_ns(&[row(20, 30), row(10, 15), row(12, 40)]), 30);
        assert_eq!(makespan_ns(&[Vec::new()]), 0);
    }
}
