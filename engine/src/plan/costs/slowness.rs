//! How slow each rank was in each step, and what ranks wait for each other because of it.
//!
//! A step of ranks that all take their mean time is shorter than the mean step: whoever meets others waits for the slowest of
//! them, and the slowest is another one each time. Cores of one host are a few percent faster in one step and slower in the
//! next (clocks, neighbours, what else the system does), each by itself. So a profile keeps, beside the means, by how much each
//! rank was off them in each step that counts; and what that makes of a step is found by playing it so.

use std::collections::BTreeMap;

use pipezero_schedule::simulate::cluster::{Cluster, ClusterError, Ratio, simulate};
use serde::{Deserialize, Deserializer, Serialize};

use super::assumption::Assumption;
use super::predicted::Predicted;
use crate::plan::Plan;

/// A rank that takes what it takes in the mean.
pub(super) const MEAN_PPM: u32 = 1_000_000;

/// Cluster ranks' instructions that are played at most, beyond the first of the recorded steps.
const NUM_PLAYED_MAX: usize = 20_000_000;

/// How slow ranks were, `[step][rank]`: what the computes of a rank took in a recorded step that counts, in millionths of
/// what they take in the mean.
///
/// All steps have as many ranks, [`super::Host::ranks`], at least one; each figure is from [`RankSlowness::LEAST_PPM`] to
/// [`RankSlowness::MOST_PPM`]. Costs that were not measured have no steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RankSlowness(Vec<Vec<u32>>);

impl RankSlowness {
    /// A thousand times as fast as in the mean.
    pub const LEAST_PPM: u32 = 1_000;
    /// A thousand times as slow.
    pub const MOST_PPM: u32 = 1_000_000_000;

    /// From what each rank's computes took in each step beside what they take in the mean, nanoseconds; bounded.
    pub(crate) fn new(steps: impl IntoIterator<Item = Vec<[u128; 2]>>) -> Self {
        let ppm = |[took, mean]: [u128; 2]| {
            let rounded = (took * u128::from(MEAN_PPM) + mean / 2).checked_div(mean);
            let bounds = u128::from(Self::LEAST_PPM)..=u128::from(Self::MOST_PPM);
            let ppm = rounded.unwrap_or(u128::from(MEAN_PPM)).clamp(*bounds.start(), *bounds.end());
            u32::try_from(ppm).expect("it is bounded")
        };
        Self(steps.into_iter().map(|step| step.into_iter().map(ppm).collect()).collect())
    }

    /// Whether nothing is known of it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean of all figures; `None` of none.
    pub(super) fn mean_ppm(&self) -> Option<u64> {
        let all = || self.0.iter().flatten().map(|&ppm| u64::from(ppm));
        all().sum::<u64>().checked_div(all().count() as u64)
    }

    /// The first step with another number of ranks than so many, and that number.
    pub(super) fn unlike(&self, num_ranks: u64) -> Option<(usize, usize)> {
        let is_unlike = |step: &&Vec<u32>| step.is_empty() || step.len() as u64 != num_ranks;
        let found = self.0.iter().position(|step| is_unlike(&step))?;
        Some((found, self.0[found].len()))
    }

    /// The speeds of so many ranks in one of the steps, on top of a world's. A run of more ranks than were measured takes
    /// further ones from the steps that follow, since those are as independent of each other.
    fn speeds(&self, step: usize, world: &Cluster, world_size: u32) -> BTreeMap<u32, Ratio> {
        let speed = |rank: u32| {
            let num_measured = self.0[step].len();
            let of = &self.0[(step + rank as usize / num_measured) % self.0.len()];
            let ppm = of[rank as usize % num_measured];
            let speed = world.speeds.get(&rank).copied().unwrap_or(Ratio::ONE);
            (rank, slowed(speed, ppm))
        };
        (0..world_size).map(speed).collect()
    }

    /// What is to be told of a plan where not all steps are played.
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

impl<'de> Deserialize<'de> for RankSlowness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let steps = Vec::<Vec<Slowness>>::deserialize(deserializer)?;
        Ok(Self(steps.into_iter().map(|step| step.into_iter().map(|Slowness(ppm)| ppm).collect()).collect()))
    }
}

/// One figure, refused at its place.
struct Slowness(u32);

impl<'de> Deserialize<'de> for Slowness {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = serde_json::Number::deserialize(deserializer)?;
        let ppm = found.as_u64().and_then(|ppm| u32::try_from(ppm).ok());
        let (least, most) = (RankSlowness::LEAST_PPM, RankSlowness::MOST_PPM);
        ppm.filter(|ppm| (least..=most).contains(ppm)).map(Self).ok_or_else(|| {
            serde::de::Error::custom(format_args!(
                "{found} is no slowness: what a rank took, in millionths of its mean, is a whole number from {least} to {most}"
            ))
        })
    }
}

impl Predicted {
    /// How much longer a step in this world is in the mean for ranks that are as slow in turn as they were when they were
    /// measured, nanoseconds; 0 where that was not measured.
    ///
    /// The mean is over the recorded steps, or of large runs over some of them, which [`Assumption::Played`] tells.
    ///
    /// # Errors
    /// [`ClusterError`] as [`super::WorldStep::new`].
    pub fn straggling_ns(&self, plan: &Plan, world: &Cluster) -> Result<u64, ClusterError> {
        if self.slowness.is_empty() {
            return Ok(0);
        }
        let (program, costs) = (plan.training(), self.near_costs());
        let world_size = u32::try_from(plan.grid().world_size()).unwrap_or(u32::MAX);
        let (mut sum, mut num_played) = (0, 0);
        for step in self.slowness.played(plan.num_instructions_of_world()) {
            let world = Cluster { speeds: self.slowness.speeds(step, world, world_size), ..world.clone() };
            sum += u128::from(simulate(program, &costs, &world)?.makespan());
            num_played += 1;
        }
        let without = simulate(program, &costs, world)?.makespan();
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
