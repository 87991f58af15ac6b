//! pipezero trains GPT-style models on DP x PP grids with ZeRO, from one JSON file.
//!
//! [`RunFile`] reads the file. [`Plan`] checks it and says what every rank will do, hold and send; [`Simulation`] says how
//! long that takes; [`Engine`] does it, one step after the other:
//!
//! ```no_run
//! use pipezero::{Engine, Plan, Resources, RunFile, train::training_batches};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = RunFile::load("engine/configs/quickstart.json".as_ref())?;
//! let (plan, _notices) = Plan::from_file(&file, Resources::this_host())?;
//! let batches = training_batches(&plan)?;
//! let mut engine = Engine::new(plan, batches)?;
//! for _ in 0..10 {
//!     let report = engine.train_batch()?;
//!     println!("{}: {:?}", report.step, report.loss);
//! }
//! engine.save("weights.safetensors".as_ref())?;
//! # Ok(())
//! # }
//! ```
//!
//! What you can bring of your own: batches ([`BatchSource`]), a loss ([`models::loss::Loss`]), and a model
//! ([`Plan::with_model`]) of layers ([`models::layer::Layer`]), which may be modules over candle tensors (with the feature
//! `candle`, `models::adapter::CandleLayer`); the page `docs/extending.md` has an example of each.
//!
//! [`Training`] is the loop around an engine that writes a [`RunDir`], and [`TrainedRun`] reads it back:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pipezero::train::Scored;
//!
//! let score = pipezero::TrainedRun::open("runs/quickstart".as_ref())?.score(&[], Scored::All)?;
//! println!("{} nats per token, {:?} bits per byte", score.loss, score.bits_per_byte());
//! # Ok(())
//! # }
//! ```

pub use pipezero_comm::world::Position;
pub use pipezero_config::{Resources, Run, RunFile};
pub use pipezero_plan::Plan;
pub use pipezero_plan::grid::Grid;
pub use pipezero_plan::what_if::{LoneSchedule, Simulation, WhatIf};
pub use pipezero_run::Engine;
pub use pipezero_run::data::BatchSource;
pub use pipezero_run::executor::{Cause, CauseKind, EventKind, RankFailure, RecordedEvent};
pub use pipezero_train::{RunDir, TrainedRun, Training};

/// The earlier name of [`Resources`].
#[deprecated(note = "use `Resources`")]
pub type Launch = Resources;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use pipezero_cli as cli;
pub use pipezero_config as config;
pub use pipezero_config::hugging_face;
pub use pipezero_launch as launch;
pub use pipezero_measure as measure;
pub use pipezero_plan as plan;
/// Programs and their instructions.
pub use pipezero_schedule as schedule;
pub use pipezero_tokenize as tokenize;
pub use pipezero_tokens as tokens;
pub use pipezero_train as train;

/// The ranks' threads, what they hold and what they send each other.
pub mod run {
    pub use pipezero_comm as comm;
    pub use pipezero_comm::memory;
    pub use pipezero_run::{Engine, checkpoint, data, engine, generation, optimizer, world};
}

/// Layers, units and the model families, to build a model of your own.
pub mod models {
    /// Modules over candle tensors as layers. The crate's feature `candle` turns them on.
    #[cfg(feature = "candle")]
    pub use pipezero_candle as adapter;
    pub use pipezero_models::*;
}

/// Compiles the page's example.
#[cfg(doctest)]
#[doc = include_str!("../../docs/library.md")]
struct Library;

/// Runs the page's example.
#[cfg(doctest)]
#[doc = include_str!("../../docs/extending.md")]
struct Extending;

/// Compiles the page's example.
#[cfg(doctest)]
#[doc = include_str!("../../docs/checkpoints.md")]
struct CheckpointPage;
