//! What ranks wait for each other because they are not equally slow in every step.
//!
//! A step of ranks that all take their mean time is shorter than the mean step: ranks that exchange messages wait for the slowest of them,
//! and the slowest is another one each time. The effect on a step is found by simulating it with the recorded slowness.

use std::collections::BTreeMap;

use pipezero_schedule::simulate::cluster::{Cluster, ClusterError, Ratio, simulate};

use super::assumption::Assumption;
use super::predicted::Predicted;
use super::slowness::{MEAN_PPM, RankSlowness};
use crate::Plan;

/// World ranks' instructions that are played at most, beyond the first of the recorded steps.
const NUM_PLAYED_MAX: usize = 20_000_000;

impl RankSlowness {
    /// The speeds of so many ranks in one of the steps, on top of a cluster's. A run of more ranks than were measured takes
    /// further ones from the steps that follow, since those are as independent of each other.
    fn speeds(&self, step: usize, cluster: &Cluster, world_size: u32) -> BTreeMap<u32, Ratio> {
        let speed = |rank: u32| {
            let num_measured = self.0[step].len();
            let of = &self.0[(step + rank as usize / num_measured) % self.0.len()];
            let ppm = of[rank as usize % num_measured];
            let speed = cluster.speeds.get(&rank).copied().unwrap_or(Ratio::ONE);
            (rank, slowed(speed, ppm))
        };
        (0..world_size).map(speed).collect()
    }

    /// The assumption to report for a plan where not all steps are played.
    pub(super) fn assumption(&self, plan: &Plan) -> Option<Assumption> {
        let num_recorded = self.0.len();
        let num_played = self.played(plan.num_instructions_of_world()).count();
        (num_played < num_recorded).then_some(Assumption::Played { num_played, num_recorded })
    }

    /// The steps to play of a program with so many instructions on all ranks: all or, evenly, as many as stay in bounds.
    fn played(&self, num_instructions: usize) -> impl Iterator<Item = usize> + use<> {
        let num_steps = self.0.len();
        let num_played = (NUM_PLAYED_MAX / num_instructions.max(1)).clamp(1, num_steps.max(1)).min(num_steps);
        (0..num_played).map(move |played| (2 * played + 1) * num_steps / (2 * num_played))
    }
}

/// A speed, divided by a slowness, to a millionth.
fn slowed(speed: Ratio, ppm: u32) -> Ratio {
    if ppm == MEAN_PPM {
        return speed;
    }
    let millionths = u128::from(speed.numerator) * u128::from(MEAN_PPM) * u128::from(MEAN_PPM);
    let of = u128::from(speed.denominator) * u128::from(ppm);
    let rounded = (millionths + of / 2) / of.max(1);
    Ratio::new(u32::try_from(rounded).unwrap_or(u32::MAX).max(1), MEAN_PPM)
}

impl Predicted {
    /// How much longer a step in this cluster is in the mean for ranks that are as slow in turn as they were when they were
    /// measured, nanoseconds; 0 where that was not measured.
    ///
    /// The mean is over the recorded steps, or for large runs over some of them, as [`Assumption::Played`] reports.
    ///
    /// # Errors
    /// [`ClusterError`] as [`ClusterStep::new`](crate::what_if::ClusterStep::new).
    pub fn straggling_ns(&self, plan: &Plan, cluster: &Cluster) -> Result<u64, ClusterError> {
        if self.slowness.is_empty() {
            return Ok(0);
        }
        let (program, costs) = (plan.training(), self.near_costs());
        let world_size = u32::try_from(plan.grid().world_size()).unwrap_or(u32::MAX);
        let (mut sum, mut num_played) = (0, 0);
        for step in self.slowness.played(plan.num_instructions_of_world()) {
            let cluster =
                Cluster { speeds: self.slowness.speeds(step, cluster, world_size), ..cluster.clone() };
            sum += u128::from(simulate(program, &costs, &cluster)?.makespan());
            num_played += 1;
        }
        let without = simulate(program, &costs, cluster)?.makespan();
        let mean =
            sum.checked_div(num_played).map_or(without, |mean| u64::try_from(mean).unwrap_or(u64::MAX));
        Ok(mean.saturating_sub(without))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_large_runs_some_steps_are_played_evenly() {
        let played = |num_steps: usize, num_instructions| {
            let slowness = RankSlowness(vec![vec![MEAN_PPM]; num_steps]);
            slowness.played(num_instructions).collect::<Vec<_>>()
        };
        assert_eq!(played(5, 1000), [0, 1, 2, 3, 4]);
        assert_eq!(played(5, NUM_PLAYED_MAX / 2), [1, 3]);
        assert_eq!(played(5, usize::MAX), [2]);
        assert_eq!(played(1, 0), [0]);
        assert_eq!(played(0, 1000), [0; 0]);
    }

    #[test]
    fn speeds_are_divided_to_a_millionth() {
        assert_eq!(slowed(Ratio::new(1, 3), MEAN_PPM), Ratio::new(1, 3));
        assert_eq!(slowed(Ratio::ONE, 1_250_000), Ratio::new(800_000, 1_000_000));
        assert_eq!(slowed(Ratio::new(1, 3), 2_000_000), Ratio::new(166_667, 1_000_000));
        assert_eq!(slowed(Ratio::new(u32::MAX, 1), 1_000), Ratio::new(u32::MAX, 1_000_000));
        assert_eq!(slowed(Ratio::new(1, u32::MAX), RankSlowness::MOST_PPM), Ratio::new(1, 1_000_000));
    }
}
