//! A step that went exactly as predicted shows no difference; one that did not shows each difference exactly.

use pipezero_plan::Plan;
use pipezero_schedule::simulate::{Costs, simulate};
use proptest::prelude::*;

use super::path::critical;
use super::{Comparison, Part, Prediction, observed_costs};
use crate::recording::Recording;
use crate::recording::testing::{costs, planned, plans, step};

fn compared(plan: &Plan, recorded: Recording<'_>, costs: Costs) -> Comparison {
    let peaks: Vec<u64> = plan.forecast().iter().map(|rank| rank.memory.peak).collect();
    let prediction = Prediction::new(plan, costs, 0).unwrap();
    Comparison::new(&[recorded], &prediction, &peaks)
}

/// The spans of a step are those of its prediction, but for messages that lay there until they were awaited.
#[test]
fn a_measured_timeline_has_the_spans_of_the_prediction() {
    for (seed, plan) in (0..).zip(plans()) {
        let costs = costs(&plan, seed, 2_000_000);
        let predicted = simulate(plan.training(), &costs).unwrap();
        let recorded = step(&plan, &costs);
        assert_eq!(recorded.makespan_ns(), predicted.makespan());
        for timeline in recorded.timelines() {
            for rank in plan.training().ranks() {
                let pairs = timeline.row(rank).iter().zip(predicted.row(rank)).zip(plan.training().row(rank));
                for ((measured, predicted), instruction) in pairs {
                    if instruction.lane() == pipezero_schedule::Lane::Compute {
                        assert_eq!(measured, predicted, "{instruction}");
                    } else {
                        assert!(measured.end >= predicted.end && measured.start <= predicted.start);
                    }
                }
            }
        }
    }
}

/// Two ways of accounting, one over predicted spans and one over recorded times, agree to the nanosecond.
#[test]
fn what_went_as_predicted_has_no_error_anywhere() {
    let mut num_waits = 0;
    for (seed, plan) in (0..).zip(plans()) {
        let costs = costs(&plan, seed, 2_000_000);
        let found = compared(&plan, step(&plan, &costs), costs);
        assert_eq!(found.step.predicted_ns, found.step.measured_ns);
        for rank in &found.ranks {
            assert_eq!(rank.busy.predicted_ns, rank.busy.measured_ns, "rank {}", rank.rank);
            let [predicted, measured] =
                [0, 1].map(|of| rank.bubble.0.map(|cause| [cause.predicted_ns, cause.measured_ns][of]));
            // Of several messages that one compute waits for, a prediction names the last, a measurement each.
            let waits = |causes: [u64; 6]| causes[..4].iter().sum::<u64>();
            assert_eq!(waits(predicted), waits(measured), "rank {}", rank.rank);
            assert_eq!(predicted[4..], measured[4..], "rank {}", rank.rank);
            assert_eq!(rank.busy.measured_ns + measured.iter().sum::<u64>(), found.program.measured_ns);
            num_waits += usize::from(waits(measured) > 0);
        }
        for kind in found.kinds.iter().filter(|kind| kind.part != Part::Way) {
            assert_eq!(kind.total.predicted_ns, kind.total.measured_ns, "{}", kind.kind);
        }
        assert!(found.path_parts > 8);
        assert!(found.partings.iter().all(|parting| parting.later_ns == 0), "{:?}", found.partings);
    }
    assert!(num_waits > 20, "only {num_waits} ranks waited for messages");
}

/// The prices of a perfect machine are found again, and so is its step.
#[test]
fn a_step_predicted_from_its_own_costs_takes_as_long() {
    for (seed, plan) in (0..).zip(plans()) {
        let costs = costs(&plan, seed, 2_000_000);
        let recorded = step(&plan, &costs);
        let observed = observed_costs(&plan, std::slice::from_ref(&recorded));
        for (observed, unit) in observed.units.iter().zip(&costs.units) {
            assert_eq!(observed.forward, unit.forward);
            let has = |observed: u64, price: u64| observed == price || observed == 0;
            assert!(
                has(observed.backward, unit.backward) && has(observed.backward_weight, unit.backward_weight)
            );
            assert!(has(observed.gather.issue, unit.gather.issue));
            assert!(has(observed.reduce.landing, unit.reduce.landing));
            assert!(has(observed.reduce_last.landing, unit.reduce_last.landing));
        }
        assert_eq!(observed.gradient_norm, costs.gradient_norm);
        let predicted = simulate(plan.training(), &observed).unwrap().makespan() as f64;
        // A way is not known if no rank waited for it or if it began in a queue: these are small here.
        let error = predicted / recorded.makespan_ns() as f64 - 1.0;
        assert!(error.abs() < 0.02, "{error} with seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever was predicted, the differences along the critical path are all of the error.
    #[test]
    fn the_differences_along_the_path_add_up_to_the_error(
        which in 0..10_usize, seeds in [0..1_000_u64, 0..1_000], message_ns in [0..5_000_000_u64, 0..5_000_000],
    ) {
        let plan = plans().swap_remove(which);
        let [predicted, real] = [0, 1].map(|of| costs(&plan, seeds[of], message_ns[of]));
        let recorded = step(&plan, &real);
        let predicted = simulate(plan.training(), &predicted).unwrap();
        let path = critical(&recorded, &predicted);
        let last = path.last().expect("a step has a last instruction");
        prop_assert_eq!(last.measured_end_ns, recorded.makespan_ns());
        let sum: i64 = path.iter().map(|parting| parting.later_ns).sum();
        prop_assert_eq!(sum, last.measured_end_ns as i64 - last.predicted_end_ns as i64);
        prop_assert!(path.is_sorted_by_key(|parting| parting.measured_end_ns));
    }
}

/// One slow unit on the critical path is found, by name and to the nanosecond.
#[test]
fn a_slow_unit_is_where_the_two_part() {
    let plan = planned("parallel.pipeline=1 parallel.data=1 zero_optimization.stage=0");
    let expected = costs(&plan, 1, 0);
    let mut real = expected.clone();
    real.units[3].forward += 77_000;
    let found = compared(&plan, step(&plan, &real), expected);
    let parted: Vec<_> = found.partings.iter().filter(|parting| parting.later_ns != 0).collect();
    let names: Vec<&str> = parted.iter().map(|parting| parting.instruction.as_str()).collect();
    assert_eq!(names, ["F u3 m0", "F u3 m1", "F u3 m2", "F u3 m3"]);
    assert!(parted.iter().all(|parting| parting.later_ns == 77_000));
}
