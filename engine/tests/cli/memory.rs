//! What does not fit: the rank or stage, what it needs, and the smallest changes that fit, before anything starts.

use expect_test::{Expect, expect};

use crate::command::Home;

/// `train` refuses the run with these changes; the error is all that follows the run file's own notices.
#[track_caller]
fn refused(set: &[&str], expected: Expect) {
    let home = Home::new();
    let mut args = vec!["train", "run.json", "--out", "out"];
    args.extend(set.iter().flat_map(|change| ["--set", change]));
    let stderr = home.run(&args).failure(1);
    let error = stderr.find("error: ").unwrap_or_else(|| panic!("{stderr}"));
    expected.assert_eq(&stderr[error..]);
    assert!(!home.path("out").exists());
}

#[test]
fn a_rank_that_does_not_fit_is_an_error_with_changes_that_fit() {
    refused(
        &["parallel.partition=uniform", "memory=260000"],
        expect![[r#"
            error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 253.91 KiB; any one of these makes it fit:
              "resident_units": 1, "prefetch_units": 0  (253.12 KiB on the fullest rank)
              "activation_checkpointing": {"enabled": true}  (239.50 KiB on the fullest rank)
              "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
        "#]],
    );
}

#[test]
fn if_no_single_change_fits_several_are_listed() {
    refused(
        &["parallel.partition=uniform", "memory=190000"],
        expect![[r#"
            error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 185.55 KiB; this makes it fit:
              "resident_units": 1, "prefetch_units": 0, "unit_layers": 0.5, "activation_checkpointing": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (174.81 KiB on the fullest rank)
        "#]],
    );
    refused(
        &["parallel.partition=uniform", "memory=180000", "zero_optimization.stage=1"],
        expect![[r#"
            error: rank 0 (stage 0) needs 247.88 KiB, but `memory` gives each rank 175.78 KiB; this makes it fit:
              "stage": 3, "reduce": "every", "stage3_param_persistence_threshold": 0, "resident_units": 1, "prefetch_units": 0, "unit_layers": 0.5, "activation_checkpointing": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (174.81 KiB on the fullest rank)
        "#]],
    );
}

#[test]
fn if_no_change_fits_the_model_is_too_large() {
    refused(
        &["parallel.partition=uniform", "memory=1KiB"],
        expect![[r#"
            error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 1.00 KiB; of the changes that are tried, in schedule, residency, units, recomputation and micro-batches, none makes it fit: use a smaller model or sequence, or more ranks
        "#]],
    );
}

#[test]
fn a_split_that_fits_nowhere_names_the_stage_and_the_nearest_one() {
    refused(
        &["memory=250000"],
        expect![[r#"
            error: no split into 2 stages fits `memory`, which gives each rank 244.14 KiB: the nearest has [2, 2] layers, and the rank of stage 0 is estimated to need 269.12 KiB; any one of these makes it fit:
              "activation_checkpointing": {"enabled": true}  (239.50 KiB on the fullest rank)
              "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
        "#]],
    );
    // What the nearest split needs is enough.
    let home = Home::new();
    home.run(&["plan", "run.json", "--set", "memory=275584"]).success();
    home.run(&["plan", "run.json", "--set", "memory=275583"]).failure(1);
}

#[test]
fn auto_that_cannot_hold_the_units_in_use_is_the_same_error() {
    let auto = "zero_optimization.resident_units=auto";
    refused(
        &[auto, "memory=250000"],
        expect![[r#"
            error: no split into 2 stages fits `memory`, which gives each rank 244.14 KiB: the nearest has [2, 2] layers, and the rank of stage 0 is estimated to need 269.12 KiB; any one of these makes it fit:
              "activation_checkpointing": {"enabled": true}  (239.50 KiB on the fullest rank)
              "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
        "#]],
    );
    refused(
        &[auto, "parallel.partition=uniform", "memory=260000"],
        expect![[r#"
            error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 253.91 KiB; any one of these makes it fit:
              "resident_units": 1, "prefetch_units": 0  (253.12 KiB on the fullest rank)
              "activation_checkpointing": {"enabled": true}  (239.50 KiB on the fullest rank)
              "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
        "#]],
    );
}

/// The changes that are listed are runs that fit, and those that are not do not.
#[test]
fn every_listed_change_is_a_run_that_fits() {
    let home = Home::new();
    let base = ["plan", "run.json", "--set", "parallel.partition=uniform", "--set", "memory=260000"];
    let plan = |changes: &[&str]| {
        let changes = changes.iter().flat_map(|change| ["--set", change]);
        home.run(&base.iter().copied().chain(changes).collect::<Vec<_>>()).status
    };
    assert_eq!(plan(&["zero_optimization.resident_units=1", "zero_optimization.prefetch_units=0"]), Some(0));
    assert_eq!(plan(&["activation_checkpointing.enabled=true"]), Some(0));
    assert_eq!(plan(&["train_micro_batch_size_per_gpu=1", "gradient_accumulation_steps=4"]), Some(0));
    assert_eq!(plan(&["zero_optimization.unit_layers=0.5"]), Some(1));
}

/// No machine has a million times the memory of this one.
#[test]
fn what_the_host_does_not_have_is_refused_before_it_is_allocated() {
    let home = Home::new();
    let printed = home.run(&["train", "run.json", "--out", "out", "--set", "model.hidden_size=4194304"]);
    let error = printed.failure(1).lines().last().unwrap().to_owned();
    assert!(
        error.starts_with("error: the run needs ") && error.contains(" of memory (ranks: 4), but "),
        "{error}"
    );
    assert!(error.ends_with("use a smaller model or sequence, or more ranks"), "{error}");
    assert!(!home.path("out").exists());
}
