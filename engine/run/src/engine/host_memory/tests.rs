use pipezero_config::{Resources, RunFile};
use pipezero_plan::Needs;

use super::*;

/// The plan of a run file with these sections, of one step of AdamW.
fn planned(sections: &str) -> Plan {
    let text =
        format!(r#"{{{sections}, "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01}}}}, "steps": 1}}"#);
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("run.json");
    std::fs::write(&path, text).unwrap();
    let (run, _) = RunFile::load(&path).unwrap().resolve(Resources::this_host()).unwrap();
    Plan::new(run).unwrap()
}

/// All ranks on this host.
fn check_all(plan: &Plan, available_bytes: Option<u64>) -> Result<(), EngineError> {
    check(plan, &all_ranks(plan), SharedMemory::Host, available_bytes)
}

/// For training and for inference.
fn for_both(plan: Plan) -> [Plan; 2] {
    [plan.clone(), plan.without_training()]
}

fn all_ranks(plan: &Plan) -> Vec<usize> {
    (0..plan.grid().world_size()).collect()
}

fn needed_of_all(plan: &Plan) -> u64 {
    needed_bytes(plan, &all_ranks(plan), &SharedMemory::Host)
}

/// Tokens are held too: 2^53 of them, each with a target, are 64 PiB on each of the two ranks that read them.
#[test]
fn sequences_beyond_the_host_are_refused() {
    let plan = planned(
        r#"
        "model": {"family": "timed", "num_layers": 6, "seq_length": 9007199254740992, "parameters_per_layer": 16,
            "activation_elements": 16, "forward_ms": 0},
        "parallel": {"pipeline": 3, "partition": "uniform"},
        "train_batch_size": 1"#,
    );
    for plan in for_both(plan) {
        assert_eq!(plan.needs().world_bytes >> 56, 2);
        let error = check_all(&plan, Some(1 << 50)).unwrap_err();
        assert!(matches!(error, EngineError::Memory { num_ranks: 3, .. }), "{error}");
    }
}

/// A run of four ranks whose activations weigh most.
fn plan() -> Plan {
    planned(
        r#"
        "model": {"family": "gpt2", "num_layers": 4, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 16},
        "data": {"text": "text.txt"},
        "parallel": {"pipeline": 2, "data": 2, "partition": "uniform"},
        "zero_optimization": {"stage": 3, "resident_units": "all"},
        "train_batch_size": 8,
        "threads": 1,
        "gradient_accumulation_steps": 1"#,
    )
}

/// 1024 ranks x 128 PiB are 2^67 bytes, which in 64 bits come back to next to nothing.
#[test]
fn bytes_beyond_counting_are_refused() {
    let plan = planned(
        r#"
        "model": {"family": "timed", "num_layers": 1, "seq_length": 8, "parameters_per_layer": 9007199254740992,
            "activation_elements": 16, "forward_ms": 0},
        "parallel": {"data": 1024},
        "train_batch_size": 1024"#,
    );
    let Needs { rank_bytes, world_bytes } = plan.needs();
    assert_eq!((rank_bytes >> 57, world_bytes), (1, u64::MAX));
    let error = check_all(&plan, Some(1 << 40)).unwrap_err();
    assert!(matches!(error, EngineError::Memory { num_ranks: 1024, needed_bytes: u64::MAX, .. }), "{error}");
}

#[test]
fn what_the_host_cannot_hold_is_refused_with_the_changes_that_fit() {
    let plan = plan();
    for plan in for_both(plan.clone()) {
        let needed = needed_of_all(&plan);
        assert!(check_all(&plan, Some(needed)).is_ok());
        assert!(check_all(&plan, None).is_ok());
        let error = check_all(&plan, Some(needed - 1)).unwrap_err();
        let EngineError::Memory { num_ranks: 4, needed_bytes, available_bytes, changes, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((needed_bytes, available_bytes), (needed, needed - 1));
        assert!(!changes.is_empty());
        assert!(changes.iter().all(|change| change.needs.world_bytes < needed), "{changes:?}");
    }
    let error = |available_bytes| check_all(&plan, Some(available_bytes)).unwrap_err().to_string();
    let needed = needed_of_all(&plan);
    expect_test::expect![[r#"
        the run needs 17828321 bytes of memory (ranks: 4), but 17828320 bytes is available on this host or to its control group; any one of these makes it fit:
          "resident_units": 2  (16.98 MiB for these ranks together)
          "resident_units": 1, "prefetch_units": 0  (16.92 MiB for these ranks together)
          "overlap_comm": false  (16.95 MiB for these ranks together)
          "unit_layers": 0.5  (16.99 MiB for these ranks together)
          "sharding": "auto"  (16.91 MiB for these ranks together)
          "stage": 1, "reduce": "last"  (16.91 MiB for these ranks together)
          "activation_checkpointing": {"enabled": true}  (16.86 MiB for these ranks together)
          "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2  (16.84 MiB for these ranks together)
          "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (16.61 MiB for these ranks together)"#]].assert_eq(&error(needed - 1));
    // Less than any one change saves.
    expect_test::expect!["the run needs 17.00 MiB of memory (ranks: 4), but 8.50 MiB is available on this host or to its control group; no single change that is tried (to the schedule, ZeRO, its units, recomputation or the micro-batches) makes it fit: use a smaller model or sequence, or fewer ranks to a memory"].assert_eq(&error(needed / 2));
    expect_test::expect!["the run needs 17.00 MiB of memory (ranks: 4), but 1000 B is available on this host or to its control group; no single change that is tried (to the schedule, ZeRO, its units, recomputation or the micro-batches) makes it fit: use a smaller model or sequence, or fewer ranks to a memory"].assert_eq(&error(1000));
}

/// The rows are what the process needs, the first of them what the plan counts; ranks and threads add rows of their own, and what the program holds is counted
/// once.
#[test]
fn a_process_needs_its_ranks_buffers_and_more() {
    let plan = plan();
    let of = |ranks: &[usize]| ProcessNeeds::of(&plan, ranks);
    let all = of(&all_ranks(&plan));
    assert_eq!(all.rows[0].bytes, plan.needs().world_bytes);
    assert_eq!(all.bytes, all.rows.iter().map(|row| row.bytes).sum::<u64>());
    assert_eq!(all.bytes, needed_of_all(&plan));
    assert_eq!(all.beside_bytes(), all.bytes - all.rows[0].bytes);
    let row = |needs: &ProcessNeeds, name: &str| {
        needs.rows.iter().find(|row| row.name == name).map(|row| row.bytes).unwrap()
    };
    for (name, times) in [("threads", 4), ("products", 4), ("program", 1)] {
        assert_eq!(row(&all, name), times * row(&of(&[1]), name), "{name}");
    }
    // Rank 0 has pieces twice.
    assert_eq!(row(&all, "pieces of parameters"), 5 * row(&of(&[1]), "pieces of parameters"));
    let still = still_needed_bytes(&plan, &[0], &SharedMemory::Host);
    let held = of(&[0]).held_bytes(Held::Program);
    assert_eq!(may_have(&of(&[0]), Held::Program, &SharedMemory::Host, Some(still)), Some(of(&[0]).bytes));
    assert_eq!(still + held, of(&[0]).bytes);
}
