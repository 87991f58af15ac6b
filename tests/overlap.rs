//! When gathers are issued and completed relative to the computes that could hide them, by recorded order.
//!
//! A rank that prefetches issues the gather of its next use before its current use begins, and does not wait for it
//! before that one has ended: the whole compute lies between. Without prefetch nothing does.

use pipezero_config::{ResidencyConfig, Run, ZeroConfig, ZeroLevel};
use pipezero_run::engine::Engine;
use tests::{Case, Mask, Schedule, WeightOrder, small_run, started, zero};

fn zero3(resident_units: ResidencyConfig, prefetch_units: usize) -> ZeroConfig {
    zero(ZeroLevel::Zero3, resident_units, prefetch_units)
}

/// The recorded weights of every rank in the second step of runs on several grids, one, several and fewer micro-batches
/// than stages. Every stage has two units at least: a rank of a single one has nothing to fetch ahead.
fn orders(zero: ZeroConfig) -> Vec<(String, WeightOrder)> {
    let mut orders = Vec::new();
    for (pipeline, data, num_micro_batches) in [(1, 2, 3), (2, 2, 1), (2, 2, 5), (4, 2, 3), (4, 1, 8)] {
        for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
            for tied in [false, true] {
                let grid = Case { pipeline, data, num_micro_batches, schedule, ..Case::ONE_RANK };
                let case = Case { zero: zero.clone(), tied, num_layers: 2 * pipeline.max(3), ..grid };
                orders.extend(recorded(small_run(case.clone()), &format!("{case:?}")));
            }
        }
    }
    orders
}

fn recorded(run: Run, case: &str) -> Vec<(String, WeightOrder)> {
    let mut engine = started(Engine::recording, run, Mask::None);
    engine.train_batch().expect("a step");
    let report = engine.train_batch().expect("a step");
    let orders = WeightOrder::of_ranks(&engine, &report).into_iter().enumerate();
    orders.map(|(rank, order)| (format!("rank {rank} of {case}"), order)).collect()
}

/// For every gather but those before the first use: when it was issued and collected, and when the use before the one
/// that it is for began and ended.
fn assert_gathers(zero: ZeroConfig, is_expected: impl Fn(Gather) -> bool) {
    let mut num_gathers = 0;
    for (case, order) in orders(zero) {
        for copy in order.copies.iter().filter(|copy| copy.uses[0] > 0) {
            let before = order.uses[copy.uses[0] - 1];
            let gather = Gather {
                issued: copy.issued,
                collected: copy.collected,
                use_before_started: before.started,
                use_before_ended: before.ended,
            };
            assert!(is_expected(gather), "{gather:?} of {} in {case}", copy.unit);
            num_gathers += 1;
        }
    }
    assert!(num_gathers > 500, "only {num_gathers} gathers were looked at");
}

#[derive(Clone, Copy, Debug)]
struct Gather {
    issued: usize,
    collected: usize,
    use_before_started: usize,
    use_before_ended: usize,
}

/// The whole compute of the use before lies between issue and collection.
fn is_hidden(gather: Gather) -> bool {
    gather.issued < gather.use_before_started && gather.use_before_ended < gather.collected
}

/// Issued only when there is nothing left to hide behind.
fn is_exposed(gather: Gather) -> bool {
    gather.use_before_ended < gather.issued
}

#[test]
fn with_prefetch_every_gather_but_the_first_spans_the_compute_before_its_use() {
    assert_gathers(zero3(ResidencyConfig::Strict, 1), is_hidden);
    assert_gathers(zero3(ResidencyConfig::Units(2), 1), is_hidden);
}

#[test]
fn without_prefetch_no_gather_is_issued_before_the_previous_compute_has_ended() {
    assert_gathers(zero3(ResidencyConfig::Strict, 0), is_exposed);
    assert_gathers(zero3(ResidencyConfig::Units(1), 0), is_exposed);
}

/// What the residency promises, of what was recorded: the first strict, the second by its budget.
#[test]
fn no_more_copies_exist_at_once_than_the_budget_allows() {
    for (zero, budget) in [
        (zero3(ResidencyConfig::Strict, 0), 1),
        (zero3(ResidencyConfig::Strict, 1), 2),
        (zero3(ResidencyConfig::Units(1), 0), 1),
        (zero3(ResidencyConfig::Units(2), 1), 2),
        (zero3(ResidencyConfig::Units(3), 1), 3),
    ] {
        let held: Vec<usize> = orders(zero.clone()).iter().map(|(_, order)| order.num_held_max()).collect();
        assert_eq!(held.iter().max(), Some(&budget), "{zero:?}");
    }
}
