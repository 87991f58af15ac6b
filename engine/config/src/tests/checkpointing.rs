//! Activation checkpointing.

use expect_test::expect;
use pipezero_models::HeadLogits;

use super::{RESOURCES, check_each, file, run};
use crate::RunFile;
use crate::resolved::Checkpointing;

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

#[test]
fn auto_is_a_value_of_enabled_and_stands_in_place_of_the_section() {
    for keys in [r#""auto""#, r#"{"enabled": "auto"}"#] {
        assert_eq!(checkpointing("4", keys), Checkpointing::Auto);
    }
    let beside = run(&[("activation_checkpointing", r#"{"enabled": "auto", "head_logits": "keep"}"#)]);
    assert_eq!(beside.checkpointing, Checkpointing::Auto);
    assert_eq!(beside.vocabulary.head_logits, Some(HeadLogits::Keep));
    // Arguments add to the section that the word stands for.
    let auto = file(&[("activation_checkpointing", r#""auto""#)]);
    let with = |argument: &str| RunFile::parse("run.json", &auto).unwrap().set(&[argument.to_owned()]);
    let (run, _) = with("activation_checkpointing.head_logits=keep").unwrap().resolve(RESOURCES).unwrap();
    assert_eq!(
        (run.checkpointing, run.vocabulary.head_logits),
        (Checkpointing::Auto, Some(HeadLogits::Keep))
    );
    let (run, _) = with("activation_checkpointing.enabled=true").unwrap().resolve(RESOURCES).unwrap();
    assert_eq!(run.checkpointing, Checkpointing::Unit);
    check_each(
        &[
            &[("activation_checkpointing", r#""full""#)],
            &[("activation_checkpointing", r#"{"enabled": "full"}"#)],
            &[("activation_checkpointing", r#"{"enabled": "auto", "every_layers": 1}"#)],
            // The plan says what becomes of it where nothing can be recomputed.
            &[
                ("activation_checkpointing", r#""auto""#),
                ("parallel", r#"{"pipeline": 2, "schedule": "zb-h1"}"#),
            ],
            &[("optimizer", r#""auto""#)],
        ],
        expect![[r#"
            run.json:6:31: `activation_checkpointing` must be an object or "auto", but is the string "full"; write an object with the keys of `activation_checkpointing`: {...}
            run.json:6:43: `activation_checkpointing.enabled` must be true or false or "auto", but is the string "full"; write a value such as true
            run.json:6:67: `activation_checkpointing.every_layers` is 1, but `enabled` is "auto", with which the plan chooses how many layers are recomputed together; remove it
            valid
            run.json:6:16: `optimizer` must be an object, but is the string "auto"; write {"type": "auto"}
        "#]],
    );
}
