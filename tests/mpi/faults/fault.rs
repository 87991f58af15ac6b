//! Which rank fails how, and while it does what.

use std::fmt;
use std::str::FromStr;

use pipezero::Position;
use pipezero_schedule::Instruction;

/// What the rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) enum Phase {
    Forward,
    Backward,
    Reduce,
    Optimizer,
    Saving,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) enum Kind {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Freeze,
    /// It runs a command, which does something to the links of its host.
    Command,
}

/// A fault, as text in the environment of a job's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) struct Fault {
    pub(in crate::mpi) phase: Phase,
    pub(in crate::mpi) kind: Kind,
    pub(in crate::mpi) rank: usize,
}

pub(in crate::mpi) const PHASES: [(Phase, &str); 5] = [
    (Phase::Forward, "forward"),
    (Phase::Backward, "backward"),
    (Phase::Reduce, "reduce"),
    (Phase::Optimizer, "optimizer"),
    (Phase::Saving, "saving"),
];
pub(in crate::mpi) const KINDS: [(Kind, &str); 3] =
    [(Kind::Kill, "kill"), (Kind::Freeze, "freeze"), (Kind::Command, "command")];

impl Phase {
    /// Whether a rank that is there is at it. Saving is no instruction.
    pub(in crate::mpi) fn has(self, position: Position) -> bool {
        let (instruction, waits_for) = match position {
            Position::At { instruction, .. } => (Some(instruction), None),
            Position::Waiting { instruction, waits_for, .. } => (Some(instruction), Some(waits_for)),
            Position::Draining { waits_for, .. } => (None, Some(waits_for)),
            _ => (None, None),
        };
        let is_reduce = |instruction| {
            matches!(
                instruction,
                Instruction::Reduce { .. } | Instruction::ReduceLast { .. } | Instruction::AllReduce { .. }
            )
        };
        match self {
            Self::Forward => matches!(instruction, Some(Instruction::Forward { .. })),
            Self::Backward => matches!(instruction, Some(Instruction::Backward { .. })),
            Self::Reduce => instruction.is_some_and(is_reduce) || waits_for.is_some_and(is_reduce),
            Self::Optimizer => matches!(instruction, Some(Instruction::OptimizerStep { .. })),
            Self::Saving => false,
        }
    }
}

fn word<T: Copy + PartialEq>(words: &[(T, &'static str)], of: T) -> &'static str {
    words.iter().find(|(value, _)| *value == of).expect("each has a word").1
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", word(&PHASES, self.phase), word(&KINDS, self.kind), self.rank)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let find = || {
            let mut parts = text.split(' ');
            let (phase, kind) = (parts.next()?, parts.next()?);
            Some(Self {
                phase: PHASES.iter().find(|(_, word)| *word == phase)?.0,
                kind: KINDS.iter().find(|(_, word)| *word == kind)?.0,
                rank: parts.next()?.parse().ok()?,
            })
        };
        find().ok_or_else(|| text.to_owned())
    }
}
