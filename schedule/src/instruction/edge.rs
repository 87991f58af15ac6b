//! Where instructions run: lanes, and the directed edges between stages.

use core::fmt;

use super::Instruction;
use crate::id::{MicroBatch, Stage, Unit};

/// A directed neighbour link between stages; each has a lane of its own.
///
/// Never a pair of ranks: with finite buffers, rank-pair lanes deadlock V-shaped placements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edge {
    /// `s -> s + 1`: activations. Holds `s`.
    Up(Stage),
    /// `s + 1 -> s`: gradients. Holds `s`, the receiver.
    Down(Stage),
}

impl Edge {
    /// The stage that sends.
    pub fn sender(self) -> Stage {
        match self {
            Self::Up(stage) => stage,
            Self::Down(stage) => Stage(stage.0 + 1),
        }
    }

    /// The stage that receives.
    pub fn receiver(self) -> Stage {
        match self {
            Self::Up(stage) => Stage(stage.0 + 1),
            Self::Down(stage) => stage,
        }
    }

    /// What a unit computes to make or to read a message of the edge: its `F` or its `B`, which may be split.
    pub(crate) fn compute(self, unit: Unit, micro_batch: MicroBatch) -> Instruction {
        match self {
            Self::Up(_) => Instruction::Forward { unit, micro_batch },
            Self::Down(_) => Instruction::Backward { unit, micro_batch },
        }
    }

    /// A position in a table of all edges: see [`Chain::num_edges`] and [`Chain::edges`].
    ///
    /// [`Chain::num_edges`]: crate::Chain::num_edges
    /// [`Chain::edges`]: crate::Chain::edges
    pub fn index(self) -> usize {
        match self {
            Self::Up(stage) => 2 * stage.index(),
            Self::Down(stage) => 2 * stage.index() + 1,
        }
    }
}

/// `s0>s1` up, `s1>s0` down.
impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = match self {
            Self::Up(stage) | Self::Down(stage) => (*stage, u64::from(stage.0) + 1),
        };
        match self {
            Self::Up(_) => write!(f, "{low}>s{high}"),
            Self::Down(_) => write!(f, "s{high}>{low}"),
        }
    }
}

/// Where an instruction runs; a lane runs its instructions one after the other, in issue order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Forward, backward, optimizer and bookkeeping.
    Compute,
    /// All-gathers of weights.
    Gather,
    /// Reductions of gradients.
    Reduce,
    /// Transfers over one directed stage edge.
    Edge(Edge),
}
