//! `resume` in the processes of a job whose hosts have a disk each: here two folders, in which each half of the processes is started.

use std::fs;
use std::process::{Command, Stdio};

use crate::command::{Home, Printed, RUN};
use crate::mpi::launch;
use crate::resume_changes::copy;

/// The run directories of both hosts are `a/out` and `b/out`.
fn home() -> Home {
    let home = Home::new();
    // Untied, so that no stage needs what the ranks of the other host write.
    let changes = [
        ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }"),
        ("\"seq_length\": 16", "\"seq_length\": 16, \"tie_embeddings\": false"),
        ("\"stage\": 3", "\"stage\": 1"),
    ];
    home.write("run.json", changes.iter().fold(RUN.to_owned(), |text, (from, to)| text.replace(from, to)));
    let printed = launch(&home, "-- train run.json --out out").output().unwrap();
    Printed::new(printed, &home.path("")).success();
    for host in ["a", "b"] {
        fs::create_dir(home.path(host)).unwrap();
        copy(&home, "out", &format!("{host}/out"));
    }
    home
}

/// Ranks 0 and 1 are on host a, and ranks 2 and 3 on host b.
fn resumed(home: &Home, arguments: &str) -> Printed {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--oversubscribe", "--bind-to", "none"]);
    for (host, separator) in [("a", Some(":")), ("b", None)] {
        mpirun.args(["-n", "2", "--wdir"]).arg(home.path(host));
        mpirun.args([env!("CARGO_BIN_EXE_pipezero"), "resume", "out"]).args(arguments.split(' '));
        mpirun.args(separator);
    }
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none").env("COLUMNS", "1000");
    mpirun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Printed::new(mpirun.output().unwrap(), &home.path(""))
}

#[test]
fn a_change_is_said_once_and_a_host_with_another_run_file_is_refused() {
    let home = home();
    let once = |printed: &Printed, said: &str| {
        assert_eq!(printed.stderr.matches(said).count(), 1, "{said}: {}", printed.stderr);
    };
    let changed = resumed(&home, "--set seed=8 --set steps=4");
    once(&changed, "warning: seed 3 -> 8 since the checkpoint: ");
    once(&changed, "\nsince the checkpoint: steps 3 -> 4\n");
    changed.success();
    // The process of rank 0 alone has written what the run was started with.
    let [first, second] = ["a", "b"].map(|host| home.read(&format!("{host}/out/run.json")));
    assert!(first.contains("\"seed\": 8") && second.contains("\"seed\": 3"));
    let metrics = home.read("a/out/metrics.jsonl");
    let refused = resumed(&home, "--set steps=5");
    assert_ne!(refused.status, Some(0));
    let said = "error: `seed` of the run file differs between processes: 8 for rank 0 on host ";
    assert!(
        refused.stderr.contains(said) && refused.stderr.contains("copy that of rank 0's host there"),
        "{}",
        refused.stderr
    );
    assert_eq!(home.read("a/out/metrics.jsonl"), metrics);
    fs::copy(home.path("a/out/run.json"), home.path("b/out/run.json")).unwrap();
    let resumed = resumed(&home, "--set steps=5");
    once(&resumed, "\nsince the checkpoint: steps 4 -> 5\n");
    resumed.success();
}
