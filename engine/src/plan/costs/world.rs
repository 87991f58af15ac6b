//! A predicted step in a world: data ranks that are not alike, links and cores that ranks share.

use std::borrow::Cow;

use pipezero_schedule::simulate::Costs;
use pipezero_schedule::simulate::cluster::{Cluster, ClusterError, simulate};

use super::predicted::Predicted;
use super::step::{RankStep, Step, bubble_rate};
use crate::plan::Plan;

/// A step of which every data rank is played.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldStep {
    /// `[data rank]`
    by_data_rank: Vec<Step>,
    slowest: usize,
}

impl Predicted {
    /// The plan's ranks on its nodes, all alike and sharing nothing: what a world is changed from.
    pub fn world(&self, plan: &Plan) -> Cluster {
        Cluster {
            ranks_per_node: self.ranks_per_node,
            far_edges: self.edges_by_reach.as_ref().map(|edges| edges.far.clone()),
            // A run has fewer ranks than a `u32` counts; what has more is refused by the player.
            ..Cluster::alike(u32::try_from(plan.grid().data_degree).unwrap_or(u32::MAX))
        }
    }

    /// What everything costs that is not told apart as far.
    pub(super) fn near_costs(&self) -> Cow<'_, Costs> {
        match &self.edges_by_reach {
            None => Cow::Borrowed(&self.costs),
            Some(edges) => Cow::Owned(Costs { edges: edges.near.clone(), ..self.costs.clone() }),
        }
    }
}

impl WorldStep {
    /// Plays the plan's training program on every rank of a world, which [`Predicted::world`] begins.
    ///
    /// # Errors
    /// [`ClusterError`] if the world is none of this plan, or has times or instructions beyond what is played.
    pub fn new(plan: &Plan, predicted: &Predicted, world: &Cluster) -> Result<Self, ClusterError> {
        let played = simulate(plan.training(), &predicted.near_costs(), world)?;
        let straggling_ns = predicted.straggling_ns(plan, world)?;
        let makespan_ns = played.makespan();
        let timelines = played.into_by_data_rank().into_iter().enumerate();
        let by_data_rank: Vec<Step> = timelines
            .map(|(data_rank, timeline)| {
                let step = Step::of_data_rank(plan, predicted, data_rank, timeline, makespan_ns);
                Step { straggling_ns, ..step }
            })
            .collect();
        let slowness = |step: &Step| {
            let busy_ns: u64 = step.ranks.iter().map(|rank| rank.busy_ns).sum();
            (step.longest_rank_span_ns, step.timeline.makespan(), busy_ns)
        };
        let first_slowest = |slowest: usize, other: usize| {
            if slowness(&by_data_rank[other]) > slowness(&by_data_rank[slowest]) { other } else { slowest }
        };
        let slowest = (0..by_data_rank.len()).fold(0, first_slowest);
        Ok(Self { by_data_rank, slowest })
    }

    /// `[data rank]`: its pipeline ranks, in a step that ends with the world's slowest rank. So the makespan, and what
    /// follows from it, is the same for all; a timeline may end before.
    pub fn by_data_rank(&self) -> &[Step] {
        &self.by_data_rank
    }

    /// The data rank with the longest rank's span; of several, the one that ends last, then the one that computes longest.
    pub fn slowest_data_rank(&self) -> usize {
        self.slowest
    }

    /// The part of [`WorldStep::slowest_data_rank`].
    pub fn slowest(&self) -> &Step {
        &self.by_data_rank[self.slowest]
    }

    /// Whether all data ranks do the same at the same time, so that one tells of all.
    pub fn is_alike(&self) -> bool {
        self.by_data_rank.windows(2).all(|pair| pair[0].timeline == pair[1].timeline)
    }

    /// The share of the makespan in which ranks do not compute, mean over all world ranks.
    pub fn bubble_rate(&self) -> f64 {
        bubble_rate(self.by_data_rank.iter().flat_map(|step| &step.ranks), self.slowest().makespan_ns)
    }

    /// A pipeline rank on the data rank where its span is longest; of several, where it computes longest.
    ///
    /// # Panics
    /// If there is no such pipeline rank.
    pub fn slowest_of_pipeline_rank(&self, pipeline_rank: usize) -> (usize, &RankStep) {
        let slowness = |rank: &RankStep| (rank.span_ns, rank.busy_ns);
        let of = |data_rank: usize| &self.by_data_rank[data_rank].ranks[pipeline_rank];
        let slowest = (0..self.by_data_rank.len()).fold(0, |slowest, other| {
            if slowness(of(other)) > slowness(of(slowest)) { other } else { slowest }
        });
        (slowest, of(slowest))
    }
}
