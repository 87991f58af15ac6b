//! A step as it is predicted: how long it takes, and what each rank does meanwhile.

use pipezero_schedule::simulate::{Bubble, Timeline, simulate};
use pipezero_schedule::{CheckedProgram, PipelineRank};

use super::error::PredictError;
use super::predicted::Predicted;
use crate::Plan;

/// A predicted step of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When each instruction starts and ends, for one data rank of every pipeline rank: all data ranks are alike, but in
    /// a [`ClusterStep`](crate::what_if::ClusterStep).
    pub timeline: Timeline,
    /// From the first start to the last end of all ranks, nanoseconds. A step ends with a norm over all ranks, so no rank
    /// is done earlier than the others.
    pub makespan_ns: u64,
    /// What the step takes beside its program.
    pub overhead_ns: u64,
    /// What ranks wait for each other beyond the makespan, since they are slow in turn ([`Predicted::straggling_ns`]): the
    /// timeline is of ranks that take their mean times.
    pub straggling_ns: u64,
    /// Of the rank that takes longest from its first compute of a micro-batch to its last: the measure of the
    /// zero-bubble papers (arXiv:2401.10241), which leaves out the end of the step.
    pub longest_rank_span_ns: u64,
    /// Tokens of the step.
    pub tokens: u64,
    /// `[pipeline rank]`
    pub ranks: Vec<RankStep>,
}

/// A rank in a predicted step: `busy_ns` and all of `bubble` add up to the makespan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankStep {
    /// From its first compute of a micro-batch to its last.
    pub span_ns: u64,
    /// What its computes of micro-batches take.
    pub computed_ns: u64,
    /// Time in which it computes, the optimizer and its part of the norm included.
    pub busy_ns: u64,
    /// Time in which it does not, by cause.
    pub bubble: Bubble,
    /// Bytes that it holds at the most, as planned.
    pub peak_bytes: u64,
}

impl RankStep {
    /// Time in which nothing hid what was on its way: activations and gradients, weights, reductions.
    pub fn exposed_comm_ns(&self) -> u64 {
        self.bubble.transfer + self.bubble.gather + self.bubble.reduce
    }
}

impl Step {
    /// Plays the plan's training program.
    ///
    /// # Errors
    /// [`PredictError::Costs`] where times add up to more than a `u64` holds, [`PredictError::Cluster`] where ranks that are not
    /// alike are more than can be played.
    pub fn new(plan: &Plan, predicted: &Predicted) -> Result<Self, PredictError> {
        let timeline = simulate(plan.training(), &predicted.costs)?;
        let makespan_ns = timeline.makespan();
        let straggling_ns = predicted.straggling_ns(plan, &predicted.cluster(plan))?;
        Ok(Self { straggling_ns, ..Self::of_data_rank(plan, predicted, 0, timeline, makespan_ns) })
    }

    /// One data rank's part of a step that ends with its slowest rank, at `makespan_ns`.
    pub(crate) fn of_data_rank(
        plan: &Plan,
        predicted: &Predicted,
        data_rank: usize,
        timeline: Timeline,
        makespan_ns: u64,
    ) -> Self {
        let program = plan.training();
        let grid = plan.grid();
        let forecast = plan.forecast();
        let others_ns = makespan_ns - timeline.makespan();
        let rank = |index: usize| {
            let rank = PipelineRank(index as u32);
            let bubble = timeline.bubble(program, rank);
            RankStep {
                span_ns: timeline.rank_span(program, rank),
                computed_ns: computed_ns(program, &timeline, rank),
                busy_ns: timeline.busy(program, rank),
                bubble: Bubble { tail: bubble.tail + others_ns, ..bubble },
                peak_bytes: forecast[grid.rank(index, data_rank)].memory.peak,
            }
        };
        let run = plan.run();
        Self {
            makespan_ns,
            overhead_ns: predicted.step_overhead_ns,
            straggling_ns: 0,
            longest_rank_span_ns: timeline.longest_rank_span(program),
            tokens: (run.batch.train_batch_size as u64).saturating_mul(run.model.seq_length() as u64),
            ranks: (0..grid.pipeline_degree).map(rank).collect(),
            timeline,
        }
    }

    /// How long the step takes, nanoseconds: its program, what ranks wait for slow ones, and what lies beside.
    pub fn step_ns(&self) -> u64 {
        self.makespan_ns.saturating_add(self.straggling_ns).saturating_add(self.overhead_ns)
    }

    /// The same, seconds.
    pub fn step_s(&self) -> f64 {
        self.step_ns() as f64 / 1e9
    }

    /// Tokens a second; 0 for a step that takes no time.
    pub fn tokens_per_s(&self) -> f64 {
        let step_s = self.step_s();
        if step_s > 0.0 { self.tokens as f64 / step_s } else { 0.0 }
    }

    /// The share of the makespan in which ranks do not compute, mean over the ranks; 0 for a step that takes no time.
    pub fn bubble_rate(&self) -> f64 {
        bubble_rate(&self.ranks, self.makespan_ns)
    }

    /// The share of its span in which the longest rank does not compute.
    pub fn bubble_rate_longest_rank(&self) -> f64 {
        let longest =
            self.ranks.iter().max_by_key(|rank| rank.span_ns).expect("a grid has at least one rank");
        idle(longest.computed_ns as f64, longest.span_ns as f64)
    }
}

/// The share of the makespan in which these ranks do not compute.
pub(crate) fn bubble_rate<'a>(ranks: impl IntoIterator<Item = &'a RankStep>, makespan_ns: u64) -> f64 {
    let (mut busy, mut num_ranks) = (0.0, 0.0);
    for rank in ranks {
        busy += rank.busy_ns as f64;
        num_ranks += 1.0;
    }
    idle(busy, makespan_ns as f64 * num_ranks)
}

fn idle(busy: f64, of: f64) -> f64 {
    if of > 0.0 { 1.0 - busy / of } else { 0.0 }
}

fn computed_ns(program: &CheckedProgram, timeline: &Timeline, rank: PipelineRank) -> u64 {
    let row = program.row(rank).iter().zip(timeline.row(rank));
    let computes = row.filter(|(of, _)| of.is_micro_batch_compute());
    computes.map(|(_, span)| span.end - span.start).sum()
}
