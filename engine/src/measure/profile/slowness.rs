//! By how much each rank was off the means in each step.

use super::facts::Facts;
use super::recording::RecordedStep;
use super::totals::Totals;
use crate::plan::costs::RankSlowness;

/// What all computes of a rank took in each step, beside what the same computes take in the mean.
pub(super) fn of(facts: &Facts<'_>, steps: &[RecordedStep], totals: &Totals) -> RankSlowness {
    RankSlowness::new(steps.iter().map(|step| {
        let ranks =
            facts.pipeline_ranks().flat_map(|rank| facts.members(rank).map(move |member| (rank, member)));
        let took = |(rank, member): (_, usize)| {
            let row = facts.program().row(rank).iter().zip(&step.rows[member]);
            row.fold([0, 0], |[took, mean], (&instruction, instants)| {
                match totals.of_compute(facts, instruction) {
                    Some(of) => [took + u128::from(instants.duration()), mean + u128::from(of)],
                    None => [took, mean],
                }
            })
        };
        ranks.map(took).collect()
    }))
}
