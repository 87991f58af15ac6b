//! Every category against numbers worked by hand, and the examples of `docs/zero.md`.

use super::*;
use crate::zero::ReductionPolicy::{self, Every, Last};
use crate::zero::ZeroLevel::{self, Zero0, Zero1, Zero2, Zero3};

const UNTIED: UnitFacts = UnitFacts {
    num_elements: 100,
    saved_elements: 7,
    recompute_elements: 0,
    weight_input_elements: 0,
    workspace_elements: 5,
    allocated_elements: 0,
    widest_activation_elements: 3,
    tying: Tying::Untied,
    sharding: UnitSharding::Sharded,
    is_frozen: false,
};

const LARGER: UnitFacts = UnitFacts {
    num_elements: 130,
    saved_elements: 17,
    workspace_elements: 4,
    widest_activation_elements: 9,
    ..UNTIED
};

/// A stage between two others with units of 100 and 130 elements: padded over two data ranks 128 and 160.
fn middle_stage() -> StageFacts {
    StageFacts {
        num_activation_slots: 3,
        input_cut_elements: 11,
        num_gradient_send_buffers: 2,
        output_cut_elements: 13,
        num_gradient_receive_buffers: 2,
        units: vec![UNTIED, LARGER],
        ..StageFacts::default()
    }
}

/// A rank of that one stage, in f32.
fn middle_rank(level: ZeroLevel, reduce: ReductionPolicy) -> RankFacts {
    RankFacts {
        purpose: Purpose::Training,
        sharding: Sharding { level, reduce, data_degree: 2 },
        element_bytes: ElementBytes::F32,
        num_optimizer_states: 2,
        gather_buffer_elements: vec![160, 160],
        gradient_buffer_elements: vec![160, 160],
        num_term_elements: 0,
        copies_checkpoints: false,
        num_tokens: 0,
        num_document_starts: 0,
        num_encoder_words: 0,
        num_loss_inputs: 0,
        stages: vec![middle_stage()],
    }
}

/// The same rank with another stage in its place.
fn with_stage(rank: RankFacts, stage: StageFacts) -> RankFacts {
    RankFacts { stages: vec![stage], ..rank }
}

/// `[parameters, gathered, gradients, optimizer, activations, communication, peak]` in bytes.
fn bytes(rank: &RankFacts) -> [u64; 7] {
    let figures = RankMemory::of(rank).figures();
    let [parameters, gathered, gradients, optimizer, activations, communication, checkpoint, peak] = figures;
    assert_eq!(checkpoint, 0);
    [parameters, gathered, gradients, optimizer, activations, communication, peak]
}

/// The most of one layer, in f32 whatever the precision, since layers run one after the other.
#[test]
fn what_a_layer_allocates_is_counted_once() {
    for element_bytes in [ElementBytes::F32, ElementBytes::HALF] {
        let with = |allocated: [u64; 2]| {
            let units = [UNTIED, LARGER].into_iter().zip(allocated);
            let units = units.map(|(unit, allocated_elements)| UnitFacts { allocated_elements, ..unit });
            let stage = StageFacts { units: units.collect(), ..middle_stage() };
            RankMemory::of(&with_stage(RankFacts { element_bytes, ..middle_rank(Zero3, Every) }, stage))
                .activations
        };
        assert_eq!(with([20, 11]), with([0, 0]) + 4 * 20);
    }
}

#[test]
fn a_copy_for_checkpoints_holds_each_shard_with_its_states_once() {
    use crate::role::Tying;
    // Shards of 64 and 80 elements, in f32 whatever the precision: 144, or 80 where the first is the second use of a tied weight.
    let stages =
        |tying| vec![StageFacts { units: vec![UnitFacts { tying, ..UNTIED }, LARGER], ..middle_stage() }];
    for (num_optimizer_states, tying, elements) in
        [(2, Tying::Untied, 144), (2, Tying::Embedding, 144), (2, Tying::Head, 80), (0, Tying::Untied, 144)]
    {
        for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero2, Every), (Zero3, Every), (Zero3, Last)] {
            for element_bytes in [ElementBytes::F32, ElementBytes::HALF] {
                let without = RankFacts {
                    num_optimizer_states,
                    element_bytes,
                    stages: stages(tying),
                    ..middle_rank(level, reduce)
                };
                let [without, with] = [without.clone(), RankFacts { copies_checkpoints: true, ..without }];
                let memory = RankMemory::of(&with);
                assert_eq!(memory.checkpoint, 4 * (1 + num_optimizer_states) * elements);
                assert_eq!(memory.peak, RankMemory::of(&without).peak + memory.checkpoint);
                let inference = RankFacts { purpose: Purpose::Inference, ..with };
                assert_eq!(RankMemory::of(&inference).checkpoint, 0);
            }
        }
    }
}

