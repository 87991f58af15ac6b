//! What does not fit: the rank or stage, what it needs, and the smallest changes that fit, before anything starts.

use expect_test::expect;

use crate::command::Home;

#[test]
fn what_does_not_fit_is_an_error_with_changes_that_fit() {
    let home = Home::new();
    // Any one of several changes, several together, or none; then the same where no split fits, and where `"auto"` cannot hold
    // the units in use.
    home.refuses("train run.json --out out --set", expect![[r#"
        $ memory=260000 --set parallel.partition=uniform
        [1] error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 253.91 KiB; any one of these makes it fit:
          "resident_units": 1, "prefetch_units": 0  (253.12 KiB on the fullest rank)
          "overlap_comm": false  (253.12 KiB on the fullest rank)
          "sharding": "auto"  (247.88 KiB on the fullest rank)
          "stage": 1, "reduce": "last"  (247.88 KiB on the fullest rank)
          "activation_checkpointing": {"enabled": true}  (239.75 KiB on the fullest rank)
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
        $ memory=190000 --set parallel.partition=uniform
        [1] error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 185.55 KiB; this makes it fit:
          "resident_units": 1, "prefetch_units": 0, "overlap_comm": false, "unit_layers": 0.5, "activation_checkpointing": {"enabled": true}  (183.38 KiB on the fullest rank)
        $ memory=180000 --set parallel.partition=uniform --set zero_optimization.stage=1
        [1] error: rank 0 (stage 0) needs 247.88 KiB, but `memory` gives each rank 175.78 KiB; this makes it fit:
          "stage": 3, "reduce": "every", "stage3_param_persistence_threshold": 0, "resident_units": 1, "prefetch_units": 0, "overlap_comm": false, "unit_layers": 0.5, "activation_checkpointing": {"enabled": true}, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (158.94 KiB on the fullest rank)
        $ memory=1KiB --set parallel.partition=uniform
        [1] error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 1.00 KiB; no single change that is tried (to the schedule, ZeRO, its units, recomputation or the micro-batches) makes it fit: use a smaller model or sequence, or more ranks
        $ memory=250000
        [1] error: no split into 2 stages fits `memory`, which gives each rank 244.14 KiB: the nearest has [2, 2] layers, and the rank of stage 0 is estimated to need 269.12 KiB; any one of these makes it fit:
          "activation_checkpointing": {"enabled": true}  (239.75 KiB on the fullest rank)
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
        $ memory=250000 --set zero_optimization.resident_units=auto
        [1] error: no split into 2 stages fits `memory`, which gives each rank 244.14 KiB: the nearest has [2, 2] layers, and the rank of stage 0 is estimated to need 269.12 KiB; any one of these makes it fit:
          "activation_checkpointing": {"enabled": true}  (239.75 KiB on the fullest rank)
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (220.38 KiB on the fullest rank)
        $ memory=260000 --set zero_optimization.resident_units=auto --set parallel.partition=uniform
        [1] error: rank 0 (stage 0) needs 269.12 KiB, but `memory` gives each rank 253.91 KiB; any one of these makes it fit:
          "resident_units": 1, "prefetch_units": 0  (253.12 KiB on the fullest rank)
          "overlap_comm": false  (253.12 KiB on the fullest rank)
          "sharding": "auto"  (247.88 KiB on the fullest rank)
          "stage": 1, "reduce": "last"  (247.88 KiB on the fullest rank)
          "activation_checkpointing": {"enabled": true}  (249.62 KiB on the fullest rank)
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (220.38 KiB on the fullest rank)
    "#]]);
    assert!(!home.path("out").exists());
    // What the nearest split needs is enough.
    home.run("plan run.json --set memory=275584").success();
    home.run("plan run.json --set memory=275583").failure(1);
}

/// The changes that are listed are runs that fit, and those that are not do not.
#[test]
fn every_listed_change_is_a_run_that_fits() {
    let home = Home::new();
    for (change, status) in [
        ("zero_optimization.resident_units=1 --set zero_optimization.prefetch_units=0", 0),
        ("activation_checkpointing.enabled=true", 0),
        ("train_micro_batch_size_per_gpu=1 --set gradient_accumulation_steps=4", 0),
        ("zero_optimization.unit_layers=0.5", 1),
    ] {
        let plan = "plan run.json --set parallel.partition=uniform --set memory=260000";
        assert_eq!(home.run(format!("{plan} --set {change}")).status, Some(status), "{change}");
    }
}

/// No machine has a million times the memory of this one.
#[test]
fn what_the_host_does_not_have_is_refused_before_it_is_allocated() {
    let home = Home::new();
    let stderr = home.run("train run.json --out out --set model.hidden_size=4194304").failure(1);
    // What is available differs from machine to machine.
    let (needed, available) = stderr.lines().last().unwrap().split_once(", but ").unwrap();
    expect!["error: the run needs 24.05 PiB of memory (ranks: 4)"].assert_eq(needed);
    let (_, repair) = available.split_once(" is available").unwrap();
    expect![" on this host or to its control group; no single change that is tried (to the schedule, ZeRO, its units, recomputation or the micro-batches) makes it fit: use a smaller model or sequence, or fewer ranks to a memory"].assert_eq(repair);
    assert!(!home.path("out").exists());
}

/// The limit is the system's and differs from host to host; no host that is known allows so many threads.
#[test]
#[cfg(target_os = "linux")]
fn more_ranks_than_a_process_may_have_threads_are_refused_before_any_is_started() {
    let home = Home::new();
    let grid = "parallel={\"data\":65536} --set train_batch_size=65536 --set gradient_accumulation_steps=1";
    let printed = home.run(format!("train run.json --out out --set {grid}"));
    let error = printed.failure(1);
    assert!(
        error.contains("65536 ranks of 2 threads each are more than the ") && !error.contains("starting"),
        "{error}"
    );
    assert!(!home.path("out").exists());
}
