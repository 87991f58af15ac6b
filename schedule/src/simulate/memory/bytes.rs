//! Bytes by category, and what the buffers of a program take.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Index, IndexMut};

use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::simulate::wrong_length::{Listed, WrongLength};

/// What memory is for: the categories of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryCategory {
    /// Parameters at rest, whole or sharded.
    Parameters,
    /// Optimizer state.
    Optimizer,
    /// The copy out of which a checkpoint is written while training goes on.
    Checkpoint,
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
    /// All of them; what does not change comes first, so that it is at the bottom of a picture.
    pub const ALL: [Self; 7] = [
        Self::Parameters,
        Self::Optimizer,
        Self::Checkpoint,
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
            Self::Checkpoint => "checkpoint",
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
        let check =
            |what, of, length| WrongLength::check(what, of, length, program).map_err(MemoryError::Length);
        check("sizes", Listed::Units, self.units.len())?;
        check("message sizes", Listed::Edges, self.message_bytes.len())?;
        check("memory at rest", Listed::Ranks, self.fixed.len())?;
        let units = self.units.iter().zip(program.units());
        let mut totals = vec![0u128; program.num_ranks()];
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
    /// There are sizes of another number of units, edges or ranks.
    Length(WrongLength),
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
            Self::Length(wrong) => wrong.fmt(f),
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