/// The same in elements of f32.
fn elements(rank: &RankFacts) -> [u64; 7] {
    let all = bytes(rank);
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
fn tokens_and_what_stands_beside_them_are_words() {
    let words =
        [("a token and its target", [19, 0, 0, 0], 2 * 19), ("starts of documents", [0, 23, 0, 0], 23)];
    let others = [("inputs of an input encoder", [0, 0, 29, 0], 29), ("inputs of a loss", [0, 0, 0, 31], 31)];
    for (name, [num_tokens, num_document_starts, num_encoder_words, num_loss_inputs], num_words) in
        words.into_iter().chain(others)
    {
        let base = middle_rank(Zero1, Last);
        let rank = RankFacts { num_tokens, num_document_starts, num_encoder_words, num_loss_inputs, ..base };
        assert_eq!(elements(&rank)[4..6], [143 + num_words, 70], "{name}");
        let half = |rank: RankFacts| bytes(&RankFacts { element_bytes: ElementBytes::HALF, ..rank })[4];
        assert_eq!(half(rank) - half(middle_rank(Zero1, Last)), 4 * num_words, "{name}");
    }
}

/// Parameters and gathers as in training, 3 slots of 37, workspace 5, two streams of 9, and two inputs received.
#[test]
fn inference_has_no_gradients() {
    for (level, reduce, parameters, gathered) in [(Zero0, Last, 288, 0), (Zero3, Every, 144, 320)] {
        let rank = RankFacts { purpose: Purpose::Inference, ..middle_rank(level, reduce) };
        let wanted = [parameters, gathered, 0, 0, 134, 22, parameters + gathered + 134 + 22];
        assert_eq!(elements(&rank), wanted, "{level:?}");
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
    let of = |stage| with_stage(middle_rank(Zero1, Last), stage);
    let first = of(StageFacts { input_cut_elements: 0, ..middle_stage() });
    assert_eq!(elements(&first)[5], 2 * 13);
    let last = of(StageFacts { output_cut_elements: 0, ..middle_stage() });
    assert_eq!(elements(&last)[5], 4 * 11);
    // The last stage sends nothing, so its slots hold no output: 3 * (7 + 17) + 5 + 27.
    assert_eq!(elements(&last)[4], 104);
    // No gradient is sent to what is in front of all that is trained.
    let first = StageFacts { input_cut_elements: 11, output_cut_elements: 13, ..StageFacts::default() };
    assert_eq!(elements(&of(first))[5], 2 * 11);
}

#[test]
fn a_tied_weight_is_held_once_and_its_gradient_twice() {
    let tied = |tying| UnitFacts { tying, ..UNTIED };
    let rank = |level, reduce, units: &[UnitFacts]| {
        with_stage(middle_rank(level, reduce), StageFacts { units: units.to_vec(), ..middle_stage() })
    };
    let both = [tied(Tying::Embedding), tied(Tying::Head)];
    let communication = 70;
    // Each use is 128 padded, 64 sharded.
    assert_eq!(elements(&rank(Zero0, Last, &both))[..4], [128, 0, 256, 2 * 128]);
    assert_eq!(elements(&rank(Zero3, Every, &both))[..4], [64, 320, 128 + 320, 2 * 64]);
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
    (rank.gather_buffer_elements, rank.gradient_buffer_elements) = (vec![144, 144], vec![144, 144]);
    assert_eq!(elements(&rank)[..4], [112 + 144, 2 * 144, 112 + 144 + 2 * 144, 2 * (112 + 144)]);
}

#[test]
fn absurd_sizes_saturate() {
    let mut rank = middle_rank(Zero3, Every);
    rank.element_bytes = ElementBytes { parameter: u64::MAX, activation: u64::MAX };
    rank.num_optimizer_states = u64::MAX;
    rank.gather_buffer_elements = vec![u64::MAX; 2];
    rank.gradient_buffer_elements = vec![u64::MAX; 3];
    rank.stages = vec![
        StageFacts {
            num_activation_slots: u64::MAX,
            num_weight_input_buffers: u64::MAX,
            input_cut_elements: u64::MAX,
            num_gradient_send_buffers: 2,
            output_cut_elements: u64::MAX,
            num_gradient_receive_buffers: 2,
            local_output_elements: u64::MAX,
            units: vec![
                UnitFacts {
                    num_elements: u64::MAX,
                    saved_elements: u64::MAX,
                    recompute_elements: u64::MAX,
                    weight_input_elements: u64::MAX,
                    workspace_elements: u64::MAX,
                    widest_activation_elements: u64::MAX,
                    ..UNTIED
                };
                2
            ],
        };
        2
    ];
    assert_eq!(bytes(&rank), [u64::MAX; 7]);
}

/// Split backwards add their weight-gradient inputs to the activations, and nothing else.
#[test]
fn weight_inputs_are_activations() {
    let unit = |weight_input_elements| UnitFacts { weight_input_elements, ..UNTIED };
    let stage = StageFacts { num_weight_input_buffers: 2, units: vec![unit(19), unit(23)], ..middle_stage() };
    let split = with_stage(middle_rank(Zero1, Last), stage.clone());
    let whole = with_stage(middle_rank(Zero1, Last), StageFacts { num_weight_input_buffers: 0, ..stage });
    let [mut expected, found] = [bytes(&whole), bytes(&split)];
    // Two buffers of 42 elements; the last is the peak.
    expected[4] += 4 * 2 * 42;
    expected[6] += 4 * 2 * 42;
    assert_eq!(found, expected);
}

/// In bf16 the parameters that compute, gathered copies and activations halve; gradients, optimizer state and scratch
/// do not, and the optimizer holds the master copy of what it owns.
#[test]
fn half_precision_halves_what_computes_and_adds_a_master_copy() {
    // Activations: 3 slots of 37 and two streams of 9 in 2 bytes, one stream of 9 and a workspace of 5 in 4.
    let activations = 2 * (3 * 37 + 2 * 9) + 4 * (9 + 5);
    let communication = 2 * 70;
    let cases = [
        (Zero0, Last, [2 * 288, 0, 4 * 288, 4 * 3 * 288]),
        (Zero1, Last, [2 * 288, 0, 4 * 288, 4 * 3 * 144]),
        (Zero2, Every, [2 * 288, 0, 4 * (144 + 320), 4 * 3 * 144]),
        // Shards are cast from the master copy.
        (Zero3, Every, [0, 2 * 320, 4 * (144 + 320), 4 * 3 * 144]),
        (Zero3, Last, [0, 2 * 320, 4 * 288, 4 * 3 * 144]),
    ];
    for (level, reduce, states) in cases {
        let rank = RankFacts { element_bytes: ElementBytes::HALF, ..middle_rank(level, reduce) };
        let [parameters, gathered, gradients, optimizer] = states;
        let peak = states.iter().sum::<u64>() + activations + communication;
        let wanted = [parameters, gathered, gradients, optimizer, activations, communication, peak];
        assert_eq!(bytes(&rank), wanted, "{level:?}, {reduce:?}");
    }
    // SGD without momentum keeps nothing but the master copy.
    let sgd =
        RankFacts { element_bytes: ElementBytes::HALF, num_optimizer_states: 0, ..middle_rank(Zero1, Last) };
    assert_eq!(bytes(&sgd)[3], 4 * 144);
}

/// Only parameters at rest change, and only where they would be sharded; the program brings the buffers.
#[test]
fn a_persistent_unit_is_whole_at_rest_and_sharded_otherwise() {
    let persistent = |level, reduce| {
        let units = vec![UnitFacts { sharding: UnitSharding::Persistent, ..UNTIED }, LARGER];
        with_stage(middle_rank(level, reduce), StageFacts { units, ..middle_stage() })
    };
    for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero2, Every)] {
        assert_eq!(bytes(&persistent(level, reduce)), bytes(&middle_rank(level, reduce)), "{level:?}");
    }
    assert_eq!(elements(&persistent(Zero3, Every))[..4], [128 + 80, 320, 144 + 320, 2 * 144]);
    assert_eq!(elements(&persistent(Zero3, Last))[..4], [128 + 80, 320, 288, 2 * 144]);
}

