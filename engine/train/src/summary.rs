//! `summary.json`: the results of a run, measured beside planned.

use pipezero_files::json::{JsonError, Source};
use pipezero_plan::RankForecast;
use pipezero_run::data::NgramCrossEntropy;
use pipezero_run::engine::{LoadedWeights, LossPart, MeasuredRank};
use serde::{Deserialize, Serialize};

use super::device_memory::DeviceMemory;
use super::metrics::means_by_name;
use super::process_memory::ProcessMemory;

/// How long steps took, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepSeconds {
    /// Of an even number of steps the longer of the two in the middle.
    pub median: f64,
    /// The shortest step.
    pub shortest: f64,
    /// The longest step, often the first.
    pub longest: f64,
}

impl StepSeconds {
    /// The median and extremes of these times, if there are any.
    pub fn of(seconds: &[f64]) -> Option<Self> {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&shortest, &longest) = (sorted.first()?, sorted.last()?);
        Some(Self { median: sorted[sorted.len() / 2], shortest, longest })
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Steps done.
    pub steps: u64,
    /// Steps that did not change the weights: a gradient overflowed in fp16, or no token carried loss.
    pub skipped_steps: u64,
    /// How many of the last steps were skipped in a row.
    pub skipped_steps_at_end: u64,
    /// Ranks on each host of the job, on the last perhaps fewer; null where one number does not say it, and where ranks are threads.
    pub ranks_per_node: Option<usize>,
    /// Whether the run was ended before its last step.
    pub interrupted: bool,
    /// Loss of the last step, nats per token.
    pub training_loss: Option<f64>,
    /// What the loss of the last step reports beside its value, an object of means by name; left out where it reports nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "means_by_name")]
    pub training_loss_parts: Vec<LossPart>,
    /// Loss on the validation text after the last step.
    pub validation_loss: Option<f64>,
    /// The same of that loss.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "means_by_name")]
    pub validation_loss_parts: Vec<LossPart>,
    /// Losses that need no model: of counts of bytes and of pairs of bytes, on the same split.
    pub baselines: Option<NgramCrossEntropy>,
    /// Tokens per second, median over the steps.
    pub tokens_per_s: f64,
    /// Seconds of a step; null before the first.
    pub step_s: Option<StepSeconds>,
    /// Share of a step that the schedule's own bubble takes: equal stages, transfers for nothing.
    pub bubble_share: f64,
    /// Share of a step that ranks waited for others, mean over ranks and steps: bubble and exposed transfers.
    pub idle_share: f64,
    /// Share of a step that ranks waited for gathers and reductions, mean over ranks and steps.
    pub exposed_comm_share: f64,
    /// Loss scale of the last step; null unless in fp16.
    pub loss_scale: Option<f64>,
    /// Measured memory and traffic of each rank.
    pub ranks: Vec<MeasuredRank>,
    /// The plan's forecast of the same.
    pub planned: Vec<RankForecast>,
    /// The weights that this start began with; null where it drew them, and where it resumed from a checkpoint.
    pub loaded_weights: Option<LoadedWeights>,
    /// Memory of this process from outside; null where the system does not report it.
    pub process: Option<ProcessMemory>,
    /// Memory of the devices that have their own: of all processes' in that of rank 0.
    pub devices: Vec<DeviceMemory>,
}

impl Summary {
    /// Whether fp16 skipped more than half of the steps, or at least the last 10: beyond a search for the loss scale.
    pub fn skipped_too_many(&self) -> bool {
        let is_most = 2 * self.skipped_steps > self.steps;
        self.loss_scale.is_some() && (is_most || self.skips_at_end())
    }

    /// Whether the last 10 steps or more were skipped.
    pub fn skips_at_end(&self) -> bool {
        self.skipped_steps_at_end >= 10
    }
}

/// How far a run came, from the text of a summary: its steps, if it was not ended before.
pub(super) fn steps_of_finished(text: &str) -> Result<Option<u64>, JsonError> {
    #[derive(Deserialize)]
    struct Finished {
        steps: u64,
        interrupted: bool,
    }
    let found: Finished = Source::file("summary.json", text).read()?;
    Ok((!found.interrupted).then_some(found.steps))
}

/// The part of a summary that is read back.
#[derive(Debug, Deserialize)]
pub struct Measured {
    /// Ranks on each host, as [`Summary`] has it.
    pub ranks_per_node: Option<usize>,
    ranks: Vec<MeasuredPeak>,
    process: Option<MeasuredProcess>,
}

impl Measured {
    /// From the text of a summary.
    pub(super) fn read(text: &str) -> Result<Self, JsonError> {
        Source::file("summary.json", text).read()
    }

    /// Whether the run learned from a teacher's logits.
    pub fn had_teacher(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.teacher_bytes > 0)
    }

    /// The peak memory of each world rank.
    pub fn peak_bytes(&self) -> Vec<u64> {
        self.ranks.iter().map(|rank| rank.memory.peak).collect()
    }
}

#[derive(Debug, Deserialize)]
struct MeasuredProcess {
    #[serde(default)]
    teacher_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct MeasuredPeak {
    memory: Peak,
}

#[derive(Debug, Deserialize)]
struct Peak {
    peak: u64,
}

#[cfg(test)]
mod tests {
    use super::StepSeconds;

    #[test]
    fn the_median_and_extremes_do_not_depend_on_the_order() {
        let of = |seconds: &[f64]| StepSeconds::of(seconds).map(|of| (of.median, of.shortest, of.longest));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[2.0]), Some((2.0, 2.0, 2.0)));
        assert_eq!(of(&[9.0, 1.0, 3.0]), Some((3.0, 1.0, 9.0)));
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some((3.0, 1.0, 4.0)));
    }
}
