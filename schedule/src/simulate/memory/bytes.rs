//! Bytes by category, and what the buffers of a program take.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Index, IndexMut};

use crate::check::CheckedProgram;
use crate::id::PipelineRank;

/// What memory is for: the categories of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryCategory {
    /// Parameters at rest, whole or sharded.
    Parameters,
    /// Optimizer state.
    Optimizer,
    /// Gradients, at rest and in flight.
    Gradients,
    /// Gathered units.
    Gathered,
    /// Saved activations, weight-gradient inputs, workspaces.
    Activations,
    /// Messages received, and gradients being sent.
    Communication,
}

impl MemoryCategory {
    /// All of them; what lies still comes first, so that it is at the bottom of a picture.
    pub const ALL: [Self; 6] = [
        Self::Parameters,
        Self::Optimizer,
        Self::Gradients,
        Self::Gathered,
        Self::Activations,
        Self::Communication,
    ];

    /// The name in tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Optimizer => "optimizer",
            Self::Gradients => "gradients",
            Self::Gathered => "gathered",
            Self::Activations => "activations",
            Self::Communication => "communication",
        }
    }
}

/// Bytes of each category: `bytes[MemoryCategory::Gathered]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryBytes([u64; MemoryCategory::ALL.len()]);

impl MemoryBytes {
    /// The sum over all categories.
    pub fn total(self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn wide_total(self) -> u128 {
        self.0.iter().copied().map(u128::from).sum()
    }
}

impl Index<MemoryCategory> for MemoryBytes {
    type Output = u64;

    fn index(&self, category: MemoryCategory) -> &u64 {
        &self.0[category as usize]
    }
}

impl IndexMut<MemoryCategory> for MemoryBytes {
    fn index_mut(&mut self, category: MemoryCategory) -> &mut u64 {
        &mut self.0[category as usize]
    }
}

/// What a unit takes for one micro-batch, in bytes; what it takes gathered, the program knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitMemory {
    /// Activations that its forward saves: its part of the stage's slot.
    pub saved_bytes: u64,
    /// Weight-gradient inputs, which its `I` saves for its `W`: its part of the stage's buffer.
    pub weight_input_bytes: u64,
    /// Its unsharded gradient.
    pub gradient_bytes: u64,
}

/// What the buffers of a program take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryCosts {
    /// `[unit]`
    pub units: Vec<UnitMemory>,
    /// `[edge]`, by [`Edge::index`]: bytes of a message over it.
    ///
    /// [`Edge::index`]: crate::instruction::Edge::index
    pub message_bytes: Vec<u64>,
    /// `[rank]`: what is held all step long.
    pub fixed: Vec<MemoryBytes>,
}

impl MemoryCosts {
    /// All units of a program alike, all messages too, and nothing at rest.
    pub fn uniform(program: &CheckedProgram, unit: UnitMemory, message_bytes: u64) -> Self {
        let num_edges = program.chain().num_edges();
        Self {
            units: vec![unit; program.units().len()],
            message_bytes: vec![message_bytes; num_edges],
            fixed: vec![MemoryBytes::default(); program.num_ranks()],
        }
    }

    /// Whether these are sizes of this program, and their sums fit a `u64`.
    pub(super) fn check(&self, program: &CheckedProgram) -> Result<(), MemoryError> {
        let expected = program.units().len();
        if self.units.len() != expected {
            return Err(MemoryError::NumUnits { num_units: self.units.len(), expected });
        }
        let expected = program.chain().num_edges();
        if self.message_bytes.len() != expected {
            return Err(MemoryError::NumEdges { num_edges: self.message_bytes.len(), expected });
        }
        let expected = program.num_ranks();
        if self.fixed.len() != expected {
            return Err(MemoryError::NumRanks { num_ranks: self.fixed.len(), expected });
        }
        let units = self.units.iter().zip(program.units());
        let mut totals = vec![0u128; expected];
        for (unit, facts) in units {
            let rank = program.placement().rank(facts.stage);
            totals[rank.index()] += u128::from(unit.saved_bytes) + u128::from(unit.weight_input_bytes);
        }
        let too_large = totals.into_iter().enumerate().find(|&(_, total)| u64::try_from(total).is_err());
        match too_large {
            Some((rank, total)) => Err(MemoryError::TooLarge { rank: PipelineRank(rank as u32), total }),
            None => Ok(()),
        }
    }
}

/// Why sizes do not fit a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryError {
    /// There are sizes of another number of units.
    NumUnits {
        /// Units with sizes.
        num_units: usize,
        /// Units of the program.
        expected: usize,
    },
    /// There are sizes of another number of edges.
    NumEdges {
        /// Edges with sizes.
        num_edges: usize,
        /// Edges of the program.
        expected: usize,
    },
    /// There is something at rest on another number of ranks.
    NumRanks {
        /// Ranks with something at rest.
        num_ranks: usize,
        /// Ranks of the program.
        expected: usize,
    },
    /// All buffers that a rank takes in a step have more bytes together than a `u64` can hold.
    TooLarge {
        /// The rank.
        rank: PipelineRank,
        /// Its bytes.
        total: u128,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumUnits { num_units, expected } => write!(
                f,
                "sizes of {num_units} units for a program of {expected}: give one for each unit, in chain order"
            ),
            Self::NumEdges { num_edges, expected } => write!(
                f,
                "message sizes of {num_edges} edges for a program of {expected}: give two for each pair of neighbouring \
                 stages, up and down"
            ),
            Self::NumRanks { num_ranks, expected } => write!(
                f,
                "memory at rest of {num_ranks} ranks for a program of {expected}: give one for each pipeline rank"
            ),
            Self::TooLarge { rank, total } => write!(
                f,
                "the buffers that rank {} takes in a step have {total} bytes together, and sizes go up to {}: use a \
                 coarser unit of bytes",
                rank.0,
                u64::MAX
            ),
        }
    }
}

impl core::error::Error for MemoryError {}
