//! ZeRO's own keys: units, residency, prefetching, persistence and reduction.

use expect_test::expect;

use super::{RESOURCES, check, check_each, check_values, file, run, said};
use crate::resolved::{
    OverlapComm, ReductionPolicy, ResidencyConfig, ShardingConfig, UnitLayers, ZeroConfig, ZeroLevel,
};
use crate::{RunFile, StudentRun};

#[test]
fn reduction_follows_the_level() {
    let zero = |zero: &str| run(&[("zero_optimization", zero)]).zero.reduce;
    assert_eq!(zero(r#"{}"#), ReductionPolicy::Last);
    assert_eq!(zero(r#"{"stage": 1, "reduce": "last"}"#), ReductionPolicy::Last);
    assert_eq!(zero(r#"{"stage": 2}"#), ReductionPolicy::Every);
    assert_eq!(zero(r#"{"stage": 3}"#), ReductionPolicy::Every);
    assert_eq!(zero(r#"{"stage": 3, "reduce": "last"}"#), ReductionPolicy::Last);
    assert_eq!(zero(r#"{"stage": 1, "reduce": "every"}"#), ReductionPolicy::Last);
    check_values(
        "zero_optimization",
        &[
            r#"{"stage": 1, "reduce": "every"}"#,
            r#"{"stage": 2, "reduce": "last"}"#,
            r#"{"stage": 3, "reduce": "always"}"#,
        ],
        expect![[r#"
            run.json:6:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-1 has nothing left to shard: all 59584 parameters stay whole
              run.json:6:47: warning: `zero_optimization.reduce`: no effect: ZeRO-1 keeps whole gradients, which are reduced once per step
            run.json:6:47: `zero_optimization.reduce` is "last", but gradients that are reduced once accumulate unsharded, which is ZeRO-1; use "every", or write "stage": 1
            run.json:6:47: `zero_optimization.reduce` is "always", but it must be "every" or "last"; use "every" or "last"
        "#]],
    );
}

#[test]
fn residency_and_prefetch() {
    let data = ("parallel", r#"{"data": 2}"#);
    let zero = |zero: &str| run(&[data, ("zero_optimization", zero)]).zero;
    let resident_units = ResidencyConfig::Strict;
    let strict = zero(r#"{"stage": 3, "resident_units": "strict", "prefetch_units": "auto"}"#);
    let expected = ZeroConfig {
        level: ZeroLevel::Zero3,
        unit_layers: UnitLayers::ONE,
        resident_units,
        prefetch_units: 1,
        sharding: ShardingConfig::SHARDED,
        reduce: ReductionPolicy::Every,
        overlap_comm: OverlapComm::True,
        param_persistence_threshold: 0,
        model_persistence_threshold: u64::MAX,
    };
    assert_eq!(strict, expected);
    assert_eq!(zero(r#"{"stage": 3}"#).resident_units, ResidencyConfig::Level);
    assert_eq!(zero(r#"{"stage": 3, "resident_units": "level"}"#).resident_units, ResidencyConfig::Level);
    assert_eq!(zero(r#"{"stage": 3, "resident_units": 5}"#).resident_units, ResidencyConfig::Units(5));
    assert_eq!(zero(r#"{"stage": 3, "resident_units": "all"}"#).resident_units, ResidencyConfig::All);
    let per_rank = run(&[
        ("parallel", r#"{"pipeline": 2, "data": 2}"#),
        ("zero_optimization", r#"{"stage": 3, "resident_units": [2, 4]}"#),
    ]);
    assert_eq!(per_rank.zero.resident_units, ResidencyConfig::PerRank(vec![2, 4]));
    let auto =
        [data, ("memory", "\"1GiB\""), ("zero_optimization", r#"{"stage": 3, "resident_units": "auto"}"#)];
    assert_eq!(run(&auto).zero.resident_units, ResidencyConfig::Auto);
    check_each(
        &[
            &[("zero_optimization", r#"{"stage": 3, "resident_units": 1}"#)],
            &[data, auto[2]],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": 1e10}"#)],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": 3, "prefetch_units": 3}"#)],
            &[("zero_optimization", r#"{"stage": 3, "resident_units": "strickt"}"#)],
            &[("zero_optimization", r#"{"stage": 1, "resident_units": "strickt"}"#)],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": [2, 3]}"#)],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": []}"#)],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": [1]}"#)],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": [2.5]}"#)],
            &[("zero_optimization", r#"{"stage": 3, "prefetch_units": 257}"#)],
            &[("zero_optimization", r#"{"stage": 4}"#)],
            &[("zero_optimization", r#"{"stage": true}"#)],
        ],
        expect![[r#"
            run.json:6:55: `zero_optimization.resident_units` is 1, but the unit in use and 1 prefetched one must fit, so at least 2 are needed; use 2, or fewer `prefetch_units`
            run.json:7:55: `zero_optimization.resident_units` is "auto", but it keeps as many units as fit `memory`, which is not set; set `memory` to what a rank may hold, such as "80GiB", or use "level"
            run.json:7:55: `zero_optimization.resident_units` is 10000000000, but no rank has so many units; use "all"
            run.json:7:55: `zero_optimization.resident_units` is 3, but the unit in use and 3 prefetched ones must fit, so at least 4 are needed; use 4, or fewer `prefetch_units`
            run.json:6:55: `zero_optimization.resident_units` is "strickt", but it must be a whole number or "level", "strict", "all" or "auto" or a list, each element a whole number; did you mean "strict"?
            run.json:6:55: `zero_optimization.resident_units` is "strickt", but it must be a whole number or "level", "strict", "all" or "auto" or a list, each element a whole number; did you mean "strict"?
            run.json:7:55: `zero_optimization.resident_units` is [2, 3], but a list has one number for each pipeline rank, and `parallel.pipeline` is 1; write 1 number, or one number without a list
            run.json:7:55: `zero_optimization.resident_units` is [], but a list has one number for each pipeline rank, and `parallel.pipeline` is 1; write 1 number, or one number without a list
            run.json:7:55: `zero_optimization.resident_units` is [1], but the unit in use and 1 prefetched one must fit, so at least 2 are needed; use 2, or fewer `prefetch_units`
            run.json:7:56: `zero_optimization.resident_units[0]` must be a whole number, but is 2.5; write 3
            run.json:6:55: `zero_optimization.prefetch_units` is 257, but each unit gathered ahead takes memory: it is at most 256; use a small number such as 1, or `resident_units` to keep what was gathered
            run.json:6:34: `zero_optimization.stage` is 4, but ZeRO has the levels 0, 1, 2 and 3; use one of them
            run.json:6:34: `zero_optimization.stage` must be a whole number, but is true; write a value such as 0
        "#]],
    );
}

#[test]
fn units_are_halves_or_whole_blocks() {
    let data = ("parallel", r#"{"data": 2}"#);
    let zero = |units: &str| format!(r#"{{"stage": 3, "unit_layers": {units}}}"#);
    for (text, expected) in [
        ("0.5", UnitLayers::Half),
        ("1", UnitLayers::ONE),
        ("3.0", UnitLayers::of_blocks(3).unwrap()),
        ("\"stage\"", UnitLayers::Stage),
    ] {
        assert_eq!(run(&[data, ("zero_optimization", &zero(text))]).zero.unit_layers, expected);
    }
    let mlp = ("model", r#"{"family": "mlp", "num_layers": 4, "hidden_size": 8, "seq_length": 16}"#);
    check_each(
        &[
            &[data, ("zero_optimization", &zero("0"))],
            &[data, ("zero_optimization", &zero("-1"))],
            &[data, ("zero_optimization", &zero("0.25"))],
            &[data, ("zero_optimization", &zero("1.5"))],
            &[data, ("zero_optimization", &zero("\"block\""))],
            &[data, mlp, ("zero_optimization", &zero("0.5"))],
        ],
        expect![[r#"
            run.json:7:52: `zero_optimization.unit_layers` is 0, but a unit is half a block or whole blocks; use 0.5, 1 or a larger whole number
            run.json:7:52: `zero_optimization.unit_layers` is -1, but a unit is half a block or whole blocks; use 0.5, 1 or a larger whole number
            run.json:7:52: `zero_optimization.unit_layers` is 0.25, but a unit is half a block or whole blocks; use 0.5, 1 or a larger whole number
            run.json:7:52: `zero_optimization.unit_layers` is 1.5, but a unit is half a block or whole blocks; use 0.5, 1 or a larger whole number
            run.json:7:52: `zero_optimization.unit_layers` is "block", but it must be a number or "stage"; use "stage"
            run.json:7:52: `zero_optimization.unit_layers` is 0.5, but only the blocks of families "gpt2" and "llama" have halves: attention and MLP; use 1 or more
        "#]],
    );
}

/// What may be a number or a word names both where it is neither.
#[test]
fn numbers_in_quotes_and_unknown_words_are_told_all_that_the_key_may_be() {
    check_values(
        "zero_optimization",
        &[
            r#"{"stage": 3, "resident_units": "2"}"#,
            r#"{"stage": 3, "resident_units": "some"}"#,
            r#"{"stage": 3, "resident_units": "al"}"#,
            r#"{"stage": 3, "unit_layers": "0.5"}"#,
            r#"{"stage": 3, "unit_layers": "stag"}"#,
            r#"{"stage": 3, "prefetch_units": "2"}"#,
        ],
        expect![[r#"
            run.json:6:55: `zero_optimization.resident_units` must be a whole number or "level", "strict", "all" or "auto" or a list, each element a whole number, but is the string "2"; write 2, without quotes
            run.json:6:55: `zero_optimization.resident_units` is "some", but it must be a whole number or "level", "strict", "all" or "auto" or a list, each element a whole number; use "level", "strict", "all" or "auto"
            run.json:6:55: `zero_optimization.resident_units` is "al", but it must be a whole number or "level", "strict", "all" or "auto" or a list, each element a whole number; did you mean "all"?
            run.json:6:52: `zero_optimization.unit_layers` must be a number or "stage", but is the string "0.5"; write 0.5, without quotes
            run.json:6:52: `zero_optimization.unit_layers` is "stag", but it must be a number or "stage"; did you mean "stage"?
            run.json:6:55: `zero_optimization.prefetch_units` must be a whole number or "auto", but is the string "2"; write 2, without quotes
        "#]],
    );
}

#[test]
fn persistence_thresholds() {
    let data = ("parallel", r#"{"data": 2}"#);
    let thresholds = |keys: &str| {
        let zero = run(&[data, ("zero_optimization", &format!(r#"{{"stage": 3{keys}}}"#))]).zero;
        (zero.param_persistence_threshold, zero.model_persistence_threshold)
    };
    assert_eq!(thresholds(""), (0, u64::MAX));
    // 10 x the hidden size of 32.
    assert_eq!(thresholds(r#", "stage3_param_persistence_threshold": "auto""#), (320, u64::MAX));
    let both = r#", "stage3_param_persistence_threshold": 1e5, "stage3_model_persistence_threshold": 2e6"#;
    assert_eq!(thresholds(both), (100_000, 2_000_000));
    assert_eq!(thresholds(r#", "stage3_model_persistence_threshold": "auto""#), (0, u64::MAX));
    check(
        &[data, ("zero_optimization", r#"{"stage": 3, "stage3_param_persistence_threshold": -1}"#)],
        expect![[r#"
            run.json:7:75: `zero_optimization.stage3_param_persistence_threshold` is -1, but it must not be negative; use a positive number
        "#]],
    );
}

/// Everything gathered all step is a choice, and is named for what it is.
#[test]
fn keeping_all_units_gathered_causes_a_warning() {
    let data = ("parallel", r#"{"data": 2}"#);
    check_each(
        &[
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": "all"}"#)],
            &[data, ("zero_optimization", r#"{"stage": 3, "resident_units": "all", "reduce": "last"}"#)],
        ],
        expect![[r#"
            run.json:7:55: warning: `zero_optimization.resident_units`: every unit stays gathered all step, and gradients are reduced after every micro-batch: that is the weights of no sharding with the reductions of ZeRO-3; ZeRO-1 reduces once
            run.json:7:55: warning: `zero_optimization.resident_units`: every unit stays gathered all step, and gradients are reduced once: that is ZeRO-1 with its gathers before the step instead of after it, and a second copy of each shard
        "#]],
    );
}

#[test]
fn keys_of_a_higher_level_are_named_in_one_warning() {
    let zero = r#"{"stage": 1, "stage3_param_persistence_threshold": 1e5, "prefetch_units": 7,
        "stage3_max_live_parameters": 1e9, "resident_units": "all"}"#;
    check(
        &[("parallel", r#"{"data": 2}"#), ("zero_optimization", zero)],
        expect![[r#"
            run.json:7:3: warning: `zero_optimization`: ZeRO-1 keeps every parameter gathered, so these keys of ZeRO-3 have no effect: `stage3_max_live_parameters`, `resident_units`, `prefetch_units`, `stage3_param_persistence_threshold`
        "#]],
    );
}

#[test]
fn parameters_are_listed_by_kind_and_pattern() {
    let zero = |list: &str| format!(r#"{{"stage": 3, "parameters": {list}}}"#);
    let list = zero(r#"["whole:wte|lm_head", "persistent:h\\.0\\.", "sharded:H.1"]"#);
    let rules = run(&[("zero_optimization", &list)]).zero.sharding;
    let written: Vec<String> = rules.rules().iter().map(ToString::to_string).collect();
    assert_eq!(written, ["whole:wte|lm_head", r"persistent:h\.0\.", "sharded:H.1"]);
    let (form, pattern, kind) =
        (zero(r#"["wte"]"#), zero(r#"["whole:wte("]"#), zero(r#"["kept:wte", "whole:"]"#));
    let thresholds = r#"{"stage": 3, "parameters": ["whole:wte"], "stage3_param_persistence_threshold": 10}"#;
    let below = r#"{"stage": 1, "parameters": ["whole:wte"]}"#;
    let auto = r#"{"stage": 3, "sharding": "auto", "stage3_param_persistence_threshold": 10}"#;
    assert_eq!(run(&[("zero_optimization", auto)]).zero.sharding, ShardingConfig::Auto);
    check_each(
        &[
            &[("zero_optimization", &form)],
            &[("zero_optimization", &pattern)],
            &[("zero_optimization", &kind)],
            &[("zero_optimization", r#"{"stage": 3, "parameters": "whole:wte"}"#)],
            &[("zero_optimization", thresholds)],
            &[("zero_optimization", below)],
            &[("zero_optimization", auto)],
            &[("zero_optimization", r#"{"stage": 3, "sharding": "auto", "parameters": ["whole:wte"]}"#)],
            &[("zero_optimization", r#"{"stage": 3, "sharding": "everything"}"#)],
        ],
        expect![[r#"
            run.json:6:52: `zero_optimization.parameters[0]` is "wte", but it must be "sharded:REGEX", "persistent:REGEX" or "whole:REGEX", with a regular expression of names of parameters or layers; write one such as "whole:wte|lm_head"
            run.json:6:52: `zero_optimization.parameters[0]` is "whole:wte(", but that is no regular expression: unclosed group; correct it
            run.json:6:52: `zero_optimization.parameters[0]` is "kept:wte", but it must be "sharded:REGEX", "persistent:REGEX" or "whole:REGEX", with a regular expression of names of parameters or layers; write one such as "whole:wte|lm_head"
            run.json:6:51: `zero_optimization.parameters` must be a list, each element "sharded:REGEX", "persistent:REGEX" or "whole:REGEX", but is the string "whole:wte"; write a value such as []
            run.json:6:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-3 has nothing left to shard: all 59584 parameters stay whole
              run.json:6:104: hint: `zero_optimization.stage3_param_persistence_threshold`: no effect here: `parameters` says what persists
            run.json:6:3: warning: `zero_optimization`: ZeRO-1 keeps every parameter gathered, so these keys of ZeRO-3 have no effect: `parameters`
              run.json:6:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-1 has nothing left to shard: all 59584 parameters stay whole
            run.json:6:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-3 has nothing left to shard: all 59584 parameters stay whole
              run.json:6:95: hint: `zero_optimization.stage3_param_persistence_threshold`: no effect here: `sharding` is "auto", which says what persists
            run.json:6:49: `zero_optimization.sharding` is "auto", but it makes the list that `parameters` has already; remove it, or remove `parameters`
            run.json:6:49: `zero_optimization.sharding` is "everything", but it must be "listed" or "auto"; use "listed" or "auto"
        "#]],
    );
}

/// As in DeepSpeed null is the default; where gradients are reduced once, less overlap is asked for in vain.
#[test]
fn overlap_comm_counts_where_gradients_are_reduced_often() {
    let resolved =
        |zero: &str| run(&[("parallel", r#"{"data": 2}"#), ("zero_optimization", zero)]).zero.overlap_comm;
    for (written, expected) in [
        ("true", OverlapComm::True),
        ("null", OverlapComm::True),
        ("false", OverlapComm::False),
        (r#""auto""#, OverlapComm::Auto),
    ] {
        for (level, reduce) in [(2, "every"), (3, "every"), (3, "last")] {
            let zero = format!(r#"{{"stage": {level}, "reduce": "{reduce}", "overlap_comm": {written}}}"#);
            assert_eq!(resolved(&zero), expected, "{zero}");
        }
    }
    assert_eq!(resolved(r#"{"stage": 3}"#), OverlapComm::True);
    check_values(
        "zero_optimization",
        &[
            r#"{"stage": 0, "overlap_comm": true}"#,
            r#"{"stage": 0, "overlap_comm": false}"#,
            r#"{"stage": 0, "overlap_comm": "auto"}"#,
            r#"{"stage": 0, "overlap_comm": "yes"}"#,
        ],
        expect![[r#"
            valid
            run.json:6:53: hint: `zero_optimization.overlap_comm`: no effect here: gradients are reduced once per step, out of the buffers in which they accumulate
            run.json:6:53: hint: `zero_optimization.overlap_comm`: no effect here: gradients are reduced once per step, out of the buffers in which they accumulate
            run.json:6:53: `zero_optimization.overlap_comm` must be true or false or "auto", but is the string "yes"; write a value such as true
        "#]],
    );
}

/// ZeRO-2 in a pipeline is refused to runs that train alone, and shown beside a ZeRO-3 of the same keys to no others.
#[test]
fn an_engine_that_does_not_train_gets_no_advice_on_gradients() {
    let student = run(&[]);
    let changes = [
        ("parallel", r#"{"pipeline": 2}"#),
        ("zero_optimization", r#"{"stage": 2, "prefetch_units": 100000, "overlap_comm": false}"#),
    ];
    let teacher = RunFile::parse("run.json", &file(&changes)).unwrap();
    let resolved = teacher.resolve_for_inference(RESOURCES, StudentRun { name: "small", run: &student });
    let about_zero: Vec<String> =
        said(resolved).lines().filter(|line| line.contains("zero_optimization")).map(str::to_owned).collect();
    expect![[r#"
        run.json:7:3: warning: `zero_optimization`: ZeRO-2 keeps every parameter gathered, so these keys of ZeRO-3 have no effect: `prefetch_units`
        run.json:7:34: warning: `zero_optimization.stage`: the data degree is 1, so ZeRO-2 has nothing left to shard: all 59584 parameters stay whole
        run.json:7:79: hint: `zero_optimization.overlap_comm`: no effect here: this engine is not trained, so it has no gradients"#]].assert_eq(&about_zero.join("\n"));
}
