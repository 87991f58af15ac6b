//! Traffic against numbers worked by hand, and the 48-layer example.

use super::*;
use crate::zero::ReductionPolicy::{self, Every, Last};
use crate::zero::ZeroLevel::{Zero0, Zero1, Zero2, Zero3};

fn volume(count: u64, bytes: u64) -> Volume {
    Volume { count, bytes }
}

/// The record of 24 words over 6 ranks: shares of 4 words, sent to 5 ranks in each of the two halves.
const NORM: Volume = Volume { count: 1, bytes: 2 * 5 * 8 * 4 };

fn unit(num_elements: u64, num_gathers: u64) -> UnitTraffic {
    UnitTraffic {
        num_elements,
        num_gathers,
        tying: Tying::Untied,
        sharding: UnitSharding::Sharded,
        is_frozen: false,
    }
}

fn middle_stage() -> StageTraffic {
    StageTraffic {
        input_gradient_elements: 11,
        output_cut_elements: 13,
        units: vec![unit(100, 10), unit(130, 7)],
    }
}

/// A middle rank of a 2 x 3 grid, 5 micro-batches, in f32; units of 100 and 130 elements have shards of 48 and 48.
fn middle_rank(level: ZeroLevel, reduce: ReductionPolicy) -> TrafficFacts {
    TrafficFacts {
        sharding: Sharding { level, reduce, data_degree: 3 },
        element_bytes: ElementBytes::F32,
        world_size: 6,
        num_micro_batches: 5,
        num_loss_parts: 0,
        stages: vec![middle_stage()],
    }
}

/// The same rank with another stage in its place.
fn with_stage(rank: TrafficFacts, stage: StageTraffic) -> TrafficFacts {
    TrafficFacts { stages: vec![stage], ..rank }
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
        rank.world_size = 1;
        (rank.stages[0].input_gradient_elements, rank.stages[0].output_cut_elements) = (0, 0);
        assert_eq!(Traffic::of(&rank), Traffic::default());
    }
}

#[test]
fn the_ends_of_the_pipeline_send_one_way() {
    let of = |stage| with_stage(middle_rank(Zero1, Last), stage);
    let first = of(StageTraffic { input_gradient_elements: 0, ..middle_stage() });
    assert_eq!(Traffic::of(&first).send, volume(5, 5 * 4 * 13));
    let last = of(StageTraffic { output_cut_elements: 0, ..middle_stage() });
    assert_eq!(Traffic::of(&last).send, volume(5, 5 * 4 * 11));
}

#[test]
fn a_tied_weight_is_exchanged_only_between_ranks() {
    let tied = |tying| UnitTraffic { tying, ..unit(100, 10) };
    let of = |level, units: Vec<UnitTraffic>| {
        with_stage(middle_rank(level, Last), StageTraffic { units, ..middle_stage() })
    };
    let (embedding, head) = (tied(Tying::Embedding), tied(Tying::Head));
    // Beside the norm's record and, under ZeRO-0, the units' own all-reduces: half of the weight, both ways, twice.
    let exchanged = |level, units: &[UnitTraffic]| {
        let untied = units.iter().map(|unit| UnitTraffic { tying: Tying::Untied, ..*unit }).collect();
        let (tied, untied) = (Traffic::of(&of(level, units.to_vec())), Traffic::of(&of(level, untied)));
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
    let both = of(Zero1, vec![embedding, head]);
    assert_eq!(Traffic::of(&both).reduce_scatter.count, 2);
    assert_eq!(Traffic::of(&both).all_gather.count, 1);
    // Also where they are in two stages of the rank.
    let stage = |unit| StageTraffic { units: vec![unit], input_gradient_elements: 0, output_cut_elements: 0 };
    let apart = TrafficFacts { stages: vec![stage(embedding), stage(head)], ..middle_rank(Zero1, Last) };
    assert_eq!(Traffic::of(&apart), Traffic { send: Volume::default(), ..Traffic::of(&both) });
}

/// Parameters and activations travel in 2 bytes, gradients in 4.
#[test]
fn half_precision_halves_gathers_and_sends() {
    for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero2, Every), (Zero3, Every), (Zero3, Last)] {
        let rank = middle_rank(level, reduce);
        let full = Traffic::of(&rank);
        let half = Traffic::of(&TrafficFacts { element_bytes: ElementBytes::HALF, ..rank });
        let halved = |volume: Volume| Volume { bytes: volume.bytes / 2, ..volume };
        let wanted = Traffic { all_gather: halved(full.all_gather), send: halved(full.send), ..full };
        assert_eq!(half, wanted, "{level:?}, {reduce:?}");
    }
    // The sum of a tied weight's two gradients is f32 too.
    let tied =
        StageTraffic { units: vec![UnitTraffic { tying: Tying::Head, ..unit(100, 10) }], ..middle_stage() };
    let half = TrafficFacts { element_bytes: ElementBytes::HALF, ..middle_rank(Zero1, Last) };
    assert_eq!(Traffic::of(&with_stage(half, tied)).all_reduce, volume(1, 4 * 48) + NORM);
}

/// A unit that is kept whole is gathered once after the step and reduced once.
#[test]
fn a_unit_that_is_kept_whole_is_gathered_once_and_reduced_once() {
    let units = || vec![UnitTraffic { sharding: UnitSharding::Whole, ..unit(100, 10) }, unit(130, 7)];
    let whole = |level, reduce| {
        Traffic::of(&with_stage(
            middle_rank(level, reduce),
            StageTraffic { units: units(), ..middle_stage() },
        ))
    };
    assert_eq!(whole(Zero1, Last), Traffic::of(&middle_rank(Zero1, Last)));
    let (kept, other) = (2 * 48 * 4, Traffic::of(&middle_rank(Zero3, Every)));
    let every = whole(Zero3, Every);
    assert_eq!(every.all_gather, volume(8, 8 * kept));
    let num_micro_batches = middle_rank(Zero3, Every).num_micro_batches;
    let reduced = other.reduce_scatter.count - num_micro_batches + 1;
    let bytes = other.reduce_scatter.bytes - (num_micro_batches - 1) * kept;
    assert_eq!(every.reduce_scatter, volume(reduced, bytes));
}

