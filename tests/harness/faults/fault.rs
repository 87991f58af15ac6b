//! Which rank fails how, and while it does what.

use std::fmt;
use std::str::FromStr;

use crate::Phase;

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SIGKILL.
    Kill,
    /// SIGSTOP.
    Freeze,
    /// SIGSTOP, and SIGCONT as soon as the others have stopped.
    Pause,
    /// What it asks NCCL for next never begins, and NCCL says so.
    Nccl,
    /// It runs a command, which does something to the links of its host.
    Command,
}

/// A fault, as text in the environment of a job's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the rank is doing.
    pub phase: Phase,
    /// What happens to it.
    pub kind: Kind,
    /// The rank.
    pub rank: usize,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Kill, "kill"),
    (Kind::Freeze, "freeze"),
    (Kind::Pause, "pause"),
    (Kind::Nccl, "nccl"),
    (Kind::Command, "command"),
];

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
