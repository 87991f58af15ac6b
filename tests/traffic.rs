//! What ranks send, counted around the backend, is what the plan says: calls and bytes, by kind and rank.

use pipezero_config::{ResidencyConfig, ZeroLevel};
use pipezero_plan::Volume;
use pipezero_run::engine::Engine;
use tests::{Case, Mask, small_run, started, zero};

/// Padding, record, the tied weight's sum and both ends of an edge, by hand on the smallest grid that has them all.
#[test]
fn a_step_of_two_by_two_ranks_counted_by_hand() {
    let zero = zero(ZeroLevel::Zero1, ResidencyConfig::Strict, 0);
    let case = Case { pipeline: 2, data: 2, tied: true, zero, ..Case::ONE_RANK };
    let mut engine = started(Engine::new, small_run(case), Mask::None);
    let traffic = engine.train_batch().expect("a step").traffic();
    // Parameters begin at multiples of 16 elements, and a shard is a multiple of 16. In elements:
    //   token table        17 x 12 = 204                           shard 112
    //   block              1920, the last bias not padded: 1916    shard 960
    //   positions, block   80 + 1916 = 1996                        shard 1008
    //   block, final norm  1920 + 16 + 12 = 1948                   shard 976
    let first_stage = [112, 1008, 960, 960];
    let second_stage = [960, 976, 112];
    for (rank, units) in [&first_stage[..], &first_stage, &second_stage, &second_stage].iter().enumerate() {
        // One peer, so a shard of each unit is sent once each way.
        let one_way = Volume { count: units.len() as u64, bytes: 4 * units.iter().sum::<u64>() };
        assert_eq!(traffic[rank].reduce_scatter, one_way, "rank {rank}");
        assert_eq!(traffic[rank].all_gather, one_way, "rank {rank}");
        // 24 words of 8 bytes over 4 ranks, 6 from each of 3 peers, twice; half of the tied shard, twice.
        let all_reduce = Volume { count: 2, bytes: 2 * 3 * 6 * 8 + 2 * 4 * 112 / 2 };
        assert_eq!(traffic[rank].all_reduce, all_reduce, "rank {rank}");
        // 2 micro-batches of 2 sequences of 6 tokens of width 12, up from the first stage and down from the second.
        let send = Volume { count: 2, bytes: 2 * 4 * (2 * 6 * 12) };
        assert_eq!(traffic[rank].send, send, "rank {rank}");
    }
}
