//! ZeRO beside pipelines: what is refused, with its numbers, and what is warned of.

use expect_test::expect;

use super::{check, run};
use crate::config::combination::num_parameters;

const MLP: &str = r#"{"family": "mlp", "num_layers": 8, "hidden_size": 100, "seq_length": 16}"#;

/// The numbers by hand, s = 2 for AdamW: a block has 100^2 + 100 = 10,100 parameters, embedding and head 25,600 each; a
/// stage of four blocks and one of the two has P = 66,000; a unit of one block and embedding U = 35,700. At d = 2 and
/// m = 4, G = 4 * 66,000 / 2 = 132,000. In bytes: parameters 264,000, optimizer 264,000; ZeRO-2 by micro-batch has
/// gradients 132,000 + 8 U = 417,600 and sends 5 G = 660,000; ZeRO-3 gathers 8 U = 285,600 and sends 12 G = 1,584,000.
/// Without the pipeline: P = 132,000, d = 4, m = 2: parameters 528,000, gradients 132,000 + 285,600, optimizer 264,000,
/// sent 3 * 396,000 = 1,188,000.
#[test]
fn zero_2_with_a_pipeline_is_refused_with_this_runs_numbers() {
    let changes = [
        ("model", MLP),
        ("parallel", r#"{"pipeline": 2, "data": 2}"#),
        ("gradient_accumulation_steps", "4"),
        ("zero_optimization", r#"{"stage": 2}"#),
    ];
    check(
        &changes,
        expect![[r#"
            run.json:8:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 2): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
              per rank                                                         parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-2, pipeline 2 x data 2, reduced once per step       257.8 KiB        0 B  257.8 KiB  257.8 KiB  773.4 KiB      257.8 KiB
              refused: ZeRO-2, pipeline 2 x data 2, reduced every micro-batch   257.8 KiB        0 B  407.8 KiB  257.8 KiB  923.4 KiB      644.5 KiB
              ZeRO-1, pipeline 2 x data 2                                       257.8 KiB        0 B  257.8 KiB  257.8 KiB  773.4 KiB      257.8 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer                     128.9 KiB  278.9 KiB  407.8 KiB  257.8 KiB    1.0 MiB        1.5 MiB
              ZeRO-2, pipeline 1 x data 4                                       515.6 KiB        0 B  407.8 KiB  257.8 KiB    1.2 MiB        1.1 MiB
        "#]],
    );
}

#[test]
fn zero_2_is_refused_even_where_sizes_are_wrong() {
    let changes = [("parallel", r#"{"pipeline": 5}"#), ("zero_optimization", r#"{"stage": 2}"#)];
    check(
        &changes,
        expect![[r#"
            run.json:6:28: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
            run.json:7:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 5): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
        "#]],
    );
}

#[test]
fn zero_3_needs_several_units_per_stage() {
    let parallel = ("parallel", r#"{"pipeline": 2, "data": 2, "partition": "uniform"}"#);
    check(
        &[parallel, ("zero_optimization", r#"{"stage": 3, "unit_layers": 2}"#)],
        expect![[r#"
            run.json:7:52: `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and a unit of 2 layers holds all 2 of stage 0): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; write "stage": 1, or use `unit_layers` below 2
              per rank                                                  parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit per stage    66.6 KiB  133.2 KiB  333.1 KiB  133.2 KiB  666.2 KiB      199.9 KiB
              ZeRO-1, pipeline 2 x data 2                                133.2 KiB        0 B  133.2 KiB  133.2 KiB  399.8 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer               66.6 KiB  103.2 KiB  169.9 KiB  133.2 KiB  473.0 KiB      199.9 KiB
              ZeRO-2, pipeline 1 x data 4                                232.8 KiB        0 B  260.7 KiB  116.4 KiB  609.8 KiB      349.1 KiB
        "#]],
    );
    check(
        &[parallel, ("zero_optimization", r#"{"stage": 3, "unit_layers": "stage"}"#)],
        expect![[r#"
            run.json:7:52: `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and a unit of 2 layers holds all 2 of stage 0): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; write "stage": 1, or use `unit_layers` below 2
              per rank                                                  parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit per stage    66.6 KiB  133.2 KiB  333.1 KiB  133.2 KiB  666.2 KiB      199.9 KiB
              ZeRO-1, pipeline 2 x data 2                                133.2 KiB        0 B  133.2 KiB  133.2 KiB  399.8 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer               66.6 KiB  103.2 KiB  169.9 KiB  133.2 KiB  473.0 KiB      199.9 KiB
              ZeRO-2, pipeline 1 x data 4                                232.8 KiB        0 B  459.2 KiB  116.4 KiB  808.3 KiB      349.1 KiB
        "#]],
    );
    let parallel = ("parallel", r#"{"pipeline": 2, "data": 2}"#);
    check(
        &[parallel, ("zero_optimization", r#"{"stage": 3, "unit_layers": 2}"#)],
        expect![[r#"
            run.json:7:52: `zero_optimization.unit_layers`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and a unit of 2 layers holds all of the smallest stage, which has at most 2): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; write "stage": 1, or use `unit_layers` below 2
              per rank                                                  parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, one unit per stage    66.6 KiB  133.2 KiB  333.1 KiB  133.2 KiB  666.2 KiB      199.9 KiB
              ZeRO-1, pipeline 2 x data 2                                133.2 KiB        0 B  133.2 KiB  133.2 KiB  399.8 KiB      133.2 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer               66.6 KiB  103.2 KiB  169.9 KiB  133.2 KiB  473.0 KiB      199.9 KiB
              ZeRO-2, pipeline 1 x data 4                                232.8 KiB        0 B  260.7 KiB  116.4 KiB  609.8 KiB      349.1 KiB
        "#]],
    );
    let parallel = ("parallel", r#"{"pipeline": 4, "data": 2}"#);
    let mlp = ("model", r#"{"family": "mlp", "num_layers": 4, "hidden_size": 8, "seq_length": 16}"#);
    check(
        &[mlp, parallel, ("zero_optimization", r#"{"stage": 3}"#)],
        expect![[r#"
            run.json:7:34: `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 4, and a unit of 1 layer holds all of the smallest stage, which has at most 1): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; write "stage": 1, or use a pipeline of at most 2, so that every stage has two units
              per rank                                                  parameters  gathered  gradients  optimizer     total  sent per step
              refused: ZeRO-3, pipeline 4 x data 2, one unit per stage     4.1 KiB   8.3 KiB   20.7 KiB    8.3 KiB  41.4 KiB       12.4 KiB
              ZeRO-1, pipeline 4 x data 2                                  8.3 KiB       0 B    8.3 KiB    8.3 KiB  24.8 KiB        8.3 KiB
              ZeRO-2, pipeline 1 x data 8                                 17.1 KiB       0 B   18.7 KiB    4.3 KiB  40.1 KiB       30.0 KiB
        "#]],
    );
    check(
        &[parallel, ("zero_optimization", r#"{"stage": 3}"#)],
        expect![[r#"
            run.json:7:34: `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 4, and a unit of 1 layer holds all of the smallest stage, which has at most 1): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; write "stage": 1, or use `unit_layers` 0.5
              per rank                                                  parameters  gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-3, pipeline 4 x data 2, one unit per stage    41.8 KiB  83.6 KiB  209.1 KiB   83.6 KiB  418.1 KiB      125.4 KiB
              ZeRO-1, pipeline 4 x data 2                                 83.6 KiB       0 B   83.6 KiB   83.6 KiB  250.9 KiB       83.6 KiB
              ZeRO-3, pipeline 4 x data 2, units of half a layer          41.8 KiB  69.8 KiB  111.6 KiB   83.6 KiB  306.8 KiB      125.4 KiB
              ZeRO-2, pipeline 1 x data 8                                232.8 KiB       0 B  132.3 KiB   58.2 KiB  423.3 KiB      407.3 KiB
        "#]],
    );
    let parallel = ("parallel", r#"{"pipeline": 2, "data": 2, "partition": [3, 1]}"#);
    check(
        &[mlp, parallel, ("zero_optimization", r#"{"stage": 3}"#)],
        expect![[r#"
            run.json:7:34: `zero_optimization.stage`: ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is 2, and a unit of 1 layer holds all 1 of stage 1): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; write "stage": 1, or give every stage at least 2 layers
              per rank                                                           parameters  gathered  gradients  optimizer     total  sent per step
              refused: ZeRO-3, pipeline 2 x data 2, stage 1, one unit per stage     4.1 KiB   8.3 KiB   20.7 KiB    8.3 KiB  41.4 KiB       12.4 KiB
              ZeRO-1, pipeline 2 x data 2, stage 1                                  8.3 KiB       0 B    8.3 KiB    8.3 KiB  24.8 KiB        8.3 KiB
              ZeRO-2, pipeline 1 x data 4                                          17.1 KiB       0 B   20.8 KiB    8.6 KiB  46.5 KiB       25.7 KiB
        "#]],
    );
    check(
        &[parallel, ("zero_optimization", r#"{"stage": 3}"#)],
        expect![[r#"
            run.json:7:34: warning: `zero_optimization.stage`: units of 1 layer with `prefetch_units` 1 hold 2 layers gathered and 1.5 at rest, no fewer than the 3 of no sharding; units pay where unit_layers x (1 + prefetch_units) < layers x (1 - 1 / data) = 1.5
        "#]],
    );
}

#[test]
fn zero_3_without_a_pipeline_may_have_one_unit_and_is_warned() {
    let data = ("parallel", r#"{"data": 2}"#);
    check(
        &[data, ("zero_optimization", r#"{"stage": 3, "unit_layers": "stage"}"#)],
        expect![[r#"
            run.json:7:52: warning: `zero_optimization.unit_layers`: a unit of 4 layers holds all 4 of stage 0: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak
        "#]],
    );
    check(
        &[data, ("zero_optimization", r#"{"stage": 3, "unit_layers": 9}"#)],
        expect![[r#"
            run.json:7:52: warning: `zero_optimization.unit_layers`: a unit of 9 layers holds all 4 of stage 0: the whole model is gathered at once, so ZeRO-3 saves no weights at its peak
        "#]],
    );
}

/// The worked example: 12 layers a stage, data degree 2, units of 4 with prefetch 1 hold 8 layers beside 6 at rest.
#[test]
fn units_that_cannot_pay_are_warned_of() {
    let model = r#"{"family": "mlp", "num_layers": 48, "hidden_size": 8, "seq_length": 16}"#;
    let outcome = |zero: &str, parallel: &str| {
        super::outcome(
            &super::file(&[("model", model), ("parallel", parallel), ("zero_optimization", zero)]),
            &[],
            super::LAUNCH,
        )
    };
    let grid = r#"{"pipeline": 4, "data": 2}"#;
    expect![[r#"
        run.json:7:52: warning: `zero_optimization.unit_layers`: units of 4 layers with `prefetch_units` 1 hold 8 layers gathered and 6.0 at rest, no fewer than the 12 of no sharding; units pay where unit_layers x (1 + prefetch_units) < layers x (1 - 1 / data) = 6.0
    "#]].assert_eq(&outcome(r#"{"stage": 3, "unit_layers": 4}"#, grid));
    // Break-even at data degree 2 and 12 layers: 5 layers without prefetch, 2 with.
    for (prefetch, pays) in [(0, 5), (1, 2)] {
        for unit in 1..12 {
            let zero = format!(r#"{{"stage": 3, "unit_layers": {unit}, "prefetch_units": {prefetch}}}"#);
            assert_eq!(outcome(&zero, grid) == "valid\n", unit <= pays, "{zero}");
        }
    }
}

/// 12 layers a stage at data degree 2: break-even is 6 layers gathered, in units of any size and any number.
#[test]
fn budgets_and_half_layers_have_the_same_break_even() {
    let model = r#"{"family": "gpt2", "num_layers": 48, "hidden_size": 8, "num_attention_heads": 1, "seq_length": 16}"#;
    let warns = |zero: &str| {
        let changes =
            [("model", model), ("parallel", r#"{"pipeline": 4, "data": 2}"#), ("zero_optimization", zero)];
        let outcome = super::outcome(&super::file(&changes), &[], super::LAUNCH);
        assert!(outcome == "valid\n" || outcome.contains("warning: `zero_optimization"), "{outcome}");
        outcome != "valid\n"
    };
    for units in 2..16 {
        assert_eq!(warns(&format!(r#"{{"stage": 3, "resident_units": {units}}}"#)), units >= 6);
        assert_eq!(
            warns(&format!(r#"{{"stage": 3, "unit_layers": 0.5, "resident_units": {units}}}"#)),
            units >= 12
        );
    }
    let zero = r#"{"stage": 3, "unit_layers": 2, "resident_units": 4}"#;
    let changes =
        [("model", model), ("parallel", r#"{"pipeline": 4, "data": 2}"#), ("zero_optimization", zero)];
    check(
        &changes,
        expect![[r#"
            run.json:7:73: warning: `zero_optimization.resident_units`: units of 2 layers with `resident_units` 4 hold 8 layers gathered and 6.0 at rest, no fewer than the 12 of no sharding; units pay where unit_layers x resident_units < layers x (1 - 1 / data) = 6.0
        "#]],
    );
}

/// 4 layers on a rank, in one unit of 4, or in units of 3 and 1: a prefetched second copy has no buffer.
#[test]
fn no_more_is_said_to_be_gathered_than_there_is() {
    let data = ("parallel", r#"{"data": 2}"#);
    for prefetch in 1..4 {
        let zero = format!(r#"{{"stage": 3, "unit_layers": 3, "prefetch_units": {prefetch}}}"#);
        let outcome = super::outcome(&super::file(&[data, ("zero_optimization", &zero)]), &[], super::LAUNCH);
        assert!(outcome.contains("hold 4 layers gathered and 2.0 at rest"), "{outcome}");
    }
}

#[test]
fn a_budget_gathers_no_more_than_a_rank_has() {
    let zero = r#"{"stage": 3, "resident_units": 1000}"#;
    check(
        &[("parallel", r#"{"data": 2}"#), ("zero_optimization", zero)],
        expect![[r#"
            run.json:7:55: warning: `zero_optimization.resident_units`: units of 1 layer with `resident_units` 1000 hold 4 layers gathered and 2.0 at rest, no fewer than the 4 of no sharding; units pay where unit_layers x resident_units < layers x (1 - 1 / data) = 2.0
        "#]],
    );
}

/// Two stages on each rank are two units at least: nothing is refused, and break-even counts the layers of a rank.
#[test]
fn several_stages_on_a_rank_are_several_units() {
    let model = r#"{"family": "gpt2", "num_layers": 24, "hidden_size": 8, "num_attention_heads": 1, "seq_length": 16}"#;
    let outcome = |zero: &str| {
        let parallel = r#"{"pipeline": 2, "data": 8, "schedule": "interleaved", "virtual_stages": 4}"#;
        let changes = [("model", model), ("parallel", parallel), ("zero_optimization", zero)];
        super::outcome(&super::file(&changes), &[], super::LAUNCH)
    };
    // 12 layers on a rank, in stages of 3: break-even at data degree 8 is 10.5 layers.
    expect![[r#"
        valid
    "#]]
    .assert_eq(&outcome(r#"{"stage": 3, "unit_layers": "stage"}"#));
    expect![[r#"
        valid
    "#]]
    .assert_eq(&outcome(r#"{"stage": 3, "unit_layers": "stage", "resident_units": 3}"#));
    expect![[r#"
        run.json:7:79: warning: `zero_optimization.resident_units`: units of 3 layers with `resident_units` 4 hold 12 layers gathered and 1.5 at rest, no fewer than the 12 of no sharding; units pay where unit_layers x resident_units < layers x (1 - 1 / data) = 10.5
    "#]].assert_eq(&outcome(r#"{"stage": 3, "unit_layers": "stage", "resident_units": 4}"#));
}

/// By hand as above, in bf16: parameters and gathers of 2 bytes, gradients of 4, and a master copy in the optimizer's state:
/// parameters 132,000, gathered 142,800, optimizer 3 x 132,000, G = 66,000 and R = 132,000.
#[test]
fn half_precision_halves_what_is_gathered() {
    let changes = [
        ("model", MLP),
        ("parallel", r#"{"pipeline": 2, "data": 2, "partition": "uniform"}"#),
        ("gradient_accumulation_steps", "4"),
        ("zero_optimization", r#"{"stage": 2}"#),
        ("bf16", r#"{"enabled": true}"#),
    ];
    check(
        &changes,
        expect![[r#"
            run.json:8:34: `zero_optimization.stage`: ZeRO-2 is incompatible with pipeline parallelism (`parallel.pipeline` is 2): gradients would either accumulate unsharded over the micro-batches, which is ZeRO-1's memory, or be reduced after every one of them, which is ZeRO-3's reductions without freeing weights; write "stage": 1, or "stage": 3 with units smaller than a stage, or "pipeline": 1
              per rank                                                         parameters   gathered  gradients  optimizer      total  sent per step
              refused: ZeRO-2, pipeline 2 x data 2, reduced once per step       128.9 KiB        0 B  257.8 KiB  386.7 KiB  773.4 KiB      193.4 KiB
              refused: ZeRO-2, pipeline 2 x data 2, reduced every micro-batch   128.9 KiB        0 B  407.8 KiB  386.7 KiB  923.4 KiB      580.1 KiB
              ZeRO-1, pipeline 2 x data 2                                       128.9 KiB        0 B  257.8 KiB  386.7 KiB  773.4 KiB      193.4 KiB
              ZeRO-3, pipeline 2 x data 2, units of 1 layer                      64.5 KiB  139.5 KiB  407.8 KiB  386.7 KiB  998.4 KiB        1.0 MiB
              ZeRO-2, pipeline 1 x data 4                                       257.8 KiB        0 B  407.8 KiB  386.7 KiB    1.0 MiB      966.8 KiB
        "#]],
    );
}

#[test]
fn one_data_rank_leaves_nothing_to_shard() {
    check(
        &[("parallel", r#"{"pipeline": 2}"#), ("zero_optimization", r#"{"stage": 3}"#)],
        expect![[r#"
            run.json:7:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-3 has nothing left to shard: all 59584 parameters stay whole
        "#]],
    );
    check(
        &[("zero_optimization", r#"{"stage": 1}"#)],
        expect![[r#"
            run.json:6:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-1 has nothing left to shard: all 59584 parameters stay whole
        "#]],
    );
}

/// OpenAI's small and medium models, whose sizes are known: 124,439,808 and 354,823,168 parameters.
#[test]
fn gpt_2_has_as_many_parameters_as_is_known() {
    for (layers, hidden, heads, expected) in [(12, 768, 12, 124_439_808), (24, 1024, 16, 354_823_168)] {
        let model = format!(
            r#"{{"family": "gpt2", "num_layers": {layers}, "hidden_size": {hidden}, "num_attention_heads": {heads},
                "seq_length": 1024, "vocab_size": 50257}}"#
        );
        assert_eq!(num_parameters(&run(&[("model", &model)]).model), expected);
    }
}
