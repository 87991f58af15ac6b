//! What every rank does in a training step, as plain data: generated, lowered, checked.
//!
//! A *program* lists the instructions of each pipeline rank. It is made in three steps, and only the last makes
//! something that runs:
//!
//! ```text
//! generate::one_f_one_b(p, m)   which stage computes which micro-batch when;      ComputeOrder
//!                               or ComputeOrder::from_csv
//!   -> lower(units, options)    units, messages, gathers, reductions, the tail    Program
//!   -> CheckedProgram::new      no deadlock, no operand missing, memory known     CheckedProgram
//! ```
//!
//! The same program is then simulated and executed: what is predicted is what runs. The crate is pure: no
//! tensors, no files, no clock, no threads, and no dependencies.
//!
//! # Example
//!
//! Two ranks, three micro-batches, two units on each rank, ZeRO-3 with buffers for two gathered units:
//!
//! ```
//! use std::num::NonZeroU32;
//! use pipezero_schedule::{
//!     CheckedProgram, InstructionKind, LowerOptions, PipelineRank, Residency, Stage, UnitFacts, generate, lower, render,
//! };
//!
//! let order = generate::one_f_one_b(2, 3)?;
//! assert_eq!(
//!     render::order(&order, 80),
//!     "rank 0  F0 F1 .. .. B0 B0 F2 B1 B1 .. B2 B2\n\
//!      rank 1  .. F0 B0 B0 F1 B1 B1 F2 B2 B2 .. ..\n"
//! );
//!
//! let unit = |stage| UnitFacts::new(Stage(stage), 1 << 20); let units = [unit(0), unit(0), unit(1), unit(1)]; let
//! residency = Residency::Units(NonZeroU32::new(2).expect("2 is not 0")); let program = lower(&order, &units,
//! &LowerOptions::zero_3(residency, 1))?; let program = CheckedProgram::new(program)?;
//!
//! let rank = PipelineRank(1);
//! assert_eq!(program.count(rank, InstructionKind::Reduce), 6);
//! assert_eq!(program.high_water(rank).gathered_units, 2);
//! assert_eq!(program.gather_buffers(rank), [1 << 20, 1 << 20]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Words
//!
//! A [`Stage`] is a part of the model placed on a [`PipelineRank`]; a [`Unit`] is a part of a stage that is gathered at
//! once; a [`MicroBatch`] is a part of the step's batch. `F` is forward, `B` the full backward, `I` the input gradient
//! and `W` the weight gradient (PyTorch's letters; the zero-bubble papers write `B` for our `I`). Each [`Instruction`]
//! runs on a [`Lane`], in issue order; [`Dependencies`] says what it waits for on other lanes.

#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod by_micro_batch;
mod chain;
pub mod check;
pub mod closed_form;
mod csv;
mod dataflow;
mod dependencies;
mod edge_end;
mod gather_buffers;
pub mod generate;
mod gradient_buffers;
mod id;
mod instruction;
pub mod lower;
mod options;
mod order;
mod placement;
mod program;
pub mod protocol;
pub mod render;
mod send_buffers;
pub mod simulate;
mod slots;
#[cfg(test)]
mod testing;
pub mod text;
mod unit_facts;
mod weight_inputs;

pub use chain::{Chain, ChainError};
pub use check::{CheckedProgram, HighWater, Rule, Violation};
pub use csv::{CsvError, CsvPlace, CsvRule, CsvSite, CsvWait, csv_place};
pub use dependencies::Dependencies;
pub use id::{InstructionId, MicroBatch, PipelineRank, Stage, Unit};
pub use instruction::{Activity, Edge, Instruction, InstructionKind, Lane};
pub use lower::{LowerError, lower};
pub use options::{LowerOptions, OptionsError, Reduction, Residency, UnreducedGradients, Weights};
pub use order::{ComputeKind, ComputeOrder, StageAction};
pub use placement::{Placement, PlacementError};
pub use program::{Program, Purpose};
pub use text::ParseError;
pub use unit_facts::{Tying, UnitFacts, UnitSharding};
