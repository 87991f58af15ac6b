//! What launchers say in the environment, without them: the variables of the recipes on docs/launch.md.

use crate::command::{Home, Printed};

const TORCHRUN: [(&str, &str); 6] = [
    ("RANK", "0"),
    ("WORLD_SIZE", "1"),
    ("LOCAL_RANK", "0"),
    ("LOCAL_WORLD_SIZE", "1"),
    ("MASTER_ADDR", "127.0.0.1"),
    ("MASTER_PORT", "29500"),
];
const SLURM: [(&str, &str); 8] = [
    ("SLURM_STEP_ID", "0"),
    ("SLURM_PROCID", "0"),
    ("SLURM_STEP_NUM_TASKS", "4"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
    ("SLURM_NODEID", "0"),
    ("SLURM_STEP_NODELIST", "node[1-2]"),
    ("SLURM_JOB_ID", "7"),
];

/// `line` with these variables, of which some are others.
fn run(line: &str, variables: &[(&str, &str)], changed: &[(&str, &str)]) -> Printed {
    let home = Home::new();
    let mut command = home.command(line);
    command.envs(variables.iter().copied()).envs(changed.iter().copied());
    Printed::new(command.output().unwrap(), &home.path(""))
}

/// The one process of torchrun runs all ranks, and restarts go on where there is a checkpoint.
#[test]
fn a_process_that_is_alone_runs_all_ranks() {
    let printed = run("train run.json --resume", &TORCHRUN, &[]);
    assert!(printed.stderr.contains("on pipeline 2 x data 2 (4 ranks"), "{}", printed.stderr);
    printed.success();
}

#[test]
fn processes_of_a_launcher_that_would_each_run_all_ranks_are_refused() {
    for (variables, changed) in [(&TORCHRUN[..], &[("WORLD_SIZE", "4")][..]), (&SLURM[..], &[])] {
        let error = run("train run.json --set comm.backend=threads", variables, changed).failure(2);
        assert!(
            error.contains("the launcher started 4 processes, and with `comm.backend` \"threads\""),
            "{error}"
        );
    }
}

#[test]
fn variables_that_contradict_each_other_are_mistakes_in_the_input() {
    for (variables, changed, expected) in [
        (&TORCHRUN[..], &[("RANK", "1")][..], "RANK is 1, but WORLD_SIZE is 1: ranks count from 0"),
        (&TORCHRUN, &[("RANK", "one")], "RANK is \"one\", but it must be a whole number"),
        (&TORCHRUN, &[("WORLD_SIZE", "2"), ("MASTER_ADDR", "")], "MASTER_ADDR is not set"),
        (&TORCHRUN, &[("MASTER_PORT", "70000")], "MASTER_PORT is 70000"),
        (&SLURM, &[("SLURM_PROCID", "4")], "SLURM_PROCID is 4, but SLURM_STEP_NUM_TASKS is 4"),
        (&SLURM, &[("SLURM_STEP_NUM_TASKS", "")], "SLURM_STEP_NUM_TASKS is not set, but others of srun are"),
    ] {
        let error = run("train run.json", variables, changed).failure(2);
        assert!(error.contains(expected), "{error}");
    }
    // A batch script of SLURM is no step of a job.
    run("check run.json", &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")], &[])
        .success();
}
