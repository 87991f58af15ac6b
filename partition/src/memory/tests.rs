//! Every category against numbers worked by hand, and the examples of `docs/zero.md`.

use super::*;
use crate::zero::ReductionPolicy::{self, Every, Last};
use crate::zero::ZeroLevel;
use crate::zero::ZeroLevel::{Zero0, Zero1, Zero2, Zero3};

const UNTIED: UnitFacts = UnitFacts {
    num_elements: 100,
    saved_elements: 7,
    workspace_elements: 5,
    widest_activation_elements: 3,
    tying: Tying::Untied,
};

/// A rank between two others with units of 100 and 130 elements: padded over two data ranks 128 and 160.
fn middle_rank(level: ZeroLevel, reduce: ReductionPolicy) -> RankFacts {
    RankFacts {
        sharding: Sharding { level, reduce, data_degree: 2 },
        num_optimizer_states: 2,
        num_gather_buffers: 2,
        num_activation_slots: 3,
        input_cut_elements: 11,
        output_cut_elements: 13,
        units: vec![
            UNTIED,
            UnitFacts {
                num_elements: 130,
                saved_elements: 17,
                workspace_elements: 4,
                widest_activation_elements: 9,
                ..UNTIED
            },
        ],
    }
}

/// `[parameters, gathered, gradients, optimizer, activations, communication, peak]` in elements.
fn elements(rank: &RankFacts) -> [u64; 7] {
    let bytes = MemoryBytes::of(rank);
    let all = [
        bytes.parameters,
        bytes.gathered,
        bytes.gradients,
        bytes.optimizer,
        bytes.activations,
        bytes.communication,
        bytes.peak,
    ];
    assert!(all.iter().all(|bytes| bytes % 4 == 0));
    all.map(|bytes| bytes / 4)
}

#[test]
fn every_level_holds_what_was_worked_by_hand() {
    // Padded 128 + 160 = 288, shards 64 + 80 = 144, the larger unit 160.
    // Activations: 3 slots of 7 + 17 + 13, workspace 5, three streams of 9: 111 + 5 + 27 = 143.
    // Communication: 2 * (11 + 13) received and 2 * 11 sent: 70.
    let cases = [
        (Zero0, Last, [288, 0, 288, 2 * 288]),
        (Zero1, Last, [288, 0, 288, 2 * 144]),
        (Zero2, Every, [288, 0, 144 + 320, 2 * 144]),
        (Zero3, Every, [144, 320, 144 + 320, 2 * 144]),
        (Zero3, Last, [144, 320, 288, 2 * 144]),
    ];
    for (level, reduce, states) in cases {
        let [parameters, gathered, gradients, optimizer] = states;
        let peak = states.iter().sum::<u64>() + 143 + 70;
        let wanted = [parameters, gathered, gradients, optimizer, 143, 70, peak];
        assert_eq!(elements(&middle_rank(level, reduce)), wanted, "{level:?}, {reduce:?}");
    }
}

#[test]
fn optimizer_state_follows_the_number_of_states() {
    for (num_optimizer_states, optimizer) in [(0, 0), (1, 144), (2, 288)] {
        let rank = RankFacts { num_optimizer_states, ..middle_rank(Zero1, Last) };
        assert_eq!(elements(&rank)[3], optimizer);
    }
}

#[test]
fn the_ends_of_the_pipeline_receive_and_send_on_one_side() {
    let first = RankFacts { input_cut_elements: 0, ..middle_rank(Zero1, Last) };
    assert_eq!(elements(&first)[5], 2 * 13);
    let last = RankFacts { output_cut_elements: 0, ..middle_rank(Zero1, Last) };
    assert_eq!(elements(&last)[5], 4 * 11);
    // The last stage sends nothing, so its slots hold no output: 3 * (7 + 17) + 5 + 27.
    assert_eq!(elements(&last)[4], 104);
}

#[test]
fn a_tied_weight_is_held_once_and_its_gradient_twice() {
    let tied = |tying| UnitFacts { tying, ..UNTIED };
    let rank = |level, reduce, units: &[UnitFacts]| RankFacts {
        units: units.to_vec(),
        ..middle_rank(level, reduce)
    };
    let both = [tied(Tying::Embedding), tied(Tying::Head)];
    let communication = 70;
    // Each use is 128 padded, 64 sharded.
    assert_eq!(elements(&rank(Zero0, Last, &both))[..4], [128, 0, 256, 2 * 128]);
    assert_eq!(elements(&rank(Zero3, Every, &both))[..4], [64, 256, 128 + 256, 2 * 64]);
    assert_eq!(elements(&rank(Zero3, Every, &both))[5], communication);
    for one in both {
        assert_eq!(elements(&rank(Zero0, Last, &[one]))[..4], [128, 0, 128, 2 * 128]);
        // The gradients are summed in place, so the sum needs no buffer.
        assert_eq!(elements(&rank(Zero0, Last, &[one]))[5], communication);
    }
}

