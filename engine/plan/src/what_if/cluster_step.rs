//! A simulated step of a whole cluster: every data rank separately, since they need not be alike.

use pipezero_schedule::simulate::cluster::{Cluster, ClusterError, simulate};

use crate::Plan;
use crate::costs::{Predicted, RankStep, Step, bubble_rate};

/// A step in which every data rank is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterStep {
    /// `[data rank]`
    by_data_rank: Vec<Step>,
    slowest: usize,
}

impl ClusterStep {
    /// Simulates the plan's training program on every rank of a cluster; start from [`Predicted::cluster`].
    ///
    /// # Errors
    /// [`ClusterError`] if the cluster does not belong to this plan, or its times or instructions are more than can be simulated.
    pub fn new(plan: &Plan, predicted: &Predicted, cluster: &Cluster) -> Result<Self, ClusterError> {
        let simulated = simulate(plan.training(), &predicted.near_costs(), cluster)?;
        let straggling_ns = predicted.straggling_ns(plan, cluster)?;
        let makespan_ns = simulated.makespan();
        let timelines = simulated.into_by_data_rank().into_iter().enumerate();
        let by_data_rank: Vec<Step> = timelines
            .map(|(data_rank, timeline)| {
                let step = Step::of_data_rank(plan, predicted, data_rank, timeline, makespan_ns);
                Step { straggling_ns, ..step }
            })
            .collect();
        let slowness = |data_rank: usize| {
            let step: &Step = &by_data_rank[data_rank];
            let busy_ns: u64 = step.ranks.iter().map(|rank| rank.busy_ns).sum();
            (step.longest_rank_span_ns, step.timeline.makespan(), busy_ns)
        };
        let slowest = first_max(by_data_rank.len(), slowness);
        Ok(Self { by_data_rank, slowest })
    }

    /// `[data rank]`: its pipeline ranks, in a step that ends with the slowest rank of the cluster. So the makespan, and what
    /// follows from it, is the same for all; a timeline may end earlier.
    pub fn by_data_rank(&self) -> &[Step] {
        &self.by_data_rank
    }

    /// The data rank with the longest span of one rank; of several, the one that ends last, then the one that computes longest.
    pub fn slowest_data_rank(&self) -> usize {
        self.slowest
    }

    /// The part of [`ClusterStep::slowest_data_rank`].
    pub fn slowest(&self) -> &Step {
        &self.by_data_rank[self.slowest]
    }

    /// Whether all data ranks do the same at the same time, so that one stands for all.
    pub fn is_alike(&self) -> bool {
        self.by_data_rank.windows(2).all(|pair| pair[0].timeline == pair[1].timeline)
    }

    /// The share of the makespan in which ranks do not compute, mean over all world ranks.
    pub fn bubble_rate(&self) -> f64 {
        bubble_rate(self.by_data_rank.iter().flat_map(|step| &step.ranks), self.slowest().makespan_ns)
    }

    /// The data rank on which a pipeline rank's span is longest, and what the rank does there; of several, the one that
    /// computes longest.
    ///
    /// # Panics
    /// If there is no such pipeline rank.
    pub fn slowest_of_pipeline_rank(&self, pipeline_rank: usize) -> (usize, &RankStep) {
        let rank = |data_rank: usize| &self.by_data_rank[data_rank].ranks[pipeline_rank];
        let slowest = first_max(self.by_data_rank.len(), |data_rank| {
            let RankStep { span_ns, busy_ns, .. } = *rank(data_rank);
            (span_ns, busy_ns)
        });
        (slowest, rank(slowest))
    }
}

/// The first index below `len` with the largest key.
fn first_max<K: PartialOrd>(len: usize, key: impl Fn(usize) -> K) -> usize {
    (0..len).fold(0, |max, other| if key(other) > key(max) { other } else { max })
}
