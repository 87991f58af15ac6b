//! Grids in which every event that ranks set is needed: on the fake GPU, which looks at what orders accesses, one that is missing
//! stops the process (`tests/fake_gpu/mutations.py`).

use pipezero_config::{ResidencyConfig, ZeroLevel};
use tests::{Case, Mask, Schedule, assert_bit_identical, train_on_devices, two_steps, zero};

use super::devices;

/// What a receive writes to was read by its rank's last forward, which nothing but an event orders, where receives are started a stage
/// ahead (eager 1F1B); elsewhere another message always lies between. Weights are gathered after the step under ZeRO-1, and a tied
/// weight is added up.
fn cases() -> [Case; 2] {
    let zero_3 = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, 1);
    let eager = Case { pipeline: 4, num_micro_batches: 5, schedule: Schedule::Eager, ..Case::ONE_RANK };
    let zero_1 = zero(ZeroLevel::Zero1, ResidencyConfig::Units(1), 0);
    let tied = Case { pipeline: 2, data: 2, num_micro_batches: 2, tied: true, ..Case::ONE_RANK };
    [Case { zero: zero_3, ..eager }, Case { zero: zero_1, ..tied }]
}

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn grids_that_need_every_event_give_the_same_bits_on_all_devices_as_on_one() {
    let devices = devices();
    for case in cases() {
        let train = |devices| train_on_devices(devices, two_steps(case.clone()), Mask::Uneven);
        let [on_all, on_one] =
            [&devices[..], &devices[..1]].map(|devices| train(devices).expect("it trains"));
        assert_bit_identical(&on_all, &on_one, &format!("{case:?}"));
    }
}