/// A unit that is kept whole has the parameters, gradients and optimizer state of ZeRO-1; the program brings the buffers of the others.
#[test]
fn a_unit_that_is_kept_whole_is_held_as_under_zero_1() {
    let whole = |level, reduce| {
        let units = vec![UnitFacts { sharding: UnitSharding::Whole, ..UNTIED }, LARGER];
        with_stage(middle_rank(level, reduce), StageFacts { units, ..middle_stage() })
    };
    for (level, reduce) in [(Zero0, Last), (Zero1, Last), (Zero2, Every)] {
        assert_eq!(bytes(&whole(level, reduce)), bytes(&middle_rank(level, reduce)), "{level:?}");
    }
    // 128 of the one and a shard of 80 of the other; in gradients the buffers for unreduced ones beside.
    assert_eq!(elements(&whole(Zero3, Every))[..4], [128 + 80, 320, 128 + 80 + 320, 2 * 144]);
    assert_eq!(elements(&whole(Zero3, Last))[..4], [128 + 80, 320, 288, 2 * 144]);
}

#[test]
fn gather_buffers_need_not_be_alike() {
    let with_buffers = |buffers: &[u64]| {
        elements(&RankFacts { gather_buffer_elements: buffers.to_vec(), ..middle_rank(Zero3, Every) })[1]
    };
    assert_eq!(with_buffers(&[]), 0);
    assert_eq!(with_buffers(&[160, 128]), 288);
}

