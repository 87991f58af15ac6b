//! What the loop keeps of its steps.

use std::time::Instant;

use pipezero_run::engine::StepReport;

use super::metrics::StepLine;

/// The figures of the steps so far that the summary needs.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Steps that were done before.
    first: u64,
    tokens_per_s: Vec<f64>,
    pub(super) step_s: Vec<f64>,
    pub(super) num_skipped: u64,
    /// In a row, up to the last step.
    pub(super) num_skipped_in_a_row: u64,
    /// Sum over the steps.
    idle_share: f64,
    /// Sum over the steps.
    exposed_comm_share: f64,
    pub(super) last: Option<StepReport>,
    /// When the last step of this start ended.
    last_ended: Option<Instant>,
}

impl Progress {
    /// Of a run that has done so many steps.
    pub(super) fn after(first: u64) -> Self {
        Self { first, ..Self::default() }
    }

    /// Says that a step has ended: the seconds since the one before did, if this start did one.
    pub(super) fn step_ended(&mut self) -> Option<f64> {
        let now = Instant::now();
        self.last_ended.replace(now).map(|before| (now - before).as_secs_f64())
    }

    pub(super) fn add(&mut self, line: &StepLine, report: StepReport) {
        self.tokens_per_s.push(line.tokens_per_s);
        self.step_s.push(line.step_s);
        self.num_skipped += u64::from(line.skipped);
        self.num_skipped_in_a_row = if line.skipped { self.num_skipped_in_a_row + 1 } else { 0 };
        self.idle_share += report.idle_share();
        self.exposed_comm_share += report.exposed_comm_share();
        self.last = Some(report);
    }

    pub(super) fn num_steps(&self) -> u64 {
        self.first + self.tokens_per_s.len() as u64
    }

    pub(super) fn mean_idle_share(&self) -> f64 {
        self.mean(self.idle_share)
    }

    pub(super) fn mean_exposed_comm_share(&self) -> f64 {
        self.mean(self.exposed_comm_share)
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.tokens_per_s.len().max(1) as f64
    }

    pub(super) fn median_tokens_per_s(&self) -> f64 {
        let mut sorted = self.tokens_per_s.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}
