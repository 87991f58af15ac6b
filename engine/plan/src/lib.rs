//! The plan: what every rank will do, hold and send, from the resolved run alone.
//!
//! A pure function of the run, so every rank computes the same one. Here the three leaf crates come together:
//! it cuts the model (`partition`), builds the layers (`models`), and has the program generated, lowered and checked
//! (`schedule`). What it predicts is what the engine allocates and runs.

mod alternatives;
mod auto_overlap;
mod auto_recomputation;
mod beside_zero_1;
mod build;
mod bytes;
pub mod costs;
mod cut;
mod diagnostics;
mod element_types;
mod error;
mod forecast;
mod from_file;
mod frozen;
mod gradient_overlap;
pub mod grid;
mod head_logits;
mod logits_bytes;
mod names;
mod new_parameters;
mod parameter_kinds;
mod planned;
mod program_bound;
mod programs;
mod rank_rows;
mod recomputation;
mod refusal;
mod residencies;
mod residency;
mod run_model;
mod sharding;
mod sharding_choice;
mod sharding_list;
mod sizes;
mod stage_bytes;
mod stages;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tokens_read;
mod unit;
mod units;
mod unmatched_names;
mod vocabulary;
pub mod what_if;
mod zero_2_ranks;

pub use alternatives::Changes;
pub use alternatives::{Change, CountedRanks, Needs, changes_that_fit};
pub use auto_recomputation::KeptNeed;
pub use beside_zero_1::BesideZero1;
pub use bytes::Bytes;
pub use diagnostics::Diagnostic;
pub use element_types::ElementTypes;
pub use error::{PatternFault, PlanError};
pub use forecast::{Persistent, RankForecast};
pub use from_file::FromFileError;
pub use head_logits::HeadLogitsCost;
pub use parameter_kinds::{ParameterKind, PlannedParameter};
pub use pipezero_partition::{Purpose, RankMemory, Traffic, Volume};
pub use planned::Plan;
pub use residencies::ResidencyCost;
pub use sharding::InEffect;
pub use sizes::{EdgeBuffers, MAX_REDUCED_PARTS, RankSizes};
pub use tokens_read::TokensRead;
pub use unit::{MAX_GATHERED_PARTS, Reduced};
pub use unit::{PlannedPart, PlannedUnit};
pub use unmatched_names::UnmatchedNames;
pub use zero_2_ranks::Zero2Ranks;
