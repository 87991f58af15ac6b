//! Persistent parameters: whole between uses, never gathered during a step, gathered once after it; the same bits.

use std::collections::BTreeMap;

use pipezero_config::{Precision, ReductionPolicy, ResidencyConfig, UnitSharding, ZeroConfig, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::engine::Engine;
use pipezero_schedule::{Instruction, PipelineRank, Unit};
use tests::{Case, Mask, Schedule, assert_bit_identical, plan_and_batches, small_run, train, zero};

/// Thresholds of a parameter and of the model, and how many parameters persist, with how many elements.
struct Thresholds {
    param: u64,
    model: u64,
    num_persistent: usize,
    num_elements: u64,
}

/// Of 5 blocks of 1884 elements, in units of one. Each has 12 elements in six norms and biases, 36 and 48 in two biases, 144, 432 and twice 576 in
/// matrices; positions have 72, the tables 204, the final norm twice 12.
fn thresholds(tied: bool) -> [Thresholds; 8] {
    let num_tables = if tied { 1 } else { 2 };
    let thresholds = |param, model, num_persistent, num_elements| Thresholds {
        param,
        model,
        num_persistent,
        num_elements,
    };
    let (norms_and_biases, of_blocks) = (5 * 8 + 2, 5 * (6 * 12 + 36 + 48));
    let tables = 204 * num_tables as u64;
    [
        thresholds(0, u64::MAX, 0, 0),
        // In the third block the bias of 36 would exceed the model's threshold, and one of 12 behind it does not.
        thresholds(48, 2 * 156 + 40, 2 * 8 + 3, 2 * 156 + 3 * 12),
        thresholds(48, u64::MAX, norms_and_biases, of_blocks + 24),
        thresholds(100, u64::MAX, norms_and_biases + 1, of_blocks + 24 + 72),
        // The table counts once, though it is used twice.
        thresholds(300, u64::MAX, norms_and_biases + 6 + num_tables, of_blocks + 24 + 72 + 5 * 144 + tables),
        thresholds(600, 204 + 72 + 1884, 14, 204 + 72 + 1884),
        // Of the third block and the fourth what still fits.
        thresholds(600, 5000, 14 + 12 + 10 + 5, 204 + 72 + 2 * 1884 + 732 + 216),
        thresholds(600, u64::MAX, 5 * 12 + 3 + num_tables, 5 * 1884 + 24 + 72 + tables),
    ]
}

/// Units without anything sharded.
fn whole_units(plan: &Plan) -> Vec<Unit> {
    let units = plan.units().iter().enumerate().filter(|(_, unit)| !unit.is_sharded());
    units.map(|(index, _)| Unit(index as u32)).collect()
}

/// Whether something of a unit persists.
fn keeps(plan: &Plan, unit: Unit) -> bool {
    plan.unit(unit).parts.iter().any(|part| part.sharding == UnitSharding::Persistent)
}

/// Elements of the parameters that persist, by name.
fn persistent(plan: &Plan) -> BTreeMap<String, u64> {
    let mut elements = BTreeMap::new();
    for unit in plan.units() {
        for (number, part) in unit.parts.iter().enumerate() {
            if part.sharding == UnitSharding::Persistent {
                let own = unit.unit.entries_of(number);
                elements.extend(own.map(|of| (of.spec.name.clone(), of.spec.num_elements() as u64)));
            }
        }
    }
    elements
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
fn thresholds_make_the_parameters_persistent_that_they_say_and_change_no_bit() {
    for case in cases() {
        let wanted = train(small_run(case.clone()), Mask::Uneven);
        for thresholds in thresholds(case.tied) {
            let case = with(case.clone(), &thresholds);
            let plan = Plan::even_if_refused(small_run(case.clone())).expect("a valid run");
            let persistent = persistent(&plan);
            let found = (persistent.len(), persistent.values().sum());
            assert_eq!(found, (thresholds.num_persistent, thresholds.num_elements), "{case:?}");
            assert_bit_identical(
                &train(small_run(case.clone()), Mask::Uneven),
                &wanted,
                &format!("{case:?}"),
            );
        }
    }
}

#[test]
fn what_persists_is_gathered_once_in_the_tail_and_never_in_a_step() {
    for case in cases() {
        let (mut fewest_during, mut num_whole) = (usize::MAX, 0);
        for thresholds in thresholds(case.tied) {
            let case = with(case.clone(), &thresholds);
            let (plan, source) = plan_and_batches(small_run(case.clone()), Mask::None);
            let (planned, whole) = (plan.forecast(), whole_units(&plan));
            let mut engine = Engine::new(plan, source).expect("ranks start");
            let report = engine.train_batch().expect("a step");
            let mut num_during = 0;
            for (rank, planned) in planned.iter().enumerate() {
                let issued = gathers(&engine, rank);
                let (after, during): (Vec<Unit>, Vec<Unit>) = (issued.after_step, issued.during_step);
                assert!(during.iter().all(|unit| !whole.contains(unit)), "{during:?} in {case:?}");
                let wanted = issued.own.iter().filter(|&&unit| keeps(engine.plan(), unit));
                assert_eq!(after, wanted.copied().collect::<Vec<_>>(), "rank {rank} of {case:?}");
                let traffic = &report.traffic()[rank];
                assert_eq!(traffic, &planned.traffic, "rank {rank} of {case:?}");
                let ledger = engine.ledger(rank);
                assert_eq!(ledger.total_peak_bytes(), planned.memory.peak, "rank {rank} of {case:?}");
                if case.data > 1 {
                    let counted = traffic.all_gather.count;
                    assert_eq!(counted, (after.len() + during.len()) as u64, "rank {rank} of {case:?}");
                }
                num_during += during.len();
            }
            let has_more = whole.len() > num_whole;
            assert!(num_during < fewest_during || !has_more, "{num_during} gathers in a step of {case:?}");
            (fewest_during, num_whole) = (num_during, whole.len());
        }
    }
}

/// A gather moves the sharded part alone, and its buffer has no room for more.
#[test]
fn with_norms_and_biases_persistent_gathers_and_their_buffers_hold_the_matrices_alone() {
    let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 0);
    let case = Case { pipeline: 1, data: 2, num_micro_batches: 3, zero, ..Case::ONE_RANK };
    let all = Plan::new(small_run(case.clone())).expect("a valid run");
    let thresholds = Thresholds { param: 48, model: u64::MAX, num_persistent: 0, num_elements: 0 };
    let plan = Plan::new(small_run(with(case, &thresholds))).expect("a valid run");
    // A block's matrices are 432 + 144 + 2 x 576 elements and need no padding, its norms and biases 6 x 16 + 48 + 48 with what aligns them, but for
    // the last bias, whose 12 are padded with the shards.
    let block = plan.units().iter().find(|unit| unit.layers.len() == 2).expect("there is a block");
    let lens: Vec<usize> = block.parts.iter().map(|part| part.layout.padded_len()).collect();
    assert_eq!(lens, [1728, 192]);
    let gathered = |plan: &Plan| plan.forecast()[0].memory.gathered;
    let largest = plan.units().iter().map(|unit| 4 * unit.gathered_len() as u64).max();
    assert_eq!(Some(gathered(&plan)), largest);
    assert!(gathered(&plan) < gathered(&all));
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
