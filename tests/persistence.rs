//! Persistent units: whole between uses, never gathered during a step, gathered once after it; the same bits.

use pipezero::config::{Precision, ReductionPolicy, ResidencyConfig, ZeroConfig, ZeroLevel};
use pipezero::plan::Plan;
use pipezero::run::engine::Engine;
use pipezero_schedule::{Instruction, PipelineRank, Unit};
use tests::{Case, Mask, Schedule, assert_bit_identical, plan_and_batches, small_run, train, zero};

/// Thresholds of a parameter and of the model, and how many of the units persist. The tables have 204 elements and join a
/// block where they are untied, a block's largest weight 576, a block 1884 in all.
struct Thresholds {
    param: u64,
    model: u64,
    num_persistent: usize,
}

/// Of 5 blocks in units of one.
fn thresholds(tied: bool) -> [Thresholds; 5] {
    let num_units = if tied { 7 } else { 5 };
    let thresholds = |param, model, num_persistent| Thresholds { param, model, num_persistent };
    [
        thresholds(0, u64::MAX, 0),
        // The table alone, in both its uses.
        thresholds(300, u64::MAX, if tied { 2 } else { 0 }),
        // The table once, though it is used twice; or what begins with it.
        thresholds(600, 204 + 72 + 1884, if tied { 3 } else { 1 }),
        thresholds(600, 5000, if tied { 4 } else { 2 }),
        thresholds(600, u64::MAX, num_units),
    ]
}

fn persistent(plan: &Plan) -> Vec<Unit> {
    let units = plan.units().iter().enumerate().filter(|(_, unit)| !unit.is_sharded());
    units.map(|(index, _)| Unit(index as u32)).collect()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (pipeline, data, schedule) in [
        (1, 2, Schedule::OneFOneB),
        (2, 2, Schedule::OneFOneB),
        (2, 3, Schedule::Interleaved { virtual_stages: 2 }),
        (2, 1, Schedule::GPipe),
    ] {
        for tied in [false, true] {
            for (residency, prefetch) in [(ResidencyConfig::Strict, 1), (ResidencyConfig::Units(2), 0)] {
                let zero = zero(ZeroLevel::Zero3, residency, prefetch);
                let grid = Case { pipeline, data, schedule, num_micro_batches: 3, ..Case::ONE_RANK };
                cases.push(Case { zero: zero.clone(), tied, ..grid });
                let zero = ZeroConfig { reduce: ReductionPolicy::Last, ..zero };
                cases.push(Case { zero, tied, precision: Precision::Bf16, ..grid });
            }
        }
    }
    cases
}

fn with(case: Case, thresholds: &Thresholds) -> Case {
    let zero = ZeroConfig {
        param_persistence_threshold: thresholds.param,
        model_persistence_threshold: thresholds.model,
        ..case.zero
    };
    Case { zero, ..case }
}

#[test]
fn thresholds_make_the_units_persistent_that_they_say_and_change_no_bit() {
    for case in cases() {
        let wanted = train(small_run(case.clone()), Mask::Uneven);
        for thresholds in thresholds(case.tied) {
            let case = with(case.clone(), &thresholds);
            let plan = Plan::even_if_refused(small_run(case.clone())).expect("a valid run");
            assert_eq!(persistent(&plan).len(), thresholds.num_persistent, "{case:?}");
            assert_bit_identical(
                &train(small_run(case.clone()), Mask::Uneven),
                &wanted,
                &format!("{case:?}"),
            );
        }
    }
}

#[test]
fn a_persistent_unit_is_gathered_once_in_the_tail_and_never_in_a_step() {
    for case in cases() {
        let (mut fewest_during, mut fewest, mut num_persistent) = (usize::MAX, usize::MAX, 0);
        for thresholds in thresholds(case.tied) {
            let case = with(case.clone(), &thresholds);
            let (plan, source) = plan_and_batches(small_run(case.clone()), Mask::None);
            let persistent = persistent(&plan);
            let mut engine = Engine::new(plan, source).expect("ranks start");
            let report = engine.train_batch().expect("a step");
            let (mut num_during, mut num_gathers) = (0, 0);
            for rank in 0..engine.plan().grid().world_size() {
                let issued = gathers(&engine, rank);
                let (after, during): (Vec<Unit>, Vec<Unit>) = (issued.after_step, issued.during_step);
                assert!(during.iter().all(|unit| !persistent.contains(unit)), "{during:?} in {case:?}");
                let wanted = issued.own.iter().filter(|unit| persistent.contains(unit));
                assert_eq!(after, wanted.copied().collect::<Vec<_>>(), "rank {rank} of {case:?}");
                if case.data > 1 {
                    let counted = report.traffic()[rank].all_gather.count;
                    assert_eq!(counted, (after.len() + during.len()) as u64, "rank {rank} of {case:?}");
                }
                num_during += during.len();
                num_gathers += during.len() + after.len();
            }
            assert!(num_gathers <= fewest, "{num_gathers} gathers in {case:?}");
            let has_more = persistent.len() > num_persistent;
            assert!(num_during < fewest_during || !has_more, "{num_during} gathers in a step of {case:?}");
            (fewest_during, fewest, num_persistent) = (num_during, num_gathers, persistent.len());
        }
    }
}

/// The gathers of a rank's row, those after the step by unit, and the units with weights of their own on the rank.
struct Gathers {
    during_step: Vec<Unit>,
    after_step: Vec<Unit>,
    own: Vec<Unit>,
}

fn gathers(engine: &Engine, rank: usize) -> Gathers {
    let plan = engine.plan();
    let pipeline_rank = PipelineRank(plan.grid().pipeline_rank(rank) as u32);
    let row = plan.training().row(pipeline_rank);
    let mut after_step: Vec<Unit> = Vec::new();
    let mut during_step = Vec::new();
    for &instruction in row {
        match instruction {
            Instruction::Unshard { unit } => during_step.push(unit),
            Instruction::GatherAfterStep { unit } => after_step.push(unit),
            _ => {}
        }
    }
    after_step.sort_unstable();
    let ids: Vec<Unit> = plan.units_of(pipeline_rank).map(|(unit, _)| unit).collect();
    // A head on the rank of its embedding has no weights of its own.
    let owned: Vec<Unit> = plan.owned_units().map(|(unit, _)| unit).collect();
    let has_weights = |unit: &Unit| owned.contains(unit) || !ids.contains(&Unit(0));
    let own = ids.iter().copied().filter(has_weights).collect();
    Gathers { during_step, after_step, own }
}
