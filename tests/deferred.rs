//! A device whose kernels run later than they are asked for, in a random order that only events bound, gives the bits of the host. An
//! event that is left out is found.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipezero::config::{Checkpointing, Precision, ReductionPolicy, ResidencyConfig, ZeroConfig, ZeroLevel};
use pipezero::models::queue::Deferred;
use tests::{
    Case, FP16, Mask, Sample, Schedule, Trained, assert_bit_identical, in_full, small_run, train, train_on,
    zero,
};

/// Orders that each case is run in.
const SEEDS: u64 = 20;

/// Every kind of operation between ranks, and every schedule that uses buffers in another way.
fn cases() -> Vec<Case> {
    use ZeroLevel::{Zero1, Zero2, Zero3};
    let strict = zero(Zero3, ResidencyConfig::Strict, 1);
    let grid = Case { pipeline: 2, data: 2, num_micro_batches: 3, zero: strict, ..Case::ONE_RANK };
    let interleaved = Schedule::Interleaved { virtual_stages: 2 };
    vec![
        grid,
        Case { tied: true, precision: Precision::Bf16, ..grid },
        Case { zero: zero(Zero3, ResidencyConfig::Units(4), 2), checkpointing: Checkpointing::Unit, ..grid },
        Case { zero: ZeroConfig { reduce: ReductionPolicy::Last, ..strict }, tied: true, ..grid },
        Case { zero: zero(Zero1, ResidencyConfig::Units(1), 0), schedule: Schedule::GPipe, ..grid },
        Case {
            pipeline: 1,
            data: 3,
            zero: zero(Zero2, ResidencyConfig::Units(1), 0),
            precision: FP16,
            ..grid
        },
        Case { zero: tests::NO_ZERO, schedule: Schedule::ZbH1, dropout: 0.1, ..grid },
        Case { schedule: interleaved, num_micro_batches: 4, ..grid },
        Case { pipeline: 4, data: 1, schedule: Schedule::Eager, num_micro_batches: 5, ..grid },
        Case { schedule: Schedule::ZbV, tied: true, ..grid },
    ]
}

fn run(case: Case) -> pipezero::config::Run {
    pipezero::config::Run { steps: 2, ..small_run(case) }
}

#[test]
fn every_order_that_events_allow_gives_the_bits_of_the_host() {
    let mut sample = Sample::one_in(5, "order of a device's queues, to the bits of the host");
    for case in cases() {
        let seeds: Vec<u64> = (0..SEEDS).filter(|_| sample.takes_next()).collect();
        let host = train(run(case), Mask::Uneven);
        for seed in seeds {
            let device = Arc::new(Deferred::new(seed));
            let deferred = train_on(device, run(case), Mask::Uneven).expect("it trains as the host does");
            assert_bit_identical(&deferred, &host, &format!("seed {seed} of {case:?}"));
        }
    }
}

/// Whether a run without some event fails, or gives other bits than the host.
fn is_found(device: Deferred, case: Case, host: &Trained) -> bool {
    match train_on(Arc::new(device), run(case), Mask::Uneven) {
        Err(_) => true,
        Ok(other) => {
            let bits = |trained: &Trained| {
                let losses = trained.losses.iter().chain(&trained.norms).map(|value| value.to_bits());
                let weights = trained.weights.values().flatten().map(|value| u64::from(value.to_bits()));
                losses.chain(weights).collect::<Vec<_>>()
            };
            bits(&other) != bits(host)
        }
    }
}

/// In the gate, until a case and a seed have found it; in full, in every case and on all seeds, and how many have is printed.
#[test]
fn every_event_that_is_left_out_is_found() {
    let mut found: BTreeMap<&str, bool> = BTreeMap::new();
    for case in cases() {
        let all = Deferred::new(0);
        train_on(Arc::new(all.clone()), run(case), Mask::Uneven).expect("it trains");
        let host = train(run(case), Mask::Uneven);
        for what in all.waited_for() {
            let is_known = found.entry(what).or_default();
            if *is_known && !in_full() {
                continue;
            }
            let is_found = |seed: &u64| is_found(Deferred::without(*seed, what), case, &host);
            if in_full() {
                let num_found = (0..SEEDS).filter(is_found).count();
                println!("event | {what} | {num_found} of {SEEDS} | {case:?}");
                *is_known |= num_found > 0;
            } else {
                *is_known = (0..SEEDS).any(|seed| is_found(&seed));
            }
        }
    }
    let missed: Vec<_> = found.iter().filter(|(_, is_found)| !**is_found).map(|(what, _)| what).collect();
    assert!(missed.is_empty(), "left out and never found: {missed:?}");
    assert!(found.len() >= 8, "{found:?}");
}
