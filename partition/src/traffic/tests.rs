//! Traffic against numbers worked by hand, and the 48-layer example.

use super::*;
use crate::zero::ReductionPolicy::{self, Every, Last};
use crate::zero::ZeroLevel::{Zero0, Zero1, Zero2, Zero3};

fn volume(count: u64, bytes: u64) -> Volume {
    Volume { count, bytes }
}

/// The record of 24 words over 6 ranks: shares of 4 words, sent to 5 ranks in each of the two halves.
const NORM: Volume = Volume { count: 1, bytes: 2 * 5 * 8 * 4 };

/// A middle rank of a 2 x 3 grid, 5 micro-batches; units of 100 and 130 elements have shards of 48 and 48.
fn middle_rank(level: ZeroLevel, reduce: ReductionPolicy) -> TrafficFacts {
    let unit = |num_elements, num_gathers| UnitTraffic { num_elements, num_gathers, tying: Tying::Untied };
    TrafficFacts {
        sharding: Sharding { level, reduce, data_degree: 3 },
        world_size: 6,
        num_micro_batches: 5,
        input_cut_elements: 11,
        output_cut_elements: 13,
        units: vec![unit(100, 10), unit(130, 7)],
    }
}

#[test]
fn every_level_sends_what_was_worked_by_hand() {
    let one_way = 2 * 48 * 4;
    let send = volume(10, 5 * 4 * (11 + 13));
    let cases = [
        (Zero0, Last, [(0, 0), (0, 0), (2, 2 * 2 * one_way)]),
        (Zero1, Last, [(2, 2 * one_way), (2, 2 * one_way), (0, 0)]),
        (Zero2, Every, [(2, 2 * one_way), (10, 10 * one_way), (0, 0)]),
        (Zero3, Every, [(17, 17 * one_way), (10, 10 * one_way), (0, 0)]),
        (Zero3, Last, [(17, 17 * one_way), (2, 2 * one_way), (0, 0)]),
    ];
    for (level, reduce, volumes) in cases {
        let [all_gather, reduce_scatter, all_reduce] = volumes.map(|(count, bytes)| volume(count, bytes));
        let wanted = Traffic { all_gather, reduce_scatter, all_reduce: all_reduce + NORM, send };
        assert_eq!(Traffic::of(&middle_rank(level, reduce)), wanted, "{level:?}, {reduce:?}");
    }
}

#[test]
fn groups_of_one_send_nothing() {
    for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero2, Every), (Zero3, Every)] {
        let mut rank = middle_rank(level, reduce);
        rank.sharding.data_degree = 1;
        rank.world_size = 2;
        let wanted =
            Traffic { all_reduce: volume(1, 2 * 8 * 12), send: volume(10, 480), ..Traffic::default() };
        assert_eq!(Traffic::of(&rank), wanted, "{level:?}");
        (rank.world_size, rank.input_cut_elements, rank.output_cut_elements) = (1, 0, 0);
        assert_eq!(Traffic::of(&rank), Traffic::default());
    }
}

#[test]
fn the_ends_of_the_pipeline_send_one_way() {
    let first = TrafficFacts { input_cut_elements: 0, ..middle_rank(Zero1, Last) };
    assert_eq!(Traffic::of(&first).send, volume(5, 5 * 4 * 13));
    let last = TrafficFacts { output_cut_elements: 0, ..middle_rank(Zero1, Last) };
    assert_eq!(Traffic::of(&last).send, volume(5, 5 * 4 * 11));
}

#[test]
fn a_tied_weight_is_exchanged_only_between_ranks() {
    let tied = |tying| UnitTraffic { num_elements: 100, num_gathers: 10, tying };
    let (embedding, head) = (tied(Tying::Embedding), tied(Tying::Head));
    // Beside the norm's record and, under ZeRO-0, the units' own all-reduces: half of the weight, both ways, twice.
    let exchanged = |level, units: &[UnitTraffic]| {
        let facts = TrafficFacts { units: units.to_vec(), ..middle_rank(level, Last) };
        let untied = units.iter().map(|unit| UnitTraffic { tying: Tying::Untied, ..*unit }).collect();
        let (tied, untied) = (Traffic::of(&facts), Traffic::of(&TrafficFacts { units: untied, ..facts }));
        assert_eq!(tied.send, untied.send);
        volume(
            tied.all_reduce.count - untied.all_reduce.count,
            tied.all_reduce.bytes - untied.all_reduce.bytes,
        )
    };
    for one in [embedding, head] {
        assert_eq!(exchanged(Zero0, &[one]), volume(1, 4 * 144));
        assert_eq!(exchanged(Zero1, &[one]), volume(1, 4 * 48));
        assert_eq!(exchanged(Zero3, &[one]), volume(1, 4 * 48));
    }
    assert_eq!(exchanged(Zero0, &[embedding, head]), volume(0, 0));
    // On one rank both uses are reduced, the weight is stepped and gathered once.
    let both = TrafficFacts { units: vec![embedding, head], ..middle_rank(Zero1, Last) };
    assert_eq!(Traffic::of(&both).reduce_scatter.count, 2);
    assert_eq!(Traffic::of(&both).all_gather.count, 1);
}

