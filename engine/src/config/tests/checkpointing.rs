//! Activation checkpointing.

use expect_test::expect;

use super::{check_each, run};
use crate::config::resolved::Checkpointing;

fn checkpointing(unit_layers: &str, keys: &str) -> Checkpointing {
    let zero = format!(r#"{{"unit_layers": {unit_layers}}}"#);
    run(&[("zero_optimization", &zero), ("activation_checkpointing", keys)]).checkpointing
}

#[test]
fn units_or_every_so_many_layers() {
    assert_eq!(run(&[]).checkpointing, Checkpointing::Off);
    assert_eq!(checkpointing("1", "{}"), Checkpointing::Off);
    assert_eq!(checkpointing("1", r#"{"enabled": false}"#), Checkpointing::Off);
    assert_eq!(checkpointing("1", r#"{"enabled": true}"#), Checkpointing::Unit);
    assert_eq!(checkpointing("0.5", r#"{"enabled": true}"#), Checkpointing::Unit);
    assert_eq!(checkpointing("1", r#"{"every_layers": 1}"#), Checkpointing::Layers(1));
    assert_eq!(checkpointing("4", r#"{"enabled": true, "every_layers": 3}"#), Checkpointing::Layers(3));
    assert_eq!(checkpointing("\"stage\"", r#"{"every_layers": 4}"#), Checkpointing::Layers(4));
}

#[test]
fn a_recomputation_stays_within_its_unit() {
    let unit = |layers: &str| format!(r#"{{"unit_layers": {layers}}}"#);
    let every = |layers: &str| format!(r#"{{"every_layers": {layers}}}"#);
    let two = every("2");
    let half = unit("0.5");
    let one = every("1");
    check_each(
        &[
            &[("activation_checkpointing", &two)],
            &[("zero_optimization", &half), ("activation_checkpointing", &one)],
            &[("activation_checkpointing", &every("0"))],
            &[("activation_checkpointing", r#"{"enabled": false, "every_layers": 1}"#)],
        ],
        expect![[r#"
            run.json:6:48: `activation_checkpointing.every_layers` is 2, but `zero_optimization.unit_layers` is 1: recomputation never crosses a unit, which it would have to gather once more; use at most 1, or larger units
            run.json:7:48: `activation_checkpointing.every_layers` is 1, but `zero_optimization.unit_layers` is 0.5: recomputation never crosses a unit, which it would have to gather once more; remove it: each half is recomputed
            run.json:6:48: `activation_checkpointing.every_layers` is 0, but it must be at least 1; use 1 or more
            run.json:6:66: hint: `activation_checkpointing.every_layers`: no effect here: `enabled` is false, so nothing is recomputed
        "#]],
    );
}
