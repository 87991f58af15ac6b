//! The grid, the schedule and the partition.

use expect_test::expect;

use super::{check, check_values, run};
use crate::resolved::PartitionConfig;

#[test]
fn the_grid() {
    check_values(
        "parallel",
        &[r#"{"pipeline": 5}"#, r#"{"pipeline": 0}"#, r#"{"data": 0}"#],
        expect![[r#"
            run.json:6:28: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
            run.json:6:28: `parallel.pipeline` is 0, but it must be at least 1; use 1 or more
            run.json:6:24: `parallel.data` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
}

#[test]
fn the_partition() {
    let partition = |list: &str| format!(r#"{{"pipeline": 2, "partition": {list}}}"#);
    for (word, expected) in [
        ("balanced", PartitionConfig::Balanced),
        ("uniform", PartitionConfig::Uniform),
        ("parameters", PartitionConfig::Parameters),
        ("type:block|h[.]", PartitionConfig::Type("block|h[.]".to_owned())),
    ] {
        let found = run(&[("parallel", &partition(&format!("\"{word}\"")))]).parallel.partition;
        assert_eq!(found, expected);
    }
    assert_eq!(run(&[]).parallel.partition, PartitionConfig::Balanced);
    check_values(
        "parallel",
        &[
            &partition("[2, 3]"),
            &partition("[4]"),
            &partition("[4, 0]"),
            &partition("[18446744073709551615, 5]"),
            &partition("\"type:\""),
            &partition("\"type:h[\""),
            &partition("\"type:(?<=a)b\""),
            &partition("\"Type:block\""),
            &partition("\"profile\""),
            &partition("\"best\""),
            &partition("\"balance\""),
            &partition("\"equal\""),
            &partition("[\"2\", 2]"),
        ],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [2, 3], but its sum is 5 and `model.num_layers` is 4; use numbers with sum 4
            run.json:6:44: `parallel.partition` is [4], but the pipeline has 2 stages: the list has one number for each; write 2 numbers
            run.json:6:44: `parallel.partition` is [4, 0], but stage 1 would have no layer: every stage needs at least one; use 1 or more for each
            run.json:6:44: `parallel.partition` is [18446744073709551615, 5], but its sum is more than 2^64 and `model.num_layers` is 4; use numbers with sum 4
            run.json:6:44: `parallel.partition` is "type:", but it names no layers: a regular expression must follow the colon; use one such as "type:block"
            run.json:6:44: `parallel.partition` is "type:h[", but that is no regular expression: unclosed character class; correct it, or use "balanced"
            run.json:6:44: `parallel.partition` is "type:(?<=a)b", but that is no regular expression: look-around, including look-ahead and look-behind, is not supported; correct it, or use "balanced"
            run.json:6:44: `parallel.partition` is "Type:block", but it must be "balanced", "uniform", "parameters" or "type:REGEX"; use "balanced", "uniform", "parameters" or "type:REGEX"
            run.json:6:44: `parallel.partition` is "profile", but that is not offered; use "balanced", "uniform", "parameters" or "type:REGEX"
            run.json:6:44: `parallel.partition` is "best", but that is not offered; use "balanced", "uniform", "parameters" or "type:REGEX"
            run.json:6:44: `parallel.partition` is "balance", but it must be "balanced", "uniform", "parameters" or "type:REGEX"; did you mean "balanced"?
            run.json:6:44: `parallel.partition` is "equal", but it must be "balanced", "uniform", "parameters" or "type:REGEX"; use "balanced", "uniform", "parameters" or "type:REGEX"
            run.json:6:45: `parallel.partition[0]` must be a whole number, but is the string "2"; write 2, without quotes
        "#]],
    );
    assert_eq!(
        run(&[("parallel", &partition("[1, 3]"))]).parallel.partition,
        PartitionConfig::Manual(vec![1, 3])
    );
}

/// A list has a number for each stage, of which a rank may have several.
#[test]
fn a_list_counts_stages() {
    let parallel = |list: &str| {
        format!(r#"{{"pipeline": 2, "virtual_stages": 2, "schedule": "interleaved", "partition": {list}}}"#)
    };
    check(
        &[("parallel", &parallel("[2, 2]"))],
        expect![[r#"
            run.json:6:92: `parallel.partition` is [2, 2], but the pipeline has 4 stages: the list has one number for each; write 4 numbers
        "#]],
    );
    let found = run(&[("parallel", &parallel("[1, 1, 1, 1]"))]).parallel;
    assert_eq!((found.num_stages(), found.partition), (4, PartitionConfig::Manual(vec![1; 4])));
}
