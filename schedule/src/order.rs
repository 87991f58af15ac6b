//! A compute order: what generators make and lowering turns into a program.
//!
//! It says in which order each rank computes its stages' micro-batches and nothing of units, weights or messages, so
//! a generator is a page long and every communication decision is made once, in [`mod@crate::lower`].

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use crate::id::{MicroBatch, Stage};
use crate::placement::Placement;

/// Which part of a micro-batch's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComputeKind {
    /// `F`.
    Forward,
    /// `B`: input and weight gradient, unit by unit.
    Backward,
    /// `I`: input gradient alone.
    BackwardInput,
    /// `W`: weight gradient alone.
    BackwardWeight,
}

impl ComputeKind {
    /// PyTorch's letter.
    pub fn letter(self) -> char {
        match self {
            Self::Forward => 'F',
            Self::Backward => 'B',
            Self::BackwardInput => 'I',
            Self::BackwardWeight => 'W',
        }
    }
}

/// One stage's work on one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageAction {
    /// Which part.
    pub kind: ComputeKind,
    /// The stage.
    pub stage: Stage,
    /// The micro-batch.
    pub micro_batch: MicroBatch,
}

/// PyTorch's form: `1F0` is the forward of stage 1, micro-batch 0.
impl fmt::Display for StageAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.stage.0, self.kind.letter(), self.micro_batch.0)
    }
}

/// The compute order of every rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeOrder {
    /// Where the stages lie.
    pub placement: Placement,
    /// Micro-batches of a step.
    pub num_micro_batches: u32,
    /// `rows[pipeline rank]`: what the rank computes, in order.
    pub rows: Vec<Vec<StageAction>>,
}

impl ComputeOrder {
    /// The order as PyTorch's pipelining CSV: a line per rank, a cell per action (`_PipelineScheduleRuntime`).
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        for row in &self.rows {
            for (position, action) in row.iter().enumerate() {
                let comma = if position == 0 { "" } else { "," };
                write!(csv, "{comma}{action}").expect("a string takes any text");
            }
            csv.push('\n');
        }
        csv
    }

    /// Whether the order has a backward, so that the step ends with a tail.
    pub fn has_backward(&self) -> bool {
        self.rows.iter().flatten().any(|action| action.kind != ComputeKind::Forward)
    }

    /// The largest number of micro-batches in flight on a stage: forward begun, backward (or `W`) not ended.
    ///
    /// For an order without backward nothing stays in flight: 0.
    pub fn in_flight(&self, stage: Stage) -> usize {
        if !self.has_backward() {
            return 0;
        }
        let mut current = 0usize;
        let mut largest = 0;
        let row = &self.rows[self.placement.rank(stage).index()];
        for action in row.iter().filter(|action| action.stage == stage) {
            match action.kind {
                ComputeKind::Forward => current += 1,
                ComputeKind::Backward | ComputeKind::BackwardWeight => current = current.saturating_sub(1),
                ComputeKind::BackwardInput => {}
            }
            largest = largest.max(current);
        }
        largest
    }
}