#[test]
fn one_buffer_for_recomputation_serves_the_rank() {
    let mut units = vec![UNTIED, LARGER];
    (units[0].recompute_elements, units[1].recompute_elements) = (40, 30);
    let stage = StageFacts { units, ..middle_stage() };
    let rank = RankFacts { stages: vec![stage.clone(), stage], ..middle_rank(Zero1, Last) };
    // Two stages of 3 * 37 in slots, one recomputation buffer of 40, three streams of 9, a workspace of 5.
    assert_eq!(elements(&rank)[4], 2 * 111 + 40 + 27 + 5);
    let half = RankFacts { element_bytes: ElementBytes::HALF, ..rank };
    assert_eq!(bytes(&half)[4], 2 * (2 * 111 + 40 + 18) + 4 * (9 + 5));
}

/// Two stages on one rank: slots, edges and states add up; streams, scratch, the unreduced gradients are shared.
#[test]
fn stages_of_one_rank_share_what_only_one_unit_uses_at_a_time() {
    let second = StageFacts {
        num_activation_slots: 2,
        input_cut_elements: 19,
        num_gradient_send_buffers: 2,
        units: vec![UnitFacts { num_elements: 33, saved_elements: 6, ..UNTIED }],
        ..StageFacts::default()
    };
    let stages = vec![middle_stage(), second];
    let rank = RankFacts { stages, ..middle_rank(Zero3, Every) };
    // 33 elements are padded to 64, of which 32 are a shard.
    let wanted = [144 + 32, 320, 144 + 32 + 320, 2 * (144 + 32), 111 + 2 * 6 + 5 + 27, 70 + 4 * 19];
    assert_eq!(elements(&rank)[..6], wanted);
}

/// The turn of a V: the output stays in its slot, on no edge.
#[test]
fn a_stage_hands_its_output_over_in_place_where_the_next_one_is_here() {
    let turn = StageFacts { output_cut_elements: 0, local_output_elements: 13, ..middle_stage() };
    let rank = with_stage(middle_rank(Zero1, Last), turn);
    assert_eq!(elements(&rank)[4], elements(&middle_rank(Zero1, Last))[4]);
    assert_eq!(elements(&rank)[5], 4 * 11);
}

/// A tied weight is held once also where its uses are in two stages of one rank.
#[test]
fn a_tied_weight_is_found_across_the_stages_of_a_rank() {
    let stage = |tying| StageFacts { units: vec![UnitFacts { tying, ..UNTIED }], ..middle_stage() };
    let stages = vec![stage(Tying::Embedding), stage(Tying::Head)];
    let rank = RankFacts { stages, ..middle_rank(Zero1, Last) };
    assert_eq!(elements(&rank)[..4], [128, 0, 256, 2 * 64]);
}

/// Parameters of one layer in the 12-layer stage below; no unit of whole layers needs padding for d <= 8.
const LAYER: u64 = 128;