/// With one data rank every level is alike but for the buffers that ZeRO-3 gathers into and `Every` reduces from.
#[test]
fn one_data_rank_shards_nothing() {
    let mut rank = middle_rank(Zero3, Every);
    rank.sharding.data_degree = 1;
    assert_eq!(elements(&rank)[..4], [112 + 144, 2 * 144, 112 + 144 + 2 * 144, 2 * (112 + 144)]);
}

#[test]
fn absurd_sizes_saturate() {
    let mut rank = middle_rank(Zero3, Every);
    rank.num_activation_slots = u64::MAX;
    for unit in &mut rank.units {
        (unit.num_elements, unit.saved_elements) = (u64::MAX, u64::MAX);
    }
    assert_eq!(MemoryBytes::of(&rank).peak, u64::MAX);
    assert_eq!(MemoryBytes::of(&rank).activations, u64::MAX);
}

/// Parameters of one layer in the 12-layer stage below; no unit of whole layers needs padding for d <= 8.
const LAYER: u64 = 128;

/// A stage of 12 layers in units of `unit_layers`, in whole layers: weights, gathered, gradients, AdamW's state.
fn stage_of_twelve(
    level: ZeroLevel,
    reduce: ReductionPolicy,
    d: u64,
    unit_layers: u64,
    buffers: u64,
) -> [f64; 4] {
    let unit = UnitFacts { num_elements: unit_layers * LAYER, ..UNTIED };
    let rank = RankFacts {
        sharding: Sharding { level, reduce, data_degree: d },
        num_gather_buffers: buffers,
        units: vec![unit; (12 / unit_layers) as usize],
        ..middle_rank(level, reduce)
    };
    let [parameters, gathered, gradients, optimizer, ..] = elements(&rank).map(|n| n as f64 / LAYER as f64);
    [parameters, gathered, gradients, optimizer]
}

/// The 48-layer example: weights alone, in layers. At d = 2 one unit of prefetch makes units of 4 hold 14 layers, more
/// than the 12 of no sharding.
#[test]
fn three_units_of_four_layers_hold_the_weights_of_the_example() {
    for (data_degree, strict, prefetched) in [(2, 10.0, 14.0), (4, 7.0, 11.0), (8, 5.5, 9.5)] {
        for (buffers, wanted) in [(1, strict), (2, prefetched)] {
            let [parameters, gathered, ..] = stage_of_twelve(Zero3, Every, data_degree, 4, buffers);
            assert_eq!(parameters + gathered, wanted, "d = {data_degree}, {buffers} buffers");
        }
        let [parameters, gathered, ..] = stage_of_twelve(Zero1, Last, data_degree, 4, 2);
        assert_eq!([parameters, gathered], [12.0, 0.0]);
    }
}

/// The memory tables of `docs/zero.md`: model states of the stage, in layers of f32 parameters. ZeRO-2 is priced as it
/// would be with a pipeline, where a run may not have it, and ZeRO-3 also with the whole stage as one unit.
#[test]
fn the_documented_tables_of_model_states_hold() {
    let total = |level, reduce, d, unit_layers, buffers| -> f64 {
        stage_of_twelve(level, reduce, d, unit_layers, buffers).iter().sum()
    };
    let cases = [
        (Zero0, Last, 1, 0, [48.0, 48.0, 48.0]),
        (Zero1, Last, 1, 0, [36.0, 30.0, 27.0]),
        (Zero2, Every, 1, 0, [32.0, 23.0, 18.5]),
        (Zero3, Every, 1, 2, [28.0, 16.0, 10.0]),
        (Zero3, Every, 4, 1, [36.0, 24.0, 18.0]),
        (Zero3, Every, 4, 2, [40.0, 28.0, 22.0]),
        (Zero3, Last, 4, 2, [38.0, 29.0, 24.5]),
        (Zero3, Every, 12, 1, [60.0, 48.0, 42.0]),
    ];
    for (level, reduce, unit_layers, buffers, wanted) in cases {
        let totals = [2, 4, 8].map(|d| total(level, reduce, d, unit_layers, buffers));
        assert_eq!(totals, wanted, "{level:?}, {reduce:?}, units of {unit_layers}, {buffers} buffers");
    }
    assert_eq!(stage_of_twelve(Zero0, Last, 2, 1, 0), [12.0, 0.0, 12.0, 24.0]);
    assert_eq!(stage_of_twelve(Zero1, Last, 2, 1, 0), [12.0, 0.0, 12.0, 12.0]);
    assert_eq!(stage_of_twelve(Zero2, Every, 2, 1, 0), [12.0, 0.0, 8.0, 12.0]);
    assert_eq!(stage_of_twelve(Zero3, Every, 2, 1, 2), [6.0, 2.0, 8.0, 12.0]);
    assert_eq!(stage_of_twelve(Zero3, Every, 2, 12, 1), [6.0, 12.0, 30.0, 12.0]);
}
