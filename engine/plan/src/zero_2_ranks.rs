//! The ranks of a pipeline that do what ZeRO-2 does, and the words with which they are refused.

use std::fmt;

use pipezero_partition::WeightElements;
use pipezero_schedule::PipelineRank;

/// Pipeline ranks that keep their weights whole between steps and reduce gradients after every micro-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zero2Ranks {
    /// The ranks with the elements of their weights.
    pub ranks: Vec<(PipelineRank, WeightElements)>,
    /// Pipeline ranks in all.
    pub pipeline: usize,
    /// Micro-batches of a step.
    pub num_micro_batches: usize,
    /// The highest `stage3_param_persistence_threshold` with which none of the ranks is so; `None` where the run has a list of names.
    pub threshold: Option<u64>,
}

impl Zero2Ranks {
    /// Changes with which the ranks are not refused.
    pub fn repair(&self) -> String {
        match self.threshold {
            Some(threshold) => format!("use {threshold} or less, or write \"stage\": 1"),
            None => "let more weights of these ranks be sharded, or write \"stage\": 1".to_owned(),
        }
    }
}

impl fmt::Display for Zero2Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.ranks.iter().map(|(rank, _)| rank.index().to_string()).collect();
        let are_all_whole = self.ranks.iter().all(|(_, elements)| elements.num_sharded == 0);
        let share = if are_all_whole { "all" } else { "more than 95%" };
        match &numbers[..] {
            [one] => {
                write!(f, "pipeline rank {one} keeps {share} of its weights whole between steps and reduces")?
            }
            several => write!(
                f,
                "pipeline ranks {} keep {share} of their weights whole between steps and reduce",
                several.join(", ")
            )?,
        }
        let (when, why) = match self.num_micro_batches {
            1 => (
                "the one micro-batch of a step".to_owned(),
                "with one micro-batch the ranks of a pipeline compute one after the other; with more, each micro-batch would cost a reduction \
                 although weights are whole",
            ),
            several => (
                format!("each of the {several} micro-batches of a step"),
                "each micro-batch costs a reduction although weights are whole",
            ),
        };
        write!(
            f,
            " gradients after {when}, which is ZeRO-2, and that is incompatible with pipeline parallelism \
             (`parallel.pipeline` is {}): {why}",
            self.pipeline
        )
    }
}
