//! pipezero trains GPT-style models on DP x PP grids with ZeRO, from one JSON file.
//!
//! [`config::RunFile`] reads and checks the file, [`plan::Plan`] says what every rank will do, hold and send, and
//! [`Engine`] does it. [`train::Training`] is the loop around an engine that the command line runs.
//!
//! ```no_run
//! use std::sync::Arc;
//! use pipezero::config::{Launch, RunFile};
//! use pipezero::{Engine, plan::Plan, run::data::Corpus, train::batch_layout};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (run, _notices) = RunFile::load("engine/configs/quickstart.json".as_ref())?.resolve(Launch::this_host())?;
//! let plan = Plan::new(run)?;
//! let corpus = Corpus::load(&plan.run().data, plan.micro_batch_shape().seq_length)?;
//! let batches = corpus.training_batches(batch_layout(&plan), plan.run().seed)?;
//! let mut engine = Engine::new(plan, Arc::new(batches))?;
//! for _ in 0..10 {
//!     let report = engine.train_batch()?;
//!     println!("{}: {:?}", report.step, report.loss);
//! }
//! engine.save("weights.safetensors".as_ref())?;
//! # Ok(())
//! # }
//! ```

#[doc(hidden)]
pub mod cli;
pub mod config;
mod files;
pub mod measure;
pub mod plan;
pub mod run;
pub mod train;

/// Layers, units and the model families; for models of one's own.
pub use pipezero_models as models;
/// Programs and what they are made of.
pub use pipezero_schedule as schedule;
pub use plan::Plan;
pub use plan::grid::Grid;
pub use run::Engine;
pub use run::executor::{Cause, Event, EventKind, Position, RankFailure};
