//! What every rank does in a training step, as plain data: generated, lowered, checked.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chain;
pub mod check;
pub mod closed_form;
mod dependencies;
pub mod generate;
mod id;
mod instruction;
pub mod lower;
mod options;
mod order;
mod placement;
mod program;
pub mod protocol;
pub mod render;
mod slots;
#[cfg(test)]
mod testing;
pub mod text;

pub use chain::{Chain, ChainError, Tying, UnitFacts};
pub use check::{CheckedProgram, HighWater, Rule, Violation};
pub use dependencies::Dependencies;
pub use id::{MicroBatch, PipelineRank, Stage, Unit};
pub use instruction::{Edge, Instruction, InstructionKind, Lane};
pub use lower::{LowerError, lower};
pub use options::{LowerOptions, OptionsError, Reduction, Residency, Weights};
pub use order::{ComputeKind, ComputeOrder, StageAction};
pub use placement::{Placement, PlacementError};
pub use program::{Program, Purpose};
pub use text::ParseError;
