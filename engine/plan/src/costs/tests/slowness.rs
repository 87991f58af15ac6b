//! Ranks that are slow in turn: what they wait for each other.

use pipezero_schedule::simulate::cluster::{Cluster, Ratio};

use super::measured::file_of;
use crate::Plan;
use crate::costs::{Assumption, CostsFile, DeviceSpec, Predicted, RankSlowness, Source, Step, for_plan};
use crate::testing::{GPT2, plan};
use crate::what_if::ClusterStep;

/// Costs of an H100 for ranks that are so slow in each step.
fn predicted(plan: &Plan, steps: &[&[u32]]) -> Predicted {
    let predicted = for_plan(plan, Source::Analytic(&DeviceSpec::by_name("h100").unwrap())).unwrap();
    let of_mean = |&ppm: &u32| [u128::from(ppm), 1_000_000];
    let slowness = RankSlowness::new(steps.iter().map(|step| step.iter().map(of_mean).collect()));
    Predicted { slowness, ..predicted }
}

/// What a step takes if all ranks are so much slower, nanoseconds.
fn all_slower(plan: &Plan, predicted: &Predicted, ppm: u32) -> u64 {
    let alike = Predicted { slowness: RankSlowness::default(), ..predicted.clone() };
    let world = alike.cluster(plan);
    let speeds = (0..plan.grid().world_size() as u32).map(|rank| (rank, Ratio::new(1_000_000, ppm)));
    let world = Cluster { speeds: speeds.collect(), ..world };
    ClusterStep::new(plan, &alike, &world).unwrap().slowest().makespan_ns
}

/// Two data ranks wait for each other at every gather and reduction, and at the end: all go at the speed of the slow one.
#[test]
fn data_ranks_wait_for_the_slow_one() {
    for level in [1, 3] {
        let plan = plan(GPT2, &format!("parallel.pipeline=1 zero_optimization.stage={level}"));
        let predicted =
            predicted(&plan, &[&[1_250_000, 800_000], &[1_000_000, 1_250_000], &[500_000, 1_250_000]]);
        let step = Step::new(&plan, &predicted).unwrap();
        let slow_ns = all_slower(&plan, &predicted, 1_250_000);
        assert!(slow_ns > step.makespan_ns, "{level}");
        assert_eq!(step.straggling_ns, slow_ns - step.makespan_ns, "{level}");
        assert_eq!(step.step_ns(), slow_ns, "{level}");
    }
}

/// What the ranks of a step have in common is longer in one step and shorter in another, and is not waited for.
#[test]
fn steps_that_are_slow_for_all_ranks_cost_nothing_in_the_mean() {
    let plan = plan(GPT2, "");
    let predicted = predicted(&plan, &[&[1_250_000; 4], &[750_000; 4], &[1_000_000; 4]]);
    let step = Step::new(&plan, &predicted).unwrap();
    let sum: u64 =
        [1_250_000, 750_000, 1_000_000].iter().map(|&ppm| all_slower(&plan, &predicted, ppm)).sum();
    assert_eq!(step.straggling_ns, (sum / 3).saturating_sub(step.makespan_ns));
    // Messages that links carry know no slow rank; a thousandth of the step is left of it.
    assert!(step.straggling_ns < step.makespan_ns / 1000, "{} of {}", step.straggling_ns, step.makespan_ns);
}

#[test]
fn nothing_is_waited_for_where_no_rank_is_slow() {
    let plan = plan(GPT2, "");
    let (of_four, of_two): (&[u32], &[u32]) = (&[1_000_000; 4], &[1_000_000; 2]);
    for steps in [&[][..], &[of_four], &[of_two, of_two]] {
        let step = Step::new(&plan, &predicted(&plan, steps)).unwrap();
        assert_eq!((step.straggling_ns, step.step_ns()), (0, step.makespan_ns), "{steps:?}");
    }
}

/// Costs of two ranks serve a run of four: ranks 2 and 3 are as ranks 0 and 1 were one step later.
#[test]
fn further_ranks_take_further_steps() {
    let plan = plan(GPT2, "");
    let of_two = predicted(&plan, &[&[1_100_000, 900_000], &[700_000, 1_300_000]]);
    let four = [[1_100_000, 900_000, 700_000, 1_300_000], [700_000, 1_300_000, 1_100_000, 900_000]];
    let of_four = predicted(&plan, &[&four[0], &four[1]]);
    let straggling_ns =
        |predicted: &Predicted| predicted.straggling_ns(&plan, &predicted.cluster(&plan)).unwrap();
    assert!(straggling_ns(&of_two) > 0);
    assert_eq!(straggling_ns(&of_two), straggling_ns(&of_four));
}

/// Steps left out of the mean are reported, here with a costs file of so many steps that not all of them are played.
#[test]
fn steps_that_are_not_played_are_reported() {
    let plan = plan(GPT2, "");
    let num_instructions: usize = plan.training().program().rows.iter().map(Vec::len).sum();
    // Two data ranks; twenty million instructions at most.
    let num_played = 20_000_000 / (2 * num_instructions);
    let assumptions = |num_recorded: usize| {
        let step = || vec![[1, 1]; 4];
        let file = CostsFile {
            rank_slowness_ppm: RankSlowness::new((0..num_recorded).map(|_| step())),
            ..file_of(&plan)
        };
        for_plan(&plan, Source::Measured(&file)).unwrap().assumptions
    };
    assert_eq!(assumptions(num_played), []);
    let num_recorded = num_played + 1;
    let found = assumptions(num_recorded);
    assert_eq!(found, [Assumption::Played { num_played, num_recorded }]);
    let expected = format!(
        "the time that ranks wait for slow ranks is worked out from {num_played} of {num_recorded} recorded steps, evenly \
         chosen: the run is too large to play them all"
    );
    assert_eq!(found[0].to_string(), expected);
}

/// A rank that was said to be slow is slow in turn around that.
#[test]
fn slowness_comes_on_top_of_a_speed() {
    let plan = plan(GPT2, "parallel.pipeline=1");
    let predicted = predicted(&plan, &[&[1_250_000, 1_000_000]]);
    let half = Ratio::new(1, 2);
    let world = Cluster { speeds: [(0, half)].into(), ..predicted.cluster(&plan) };
    let step = ClusterStep::new(&plan, &predicted, &world).unwrap();
    assert_eq!(step.slowest().makespan_ns, all_slower(&plan, &predicted, 2_000_000));
    assert_eq!(step.slowest().step_ns(), all_slower(&plan, &predicted, 2_500_000));
}

#[test]
fn figures_are_rounded_and_bounded() {
    let of = |took, mean| RankSlowness::new([vec![[took, mean]]]);
    assert_eq!(serde_json::to_string(&of(2, 3)).unwrap(), "[[666667]]");
    assert_eq!(serde_json::to_string(&of(0, 3)).unwrap(), "[[1000]]");
    assert_eq!(serde_json::to_string(&of(u128::from(u64::MAX), 1)).unwrap(), "[[1000000000]]");
    // A rank without computes is as it is in the mean.
    assert_eq!(serde_json::to_string(&of(0, 0)).unwrap(), "[[1000000]]");
}
