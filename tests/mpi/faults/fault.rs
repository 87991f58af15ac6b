//! Which rank fails how, and while it does what.

use std::fmt;
use std::str::FromStr;

use tests::Phase;

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) enum Kind {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Freeze,
    /// SIGSTOP, and SIGCONT as soon as the others have stopped.
    Pause,
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

pub(in crate::mpi) const KINDS: [(Kind, &str); 4] =
    [(Kind::Kill, "kill"), (Kind::Freeze, "freeze"), (Kind::Pause, "pause"), (Kind::Command, "command")];

fn word<T: Copy + PartialEq>(words: &[(T, &'static str)], of: T) -> &'static str {
    words.iter().find(|(value, _)| *value == of).expect("each has a word").1
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", word(&Phase::ALL, self.phase), word(&KINDS, self.kind), self.rank)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let find = || {
            let mut parts = text.split(' ');
            let (phase, kind) = (parts.next()?, parts.next()?);
            Some(Self {
                phase: Phase::ALL.iter().find(|(_, word)| *word == phase)?.0,
                kind: KINDS.iter().find(|(_, word)| *word == kind)?.0,
                rank: parts.next()?.parse().ok()?,
            })
        };
        find().ok_or_else(|| text.to_owned())
    }
}
