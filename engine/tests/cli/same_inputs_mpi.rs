//! Processes that see different files under one name do not train: here two folders are two hosts, and a process is started in each.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

use crate::command::{Home, Printed};
use crate::resume_changes::copy;

/// Ranks 0 and 1, each in a folder of its own.
fn run(home: &Home, arguments: [&str; 2]) -> Printed {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--oversubscribe", "--bind-to", "none"]);
    for ((host, separator), arguments) in [("a", Some(":")), ("b", None)].into_iter().zip(arguments) {
        mpirun.args(["-n", "1", "--wdir"]).arg(home.path(host));
        mpirun.arg(env!("CARGO_BIN_EXE_pipezero")).args(arguments.split(' ')).args(separator);
    }
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none").env("COLUMNS", "1000");
    mpirun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Printed::new(mpirun.output().unwrap(), &home.path(""))
}

/// Two folders with the same files: a text, tokens of it, weights, a run with checkpoints.
fn home() -> Home {
    let home = Home::with(&[
        ("{ \"pipeline\": 2, \"data\": 2 }", "{ \"pipeline\": 2 }"),
        ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }"),
        // Untied, so that no stage needs what the rank of the other folder writes.
        ("\"seq_length\": 16", "\"seq_length\": 16, \"tie_embeddings\": false"),
        ("\"stage\": 3", "\"stage\": 1"),
    ]);
    let tokens = fs::read(home.path("text.txt")).unwrap();
    home.write(
        "tokens.bin",
        tokens.iter().flat_map(|&byte| u16::from(byte).to_le_bytes()).collect::<Vec<_>>(),
    );
    home.run("train run.json --out before --set steps=2").success();
    for host in ["a", "b"] {
        fs::create_dir(home.path(host)).unwrap();
        for name in ["run.json", "text.txt", "tokens.bin"] {
            fs::copy(home.path(name), home.path(host).join(name)).unwrap();
        }
        copy(&home, "before", &format!("{host}/before"));
    }
    home
}

/// Changes a byte in the middle of a file.
fn change(home: &Home, name: &str) {
    let path = home.path(name);
    let mut bytes = fs::read(&path).unwrap();
    // The low byte of a token of two, so that it stays one.
    let middle = bytes.len() / 4 * 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn processes_that_see_different_things_do_not_train() {
    let home = home();
    let tokens = "--set data.text=null --set data.tokens=tokens.bin";
    let plain = "train run.json --out out --set comm.backend=mpi";
    let said = |printed: &Printed| {
        let error = printed.stderr.lines().find(|line| line.starts_with("error: "));
        error.unwrap_or_else(|| panic!("{}", printed.stderr)).to_owned()
    };
    let refused = |printed: Printed, expected: &str| {
        assert_ne!(printed.status, Some(0), "{expected}");
        let error = said(&printed);
        assert!(error.contains(expected) && error.contains("rank 0") && error.contains("rank 1"), "{error}");
        for host in ["a", "b"] {
            let metrics = home.path(host).join("out/metrics.jsonl");
            assert!(!metrics.exists(), "{expected}: nothing was trained");
        }
    };
    // What differs on which host; how the run is started; and what is said.
    let cases = [
        (
            "b/text.txt",
            String::new(),
            "what is trained on (`data.text`) differs between processes: text.txt has checksum ",
        ),
        ("a/text.txt", String::new(), "text.txt has checksum "),
        ("b/tokens.bin", format!(" {tokens}"), "tokens"),
        (
            "a/before/weights.safetensors",
            " --init before/weights.safetensors".to_owned(),
            "the initial weights",
        ),
    ];
    for (file, arguments, expected) in cases {
        let before = fs::read(home.path(file)).unwrap();
        change(&home, file);
        let line = format!("{plain}{arguments}");
        refused(run(&home, [&line, &line]), expected);
        fs::write(home.path(file), before).unwrap();
    }
    // Of a file of more than 1 GiB only the first is read whole: whatever else a step does not read differs unseen, unless all of it is verified.
    for (host, byte) in [("a", 0), ("b", 1)] {
        let path = home.path(host).join("tokens.bin");
        let mut file = fs::File::create(&path).unwrap();
        file.set_len((1 << 30) + (1 << 26)).unwrap();
        file.seek(SeekFrom::Start((1 << 29) + (1 << 16))).unwrap();
        file.write_all(&[byte]).unwrap();
    }
    let sampled = format!("{plain} {tokens} --set steps=1 --set checkpoint=null");
    let trained = run(&home, [&sampled, &sampled]);
    assert!(trained.stderr.contains("1.06 GiB more their sizes and some blocks"), "{}", trained.stderr);
    trained.success();
    for host in ["a", "b"] {
        fs::remove_dir_all(home.path(host).join("out")).unwrap();
    }
    let verified = format!("{sampled} --set data.verify=true");
    refused(run(&home, [&verified, &verified]), "tokens.bin has checksum ");
    // Options, and the run file.
    let step = "train run.json --out before --set comm.backend=mpi --resume --set steps=3 --step 1";
    for (first, second, expected) in [
        (
            plain.to_owned(),
            plain.replace("--out out", "--out other"),
            "--out differs between processes: out for rank 0",
        ),
        (
            plain.to_owned(),
            format!("{plain} --overwrite"),
            "--overwrite differs between processes: not given for rank 0",
        ),
        (
            plain.to_owned(),
            format!("{plain} --set seed=4"),
            "`seed` of the run file differs between processes: 3 for rank 0",
        ),
        (
            step.to_owned(),
            step.replace("--step 1", "--step 2"),
            "--step differs between processes: 1 for rank 0",
        ),
    ] {
        refused(run(&home, [&first, &second]), expected);
    }
    // A checkpoint of the same step of another run.
    home.run("train run.json --out another --set steps=2 --set seed=7").success();
    fs::remove_dir_all(home.path("b/before")).unwrap();
    copy(&home, "another", "b/before");
    let line = "train run.json --out before --set comm.backend=mpi --resume --set steps=3";
    refused(run(&home, [line, line]), "the initial weights");
    // The same files under other names and at other times are the same.
    let trained = run(&home, [plain, plain]);
    assert!(
        trained
            .stderr
            .contains("each of these hosts keeps checkpoints and logs in a folder of that name of its own"),
        "{}",
        trained.stderr
    );
    trained.success();
    assert!(home.path("b/out/checkpoints").is_dir() && !home.path("b/out/metrics.jsonl").exists());
    // What the run has left there is replaced on both hosts.
    let line = format!("{plain} --overwrite --set checkpoint=null --set steps=1");
    run(&home, [&line, &line]).success();
    assert!(!home.path("b/out/checkpoints").exists());
}
