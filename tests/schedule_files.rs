//! The user's own orders, from PyTorch's CSV: placements that no generator makes, with stages that follow each other on one
//! rank, give the bits of one pipeline rank, and hold and send what the plan says.

use std::path::PathBuf;
use std::sync::Arc;

use pipezero_config::{Checkpointing, Precision, ResidencyConfig, Run, ScheduleConfig, ZeroLevel};
use pipezero_plan::Plan;
use pipezero_run::engine::Engine;
use pipezero_schedule::ComputeOrder;
use tests::{
    Case, Mask, SGD, assert_as_planned, assert_bit_identical, assert_close, plan_and_batches, small_run,
    train, train_with, zero,
};

/// In which order a stage runs its backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backwards {
    /// Micro-batches ascending, each as soon as it can be.
    Ascending,
    /// Descending, after all forwards.
    Descending,
}

/// An order as text: in each turn a rank runs what it can, a backward before a forward, a later stage before an earlier
/// one. `ranks[s]` is the rank of stage `s`.
fn csv(ranks: &[usize], num_micro_batches: usize, backwards: Backwards) -> String {
    let num_stages = ranks.len();
    let num_ranks = ranks.iter().max().expect("some stage") + 1;
    let mut rows = vec![Vec::new(); num_ranks];
    let mut num_forwards = vec![0; num_stages];
    let mut num_backwards = vec![0; num_stages];
    while num_backwards[0] < num_micro_batches {
        let (forwards_before, backwards_before) = (num_forwards.clone(), num_backwards.clone());
        let can_go_down = |stage: usize| {
            let done = backwards_before[stage];
            let needed = if backwards == Backwards::Ascending { done + 1 } else { num_micro_batches };
            done < num_micro_batches
                && forwards_before[stage] >= needed
                && backwards_before.get(stage + 1).is_none_or(|&later| later > done)
        };
        let can_go_up = |stage: usize| {
            let done = forwards_before[stage];
            done < num_micro_batches && (stage == 0 || forwards_before[stage - 1] > done)
        };
        for (rank, row) in rows.iter_mut().enumerate() {
            let mut own = (0..num_stages).filter(|&stage| ranks[stage] == rank).rev();
            row.push(if let Some(stage) = own.clone().find(|&stage| can_go_down(stage)) {
                let done = num_backwards[stage];
                num_backwards[stage] += 1;
                let last = num_micro_batches - 1;
                format!("{stage}B{}", if backwards == Backwards::Ascending { done } else { last - done })
            } else if let Some(stage) = own.find(|&stage| can_go_up(stage)) {
                num_forwards[stage] += 1;
                format!("{stage}F{}", num_forwards[stage] - 1)
            } else {
                String::new()
            });
        }
    }
    rows.iter().map(|row| row.join(",") + "\n").collect()
}

/// The order with every backward split and its weight gradient held back until the next input gradient of the rank, or the
/// end.
fn split(text: &str) -> String {
    let split_row = |row: &str| {
        let mut waiting: Option<String> = None;
        let mut split = Vec::new();
        for action in row.split(',') {
            if action.contains('B') {
                split.push(action.replace('B', "I"));
                split.extend(waiting.replace(action.replace('B', "W")));
            } else {
                split.push(action.to_owned());
            }
        }
        split.extend(waiting);
        split.join(",") + "\n"
    };
    text.lines().map(split_row).collect()
}

/// The run with this order, as the run file's resolution would have it.
fn with_file(run: Run, text: &str) -> Run {
    let order = ComputeOrder::from_csv(text).expect("a schedule");
    let stages = order.placement.ranks().map(|rank| order.placement.stages(rank).count());
    let mut run = run;
    run.parallel.virtual_stages = stages.max().expect("some rank");
    run.parallel.schedule = ScheduleConfig::File { path: PathBuf::from("own.csv"), order: Arc::new(order) };
    run
}

/// V and W shapes, all stages on one rank, neighbours on one rank, a rank with one stage more than the other.
const PLACEMENTS: [&[usize]; 9] = [
    &[1, 0],
    &[0, 1, 1, 0],
    &[0, 1, 2, 2, 1, 0],
    &[0, 1, 1, 0, 0, 1],
    &[0, 0, 0],
    &[0, 0, 1, 1],
    &[0, 1, 0],
    &[1, 0, 0, 1],
    &[0, 1, 1, 2],
];

