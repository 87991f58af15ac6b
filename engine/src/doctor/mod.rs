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

pub(crate) use self::check::{Check, Part, Verdict};
pub(crate) use self::clocks::ProcessClock;
pub(crate) use self::disk::DiskFacts;
pub(crate) use self::examination::examine;
pub(crate) use self::gpus::GpuFacts;
pub(crate) use self::hosts::ProcessFacts;
pub(crate) use self::lanes::LaneFacts;
pub(crate) use self::parity::ParityFacts;
pub(crate) use self::report::Report;
pub(crate) use self::steps::{RunFacts, StepFacts};
pub(crate) use self::steps_rules::median;
