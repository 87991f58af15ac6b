//! Recomputation costs no gather: what runs a forward again reads the copy that its backward reads, whatever stays
//! gathered. Counted by the engine: messages around the backend, and copies in the order that ranks recorded.

use std::collections::BTreeMap;

use pipezero_config::{Checkpointing, ReductionPolicy, ResidencyConfig, UnitLayers, ZeroConfig, ZeroLevel};
use pipezero_plan::Traffic;
use pipezero_run::engine::Engine;
use tests::{Case, Mask, Schedule, WeightOrder, small_run, started, zero};

const NUM_MICRO_BATCHES: usize = 5;

/// Blocks, two to a unit: on every grid below a stage has two units or more.
const NUM_LAYERS: usize = 16;
const NUM_UNITS: usize = NUM_LAYERS / 2;
const DATA: usize = 2;

const GRIDS: [(usize, Schedule); 5] = [
    (1, Schedule::OneFOneB),
    (2, Schedule::OneFOneB),
    (2, Schedule::Eager),
    (4, Schedule::GPipe),
    (2, Schedule::Interleaved { virtual_stages: 2 }),
];

/// A unit of two blocks is one segment, or two.
const RECOMPUTING: [Checkpointing; 2] = [Checkpointing::Unit, Checkpointing::Layers(1)];

/// Strict without and with prefetch, one unit, some more, all; and gradients that are reduced once.
fn residencies() -> [ZeroConfig; 6] {
    use ResidencyConfig::{All, Strict, Units};
    let zero3 = |resident_units, prefetch_units| ZeroConfig {
        unit_layers: UnitLayers::of_blocks(2).expect("2 is not 0"),
        ..zero(ZeroLevel::Zero3, resident_units, prefetch_units)
    };
    [
        zero3(Strict, 0),
        zero3(Strict, 1),
        zero3(Units(1), 0),
        zero3(Units(3), 1),
        zero3(All, 0),
        ZeroConfig { reduce: ReductionPolicy::Last, ..zero3(Units(2), 0) },
    ]
}

fn cases() -> impl Iterator<Item = Case> {
    let grids = GRIDS.into_iter().flat_map(|grid| [false, true].map(|tied| (grid, tied)));
    grids.flat_map(|((pipeline, schedule), tied)| {
        residencies().map(|zero| Case {
            pipeline,
            data: DATA,
            num_micro_batches: NUM_MICRO_BATCHES,
            schedule,
            zero,
            tied,
            num_layers: NUM_LAYERS,
            ..Case::ONE_RANK
        })
    })
}

/// What a step of a run has sent, and what its ranks did with their weights.
fn counted(case: Case) -> (Vec<Traffic>, Vec<WeightOrder>) {
    let mut engine = started(Engine::recording, small_run(case), Mask::None);
    let report = engine.train_batch().expect("a step");
    (report.traffic(), WeightOrder::of_ranks(&engine, &report))
}

/// Of every unit and micro-batch, the copies that its uses read, in order.
fn copies_read(order: &WeightOrder) -> Vec<Vec<usize>> {
    let copies = order.copies.iter().enumerate();
    let copy_of: BTreeMap<usize, usize> =
        copies.flat_map(|(index, copy)| copy.uses.iter().map(move |&at| (at, index))).collect();
    let mut read: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, weight_use) in order.uses.iter().enumerate() {
        read.entry((weight_use.unit, weight_use.micro_batch)).or_default().push(copy_of[&at]);
    }
    read.into_values().collect()
}

/// The uses of units that are used three times for a micro-batch: forward, recomputation and backward, which is to read
/// what the recomputation read.
fn num_recomputed(orders: &[WeightOrder], case: Case) -> usize {
    let mut num_recomputed = 0;
    for read in orders.iter().flat_map(copies_read).filter(|read| read.len() > 2) {
        let [_, recomputation, backward] = read[..] else {
            panic!("a unit is used {} times for a micro-batch in {case:?}", read.len());
        };
        assert_eq!(recomputation, backward, "copies in {case:?}");
        num_recomputed += 1;
    }
    num_recomputed
}

#[test]
fn recomputation_reads_the_copy_of_its_backward_and_sends_nothing_more() {
    for case in cases() {
        let (wanted, orders) = counted(case.clone());
        assert_eq!(num_recomputed(&orders, case.clone()), 0, "{case:?}");
        for checkpointing in RECOMPUTING {
            let case = Case { checkpointing, ..case.clone() };
            let (traffic, orders) = counted(case.clone());
            assert_eq!(traffic, wanted, "{case:?}");
            assert_eq!(
                num_recomputed(&orders, case.clone()),
                NUM_UNITS * NUM_MICRO_BATCHES * DATA,
                "{case:?}"
            );
        }
    }
}

/// By hand: strict gathers a unit for its forward and once more for its backward. Without a tied table every unit reads its
/// weights in both, recomputed or not.
#[test]
fn strict_residency_gathers_a_unit_twice_for_each_micro_batch_and_never_a_third_time() {
    let is_strict = |case: &Case| case.zero.resident_units == ResidencyConfig::Strict && !case.tied;
    for case in cases().filter(is_strict) {
        for checkpointing in [Checkpointing::Off, Checkpointing::Unit, Checkpointing::Layers(1)] {
            let case = Case { checkpointing, ..case.clone() };
            let traffic = counted(case.clone()).0;
            let num_gathers: u64 = traffic.iter().map(|rank| rank.all_gather.count).sum();
            assert_eq!(num_gathers, (2 * NUM_MICRO_BATCHES * NUM_UNITS * DATA) as u64, "{case:?}");
        }
    }
}