/// What may meet the hand-over of activations and gradients within a rank.
fn cases() -> [Case; 5] {
    use ResidencyConfig::{Strict, Units};
    let base = Case { num_micro_batches: 5, num_layers: 6, ..Case::ONE_RANK };
    let zero3 = zero(ZeroLevel::Zero3, Units(2), 1);
    [
        base.clone(),
        Case { data: 2, zero: zero3.clone(), ..base },
        Case { data: 2, zero: zero(ZeroLevel::Zero1, Strict, 0), tied: true, ..base },
        Case { zero: zero3, tied: true, checkpointing: Checkpointing::Unit, dropout: 0.1, ..base },
        Case { data: 2, zero: zero(ZeroLevel::Zero3, Strict, 2), precision: Precision::Bf16, ..base },
    ]
}

#[test]
fn ascending_orders_on_any_placement_give_the_bits_of_one_pipeline_rank_whole_and_split() {
    for case in cases() {
        let wanted = train(small_run(reference_of(case.clone())), Mask::Uneven);
        for ranks in PLACEMENTS {
            let pipeline = ranks.iter().max().expect("some stage") + 1;
            let whole = csv(ranks, case.num_micro_batches, Backwards::Ascending);
            // What is recomputed is run through backward at once.
            let halves = (case.checkpointing == Checkpointing::Off).then(|| split(&whole));
            for (text, is_split) in [(whole, false)].into_iter().chain(halves.map(|text| (text, true))) {
                let run = with_file(small_run(Case { pipeline, ..case.clone() }), &text);
                let plan = Plan::even_if_refused(run.clone()).expect("a valid run");
                assert!(plan.order().is_ascending() && plan.order().placement.num_stages() == ranks.len());
                assert_eq!(plan.order().first_half().is_some(), is_split);
                let name = format!("{ranks:?} in {case:?}, split: {is_split}");
                assert_bit_identical(&train(run.clone(), Mask::Uneven), &wanted, &name);
                assert_planned(run, &name);
            }
        }
    }
}

/// One pipeline rank that reduces as the case does, and recomputes nothing.
fn reference_of(case: Case) -> Case {
    let level = if case.zero.level == ZeroLevel::Zero3 { ZeroLevel::Zero2 } else { ZeroLevel::Zero0 };
    Case { zero: zero(level, ResidencyConfig::Strict, 0), checkpointing: Checkpointing::Off, ..case }
}

/// Memory and traffic as planned, though some edges lead nowhere.
fn assert_planned(run: Run, name: &str) {
    let (plan, source) = plan_and_batches(run, Mask::None);
    let planned = plan.forecast();
    let mut engine = Engine::new(plan, source).expect("ranks start");
    let report = engine.train_batch().expect("a step");
    assert_as_planned(&report.measured(), &planned, name);
}

/// A schedule whose backwards descend adds gradients in another order. The first loss is of the same weights, so of the
/// same bits; after that f32 rounds differently, a few units in the last place over five steps. With SGD, since AdamW turns
/// the rounding of gradients near zero into steps.
#[test]
fn descending_backwards_train_without_the_promise_of_equal_bits() {
    let run = |case: Case| Run { optimizer: SGD, ..small_run(case) };
    for case in cases().into_iter().filter(|case| case.precision == Precision::F32) {
        let ascending = train(run(reference_of(case.clone())), Mask::Uneven);
        let text = csv(&[0, 1, 1, 0], case.num_micro_batches, Backwards::Descending);
        let descending = with_file(run(Case { pipeline: 2, ..case.clone() }), &text);
        let (plan, source) = plan_and_batches(descending, Mask::Uneven);
        assert!(!plan.order().is_ascending());
        let descending = train_with(plan, source, |_| {});
        assert_eq!(descending.losses[0].to_bits(), ascending.losses[0].to_bits(), "{case:?}");
        assert_ne!(descending.weights, ascending.weights, "the order of additions is another: {case:?}");
        assert_close(&descending, &ascending, 1e-5, &format!("{case:?}"));
    }
}
