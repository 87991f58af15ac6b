//! The grid, the schedule and the partition.

use expect_test::expect;

use super::{check, run};
use crate::config::resolved::{PartitionConfig, ScheduleName};

#[test]
fn the_grid() {
    check(
        &[("parallel", r#"{"pipeline": 5}"#)],
        expect![[r#"
            run.json:6:28: `parallel.pipeline` is 5, but the model has 4 layers: every stage needs at least one; use at most 4
        "#]],
    );
    check(
        &[("parallel", r#"{"pipeline": 0}"#)],
        expect![[r#"
            run.json:6:28: `parallel.pipeline` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
    check(
        &[("parallel", r#"{"data": 0}"#)],
        expect![[r#"
            run.json:6:24: `parallel.data` is 0, but it must be at least 1; use 1 or more
        "#]],
    );
    check(
        &[("parallel", r#"{"schedule": "zb-h1"}"#)],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is "zb-h1", but that is not offered yet; use "gpipe" or "1f1b"
        "#]],
    );
    check(
        &[("parallel", r#"{"schedule": "1f2b"}"#)],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is "1f2b", but it must be "gpipe" or "1f1b"; did you mean "1f1b"?
        "#]],
    );
    check(
        &[("parallel", r#"{"schedule": {"file": "a.csv"}}"#)],
        expect![[r#"
            run.json:6:28: `parallel.schedule` is file "a.csv", but a schedule of one's own is not offered yet; use "gpipe" or "1f1b"
        "#]],
    );
    check(
        &[("parallel", r#"{"virtual_stages": 2, "group_size": 4}"#)],
        expect![[r#"
            run.json:6:34: `parallel.virtual_stages` is 2, but more than one stage per rank is not offered yet; remove it, or set 1
            run.json:6:51: `parallel.group_size` is 4, but the group size of interleaved schedules is not offered yet; remove it
        "#]],
    );
    check(
        &[("parallel", r#"{"virtual_stages": 1}"#)],
        expect![[r#"
            valid
        "#]],
    );
    assert_eq!(run(&[("parallel", r#"{"schedule": "gpipe"}"#)]).parallel.schedule, ScheduleName::GPipe);
}

#[test]
fn the_partition() {
    let partition = |list: &str| format!(r#"{{"pipeline": 2, "partition": {list}}}"#);
    check(
        &[("parallel", &partition("[2, 3]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [2, 3], but its sum is 5 and `model.num_layers` is 4; use numbers with sum 4
        "#]],
    );
    check(
        &[("parallel", &partition("[4]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [4], but `parallel.pipeline` is 2: the list has one number per stage; write 2 numbers
        "#]],
    );
    check(
        &[("parallel", &partition("[4, 0]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [4, 0], but stage 1 would have no layer: every stage needs at least one; use 1 or more for each
        "#]],
    );
    check(
        &[("parallel", &partition("[18446744073709551615, 5]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is [18446744073709551615, 5], but its sum is more than 2^64 and `model.num_layers` is 4; use numbers with sum 4
        "#]],
    );
    check(
        &[("parallel", &partition("\"balanced\""))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is "balanced", but that is not offered yet; use "uniform"
        "#]],
    );
    check(
        &[("parallel", &partition("\"type:block\""))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is "type:block", but that is not offered yet; use "uniform"
        "#]],
    );
    check(
        &[("parallel", &partition("\"equal\""))],
        expect![[r#"
            run.json:6:44: `parallel.partition` is "equal", but it must be "uniform"; use "uniform"
        "#]],
    );
    check(
        &[("parallel", &partition("[\"2\", 2]"))],
        expect![[r#"
            run.json:6:44: `parallel.partition` must be "uniform" or a list, each element a whole number, but is a list
        "#]],
    );
    assert_eq!(
        run(&[("parallel", &partition("[1, 3]"))]).parallel.partition,
        PartitionConfig::Manual(vec![1, 3])
    );
}
