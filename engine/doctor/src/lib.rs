//! Whether a run will do on the machines that it is for, found out in less than two minutes: `pipezero doctor`.
//!
//! ```text
//! hosts    what each process runs on                       \
//! lanes    messages alone: contents, latency, bandwidth     \
//! parity   small models beside one pipeline rank             +-> checks -> Report
//! steps    the run itself, beside its plan                  /
//! clocks   offsets and drift       disk   room and speed   /
//! ```
//!
//! A part looks, in all processes, and then judges, in the first. Judging takes what was found and nothing else, so its rules are tested
//! with figures that break them.

mod check;
mod clocks;
mod disk;
mod examination;
mod gpus;
mod hosts;
mod lanes;
mod lost;
mod memories;
mod parity;
mod parity_case;
mod report;
mod steps;
mod steps_rules;
mod team;
mod text;
mod tokens;

pub use self::check::{Check, Part, Verdict};
pub use self::clocks::ProcessClock;
pub use self::disk::DiskFacts;
pub use self::examination::examine;
pub use self::gpus::GpuFacts;
pub use self::hosts::ProcessFacts;
pub use self::lanes::LaneFacts;
pub use self::parity::ParityFacts;
pub use self::report::Report;
pub use self::steps::{RunFacts, StepFacts};
pub use self::steps_rules::median;