#[test]
fn the_record_of_the_norm_is_padded_to_the_world() {
    for (world_size, words) in [(2, 12), (3, 8), (5, 5), (23, 2), (24, 1), (25, 1), (1000, 1)] {
        let rank = TrafficFacts { world_size, ..middle_rank(Zero3, Every) };
        assert_eq!(Traffic::of(&rank).all_reduce, volume(1, 2 * (world_size - 1) * 8 * words));
    }
}

const LAYER: u64 = 128;

/// An inner stage of the 48-layer example, 12 layers of 48 on 4 pipeline ranks, 8 micro-batches, in `U` units whose
/// gathers are counted as given.
fn stage_of_twelve<const U: usize>(
    level: ZeroLevel,
    reduce: ReductionPolicy,
    data_degree: u64,
    num_gathers: [u64; U],
) -> Traffic {
    let unit =
        |num_gathers| UnitTraffic { num_elements: 12 / U as u64 * LAYER, num_gathers, tying: Tying::Untied };
    Traffic::of(&TrafficFacts {
        sharding: Sharding { level, reduce, data_degree },
        world_size: 4 * data_degree,
        num_micro_batches: 8,
        input_cut_elements: 64,
        output_cut_elements: 64,
        units: num_gathers.map(unit).to_vec(),
    })
}

/// 3 units of 4 layers at 2 data ranks. Strict residency gathers each unit for every forward and every backward: 6
/// all-gathers and 3 reduce-scatters per micro-batch and rank.
#[test]
fn the_forty_eight_layer_example_gathers_six_times_per_micro_batch() {
    let unit_bytes = 4 * 4 * LAYER;
    let strict = stage_of_twelve(Zero3, Every, 2, [16; 3]);
    assert_eq!(strict.all_gather, volume(8 * 6, 8 * 6 * unit_bytes / 2));
    assert_eq!(strict.reduce_scatter, volume(8 * 3, 8 * 3 * unit_bytes / 2));
    // The last stage turns at its last unit: kept from forward to backward and from backward to forward, one unit
    // saves 15 of 48 gathers.
    let last = stage_of_twelve(Zero3, Every, 2, [9, 16, 8]);
    assert_eq!(last.all_gather, volume(33, 33 * unit_bytes / 2));
}

/// The traffic table of `docs/zero.md`: sent over the data axis by a rank in a step, in layers of f32 parameters.
#[test]
fn the_documented_table_of_traffic_holds() {
    let layers = |traffic: Traffic, world_size: u64| {
        let norm = 2 * (world_size - 1) * 8 * NORM_RECORD_WORDS.div_ceil(world_size);
        let bytes = traffic.all_gather.bytes + traffic.reduce_scatter.bytes + traffic.all_reduce.bytes - norm;
        bytes as f64 / (4 * LAYER) as f64
    };
    for (d, wanted) in [
        (2, [12.0, 12.0, 54.0, 144.0, 102.0, 126.0, 114.0, 144.0]),
        (8, [21.0, 21.0, 94.5, 252.0, 178.5, 220.5, 199.5, 252.0]),
    ] {
        let rows = [
            stage_of_twelve(Zero0, Last, d, [0; 12]),
            stage_of_twelve(Zero1, Last, d, [0; 12]),
            stage_of_twelve(Zero2, Every, d, [0; 12]),
            stage_of_twelve(Zero3, Every, d, [16; 12]),
            stage_of_twelve(Zero3, Last, d, [16; 3]),
            // 39 and 33 of 48 gathers: the first and the last stage with one resident unit.
            stage_of_twelve(Zero3, Every, d, [13; 3]),
            stage_of_twelve(Zero3, Every, d, [9, 16, 8]),
            stage_of_twelve(Zero3, Every, d, [16; 1]),
        ];
        assert_eq!(rows.map(|traffic| layers(traffic, 4 * d)), wanted, "d = {d}");
    }
}
