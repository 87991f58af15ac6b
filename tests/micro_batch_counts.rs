//! Schedules with warm-ups, groups and V shapes, at every small number of micro-batches: one, fewer than ranks, a short last
//! group, one rank. All train to the bits of one stage on one rank, and send what the plan says.

use std::collections::BTreeMap;

use pipezero_config::{ResidencyConfig, ZeroConfig, ZeroLevel};
use pipezero_plan::{Plan, Traffic};
use tests::{Case, Mask, NO_ZERO, Sample, Schedule, Trained, assert_bit_identical, small_run, train};

/// For p = 4 and N = 5 these make single micro-batches, short groups, whole groups, and remainders that join.
const NUM_MICRO_BATCHES: std::ops::RangeInclusive<usize> = 1..=7;

fn schedules(pipeline: usize) -> [Schedule; 10] {
    [
        Schedule::Bfs { virtual_stages: 2 },
        Schedule::Bfs { virtual_stages: 3 },
        Schedule::Interleaved { virtual_stages: 2 },
        Schedule::Interleaved { virtual_stages: 3 },
        Schedule::Grouped { virtual_stages: 2, group_size: pipeline + 1 },
        Schedule::Grouped { virtual_stages: 3, group_size: 2 * pipeline },
        Schedule::Eager,
        Schedule::ZbH1,
        Schedule::ZbH2,
        Schedule::ZbV,
    ]
}

/// Nothing sharded; and units that are gathered and freed, with gradients reduced every micro-batch.
fn sharding() -> [(usize, ZeroConfig); 2] {
    let zero3 = tests::zero(ZeroLevel::Zero3, ResidencyConfig::Units(2), 1);
    [(1, NO_ZERO), (2, zero3)]
}

#[test]
fn every_number_of_micro_batches_trains_to_the_bits_of_one_stage() {
    let mut references = BTreeMap::new();
    let mut sample = Sample::one_in(4, "schedule x number of micro-batches, to the bits of one stage");
    for (data, zero) in sharding() {
        for pipeline in 1..=4 {
            for schedule in schedules(pipeline) {
                for num_micro_batches in NUM_MICRO_BATCHES {
                    if !sample.takes_next() {
                        continue;
                    }
                    let grid = Case { pipeline, data, num_micro_batches, schedule, ..Case::ONE_RANK };
                    // A block for each of the most stages.
                    let case = Case { zero: zero.clone(), num_layers: 3 * pipeline, ..grid };
                    let key = (data, pipeline, num_micro_batches);
                    let wanted = references
                        .entry(key)
                        .or_insert_with(|| train(small_run(case.clone().reference()), Mask::Uneven));
                    assert_trains_to(wanted, case);
                }
            }
        }
    }
    assert_eq!(sample.num_cases(), 2 * 4 * 10 * NUM_MICRO_BATCHES.count());
}

fn assert_trains_to(wanted: &Trained, case: Case) {
    let name = format!("{case:?}");
    wanted.assert_clipped(&name);
    let plan = Plan::even_if_refused(small_run(case)).expect("a valid run");
    let planned: Vec<Traffic> = plan.forecast().into_iter().map(|rank| rank.traffic).collect();
    let trained = tests::train_plan(plan, Mask::Uneven);
    assert_bit_identical(&trained, wanted, &name);
    assert_eq!(trained.last.traffic(), planned, "{name}");
}
