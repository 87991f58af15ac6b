//! Links with a latency and a bandwidth delay messages and change nothing else.

use std::time::Duration;

use pipezero_config::{Link, Links, ResidencyConfig, Run, ZeroLevel};
use tests::{Case, Mask, Schedule, assert_bit_identical, small_run, train, zero};

#[test]
fn delayed_messages_give_the_same_bits() {
    for schedule in [Schedule::OneFOneB, Schedule::Bfs { virtual_stages: 2 }] {
        for prefetch in [0, 1] {
            let zero = zero(ZeroLevel::Zero3, ResidencyConfig::Strict, prefetch);
            let grid = Case { pipeline: 2, data: 2, num_micro_batches: 3, schedule, ..Case::ONE_RANK };
            let run = Run { steps: 3, ..small_run(Case { zero, tied: true, ..grid }) };
            let wanted = train(run.clone(), Mask::Uneven);
            for (shared, ranks_per_node) in [(false, 4), (true, 2), (true, 1)] {
                let link = |latency_us, bytes_per_s| Link {
                    latency: Duration::from_micros(latency_us),
                    bytes_per_s,
                };
                // Far links are slow enough for messages to queue.
                let links = Links { ranks_per_node, near: link(5, 1e9), far: link(20, 1e8), shared };
                let mut run = run.clone();
                run.comm.links = Some(links);
                let name = format!("{schedule:?}, prefetch {prefetch}, {links:?}");
                assert_bit_identical(&train(run, Mask::Uneven), &wanted, &name);
            }
        }
    }
}