/// A stage of 12 layers in units of `unit_layers`, in whole layers: weights, gathered, gradients, AdamW's state.
fn stage_of_twelve(
    level: ZeroLevel,
    reduce: ReductionPolicy,
    d: u64,
    unit_layers: u64,
    buffers: usize,
) -> [f64; 4] {
    let unit = UnitFacts { num_elements: unit_layers * LAYER, ..UNTIED };
    let units = vec![unit; (12 / unit_layers) as usize];
    let rank = RankFacts {
        sharding: Sharding { level, reduce, data_degree: d },
        gather_buffer_elements: vec![unit_layers * LAYER; buffers],
        gradient_buffer_elements: vec![unit_layers * LAYER; 2],
        stages: vec![StageFacts { units, ..middle_stage() }],
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

/// The table of bytes for each parameter at rest of `docs/zero.md`: parameters, gradients, AdamW's state.
#[test]
fn the_documented_bytes_of_a_parameter_hold() {
    let of = |level, reduce, element_bytes, d: u64| {
        let unit = UnitFacts { num_elements: 12 * LAYER, ..UNTIED };
        let rank = RankFacts {
            sharding: Sharding { level, reduce, data_degree: d },
            element_bytes,
            gradient_buffer_elements: vec![12 * LAYER; 2],
            stages: vec![StageFacts { units: vec![unit], ..middle_stage() }],
            ..middle_rank(level, reduce)
        };
        let [parameters, _, gradients, optimizer, ..] = bytes(&rank);
        let in_flight = if reduce == Every { 2 * 4 * 12 * LAYER } else { 0 };
        [parameters, gradients - in_flight, optimizer].map(|bytes| bytes as f64 / (12 * LAYER) as f64)
    };
    for d in [1, 2, 4, 8] {
        let share = 1.0 / d as f64;
        let cases = [
            (Zero0, Last, [4.0, 4.0, 8.0], [2.0, 4.0, 12.0]),
            (Zero1, Last, [4.0, 4.0, 8.0 * share], [2.0, 4.0, 12.0 * share]),
            (Zero3, Every, [4.0, 4.0, 8.0].map(|b| b * share), [0.0, 4.0, 12.0].map(|b| b * share)),
        ];
        for (level, reduce, full, half) in cases {
            assert_eq!(of(level, reduce, ElementBytes::F32, d), full, "{level:?}, d = {d}");
            assert_eq!(of(level, reduce, ElementBytes::HALF, d), half, "{level:?}, d = {d}");
        }
    }
}

/// Frozen units of 100 and 130 elements over two data ranks: padded 128 and 160, their shards 64 and 80. Worked by hand.
#[test]
fn a_frozen_unit_holds_its_weights_alone() {
    let frozen = |unit: UnitFacts| UnitFacts { is_frozen: true, ..unit };
    let one = || StageFacts { units: vec![frozen(UNTIED), LARGER], ..middle_stage() };
    for (level, reduce, element_bytes, [parameters, gradients, optimizer]) in [
        (Zero0, Last, ElementBytes::F32, [4 * 288, 4 * 160, 8 * 160]),
        (Zero1, Last, ElementBytes::F32, [4 * 288, 4 * 160, 8 * 80]),
        (Zero1, Last, ElementBytes::HALF, [2 * 288, 4 * 160, 12 * 80]),
        (Zero3, Last, ElementBytes::F32, [4 * 144, 4 * 160, 8 * 80]),
        // The shard of the trained unit is cast from its master copy; the frozen one has none.
        (Zero3, Last, ElementBytes::HALF, [2 * 64, 4 * 160, 12 * 80]),
    ] {
        let rank = RankFacts { element_bytes, ..with_stage(middle_rank(level, reduce), one()) };
        let found = RankMemory::of(&rank);
        let found = [found.parameters, found.gradients, found.optimizer];
        assert_eq!(found, [parameters, gradients, optimizer], "{level:?}, {element_bytes:?}");
        let copied = RankMemory::of(&RankFacts { copies_checkpoints: true, ..rank });
        assert_eq!(copied.checkpoint, 4 * (64 + 3 * 80));
    }
    let units = vec![frozen(UNTIED), frozen(LARGER)];
    let rank = with_stage(middle_rank(Zero3, Every), StageFacts { units, ..middle_stage() });
    let none = RankMemory::of(&RankFacts { gradient_buffer_elements: Vec::new(), ..rank });
    assert_eq!((none.gradients, none.optimizer, none.parameters), (0, 0, 4 * 144));
}
