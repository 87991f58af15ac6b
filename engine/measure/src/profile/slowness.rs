//! By how much each rank was off the means in each step.

use pipezero_plan::costs::RankSlowness;

use super::facts::Facts;
use super::totals::Totals;
use crate::recording::Recording;

/// What all computes of a rank took in each step, beside what the same computes take in the mean.
pub(super) fn of(facts: &Facts<'_>, steps: &[Recording<'_>], totals: &Totals) -> RankSlowness {
    RankSlowness::new(steps.iter().map(|step| {
        let took = |rank: usize| {
            step.places_of(rank).fold([0, 0], |[took, mean], place| {
                match totals.of_compute(facts, place.instruction) {
                    Some(of) => [took + u128::from(step.times(place).duration_ns()), mean + u128::from(of)],
                    None => [took, mean],
                }
            })
        };
        step.ranks().map(took).collect()
    }))
}
