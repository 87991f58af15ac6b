//! Everything that an examination has found.

use std::time::Duration;

use pipezero_config::Run;
use serde::Serialize;

use super::check::{Check, Part, Verdict};
use super::clocks::ProcessClock;
use super::disk::DiskFacts;
use super::hosts::ProcessFacts;
use super::lanes::LaneFacts;
use super::parity::ParityFacts;
use super::steps::RunFacts;

/// What was found, part by part, and what it came to. A part is missing if the processes could not come to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// pipezero's version.
    pub version: String,
    /// Seconds of each part.
    pub seconds: Vec<(Part, f64)>,
    /// The checks of all parts.
    pub checks: Vec<Check>,
    /// What each process runs on.
    pub processes: Vec<ProcessFacts>,
    /// Groups and lanes.
    pub lanes: Option<LaneFacts>,
    /// Small models.
    pub parity: Option<ParityFacts>,
    /// Steps of the run.
    pub steps: Option<RunFacts>,
    /// Clocks.
    pub clocks: Vec<ProcessClock>,
    /// The disk.
    pub disk: Option<DiskFacts>,
    /// The run, with every default.
    pub run: Run,
}

impl Report {
    /// One without findings.
    pub(super) fn new(run: &Run) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seconds: Vec::new(),
            checks: Vec::new(),
            processes: Vec::new(),
            lanes: None,
            parity: None,
            steps: None,
            clocks: Vec::new(),
            disk: None,
            run: run.clone(),
        }
    }

    /// How many checks came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    /// Adds what a part took, and its checks.
    pub(super) fn add(&mut self, part: Part, took: Duration, checks: Vec<Check>) {
        match self.seconds.iter_mut().find(|(of, _)| *of == part) {
            Some((_, seconds)) => *seconds += took.as_secs_f64(),
            None => self.seconds.push((part, took.as_secs_f64())),
        }
        self.checks.extend(checks);
    }
}