/// A persistent unit is gathered once after the step, however often it is used; its gradients are reduced like the
/// rest.
#[test]
fn a_persistent_unit_is_gathered_once() {
    let persistent = |level, reduce| {
        let units = vec![UnitTraffic { sharding: UnitSharding::Persistent, ..unit(100, 10) }, unit(130, 7)];
        with_stage(middle_rank(level, reduce), StageTraffic { units, ..middle_stage() })
    };
    for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero2, Every)] {
        assert_eq!(
            Traffic::of(&persistent(level, reduce)),
            Traffic::of(&middle_rank(level, reduce)),
            "{level:?}"
        );
    }
    let one_way = 2 * 48 * 4;
    for reduce in [Every, Last] {
        let all_gather = volume(8, 8 * one_way);
        let wanted = Traffic { all_gather, ..Traffic::of(&middle_rank(Zero3, reduce)) };
        assert_eq!(Traffic::of(&persistent(Zero3, reduce)), wanted);
    }
    // A tied weight that stays whole is stepped and gathered once for both of its uses here.
    let tied = |tying| UnitTraffic { tying, sharding: UnitSharding::Persistent, ..unit(100, 10) };
    let units = vec![tied(Tying::Embedding), tied(Tying::Head)];
    let both = with_stage(middle_rank(Zero3, Every), StageTraffic { units, ..middle_stage() });
    assert_eq!(Traffic::of(&both).all_gather, volume(1, one_way));
}

/// Each stage of a rank sends on its own edges; an edge within the rank sends nothing.
#[test]
fn the_stages_of_a_rank_send_apart() {
    let turn = [
        StageTraffic { input_gradient_elements: 11, output_cut_elements: 0, units: vec![unit(100, 10)] },
        StageTraffic { input_gradient_elements: 0, output_cut_elements: 13, units: vec![unit(130, 7)] },
    ];
    let rank = TrafficFacts { stages: turn.to_vec(), ..middle_rank(Zero3, Every) };
    assert_eq!(Traffic::of(&rank), Traffic::of(&middle_rank(Zero3, Every)));
    let looped = vec![middle_stage(); 2];
    let rank = TrafficFacts { stages: looped, ..middle_rank(Zero3, Every) };
    assert_eq!(Traffic::of(&rank).send, volume(20, 5 * 4 * 2 * (11 + 13)));
    assert_eq!(Traffic::of(&rank).all_gather.count, 34);
}

#[test]
fn the_record_of_the_norm_is_padded_to_the_number_of_ranks() {
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
    let units = num_gathers.map(|num_gathers| unit(12 / U as u64 * LAYER, num_gathers)).to_vec();
    Traffic::of(&TrafficFacts {
        sharding: Sharding { level, reduce, data_degree },
        element_bytes: ElementBytes::F32,
        world_size: 4 * data_degree,
        num_micro_batches: 8,
        num_loss_parts: 0,
        stages: vec![StageTraffic { input_gradient_elements: 64, output_cut_elements: 64, units }],
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

/// The record has 4 words more for each part of the loss, padded to 36 words for 6 ranks where it has two.
#[test]
fn parts_of_a_loss_make_the_record_of_the_norm_longer() {
    let bytes = |num_loss_parts: u64| {
        let rank = TrafficFacts { num_loss_parts, ..middle_rank(Zero1, Last) };
        Traffic::of(&rank).all_reduce
    };
    assert_eq!(bytes(0), NORM);
    assert_eq!([1, 2, 3].map(bytes), [30, 36, 36].map(|words| volume(1, 2 * 5 * 8 * words / 6)));
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

/// A frozen unit is gathered for its uses, and never reduced, added to its other use or gathered after the step.
#[test]
fn a_frozen_unit_is_gathered_for_its_uses_and_no_more() {
    let one_way = 2 * 48 * 4;
    let frozen = |tying, sharding| UnitTraffic { tying, sharding, is_frozen: true, ..unit(100, 10) };
    for (level, reduce, sharding, gathers, reductions) in [
        (Zero0, Last, UnitSharding::Sharded, 0, 1),
        (Zero1, Last, UnitSharding::Sharded, 1, 1),
        (Zero2, Every, UnitSharding::Sharded, 1, 5),
        (Zero3, Every, UnitSharding::Sharded, 17, 5),
        (Zero3, Every, UnitSharding::Persistent, 7, 5),
        (Zero3, Every, UnitSharding::Whole, 7, 5),
    ] {
        for tying in [Tying::Untied, Tying::Embedding, Tying::Head] {
            let units = vec![frozen(tying, sharding), unit(130, 7)];
            let found = Traffic::of(&with_stage(
                middle_rank(level, reduce),
                StageTraffic { units, ..middle_stage() },
            ));
            let name = format!("{level:?}, {sharding:?}, {tying:?}");
            assert_eq!(found.all_gather, volume(gathers, gathers * one_way), "{name}");
            let (scattered, reduced) = if level == Zero0 { (0, reductions) } else { (reductions, 0) };
            assert_eq!(found.reduce_scatter, volume(scattered, scattered * one_way), "{name}");
            assert_eq!(found.all_reduce, volume(reduced, reduced * 2 * one_way) + NORM, "{name}");
        }
    }
}
