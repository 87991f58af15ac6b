//! A recorded step and its prediction, compared.

use serde::Serialize;

use super::compared::Compared;
use super::kinds::{self, ComparedKind};
use super::median::median_step;
use super::path::{self, Parting};
use super::prediction::{Prediction, step_overhead_ns};
use super::ranks::{self, ComparedRank};
use crate::recording::Recording;

/// Partings that are reported.
const NUM_PARTINGS: usize = 10;

/// A prediction beside what happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The steps that were recorded.
    pub steps: Vec<u64>,
    /// The one of them that took the middle time; all that was measured is of it.
    pub median_step: u64,
    /// The whole step.
    pub step: Compared,
    /// Its program: from the first start of an instruction on any rank to the last end.
    pub program: Compared,
    /// How long ranks are predicted to wait for slow ranks, which the predicted program does not contain. The measured
    /// program does.
    pub straggling_ns: u64,
    /// What it takes beside its program: reading tokens, starting and collecting the ranks.
    pub step_overhead: Compared,
    /// By world rank.
    pub ranks: Vec<ComparedRank>,
    /// By kind of instruction and part of it.
    pub kinds: Vec<ComparedKind>,
    /// Parts of the measured step's critical path: an instruction counts twice if a rank also waited for its result.
    pub path_parts: usize,
    /// The instructions of that path where the two part most, in the order of time.
    pub partings: Vec<Parting>,
}

impl Comparison {
    /// Compares a prediction with the recorded step of middle length; `measured_peak_bytes` are by world rank.
    ///
    /// # Panics
    /// If there is no step, or the prediction is of another plan.
    pub fn new(steps: &[Recording<'_>], prediction: &Prediction, measured_peak_bytes: &[u64]) -> Self {
        let recording = median_step(steps);
        let path = path::critical(recording, &prediction.timeline);
        let predicted_ns = prediction.timeline.makespan();
        let (makespan_ns, overhead_ns) = (recording.makespan_ns(), step_overhead_ns(recording));
        Self {
            steps: steps.iter().map(Recording::step).collect(),
            median_step: recording.step(),
            step: Compared::new(
                predicted_ns
                    .saturating_add(prediction.straggling_ns)
                    .saturating_add(prediction.step_overhead_ns),
                makespan_ns + overhead_ns,
            ),
            program: Compared::new(predicted_ns, makespan_ns),
            straggling_ns: prediction.straggling_ns,
            step_overhead: Compared::new(prediction.step_overhead_ns, overhead_ns),
            ranks: ranks::compare(recording, prediction, measured_peak_bytes),
            kinds: kinds::compare(recording, prediction),
            path_parts: path.len(),
            partings: path::largest(path, NUM_PARTINGS),
        }
    }

    /// The program with what ranks are predicted to wait for slow ones. What was measured of the program contains its waits for
    /// slow ranks, so only both together have an error.
    pub fn program_with_waits(&self) -> Compared {
        let Compared { predicted_ns, measured_ns, .. } = self.program;
        Compared::new(predicted_ns.saturating_add(self.straggling_ns), measured_ns)
    }
}
