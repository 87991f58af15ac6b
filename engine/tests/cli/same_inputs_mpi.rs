//! Processes that see different files under one name do not train: here three folders are three hosts, and a process is started in each.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};

use pipezero::tokens::train_tokenizer;

use crate::command::{Home, Printed};
use crate::resume_changes::copy;
use crate::sample::Sample;

const HOSTS: [&str; 3] = ["a", "b", "c"];

/// The difference of one host from the others.
enum Other {
    /// A byte in the middle of a file.
    Byte(&'static str),
    /// In place of a file or folder of this name, that of another.
    Is(&'static str, &'static str),
    /// A file that the others do not have.
    Has(&'static str),
    /// Arguments, or changed ones: these for those.
    Arguments(&'static str, &'static str),
}

use Other::{Arguments, Byte, Has, Is};

/// How all processes are started, the difference, and how the error begins.
const KINDS: [(&str, Other, &str); 18] = [
    (
        "",
        Byte("text.txt"),
        "what is trained on (`data.text`) differs between processes: text.txt has checksum ",
    ),
    (
        "--set data.text=texts",
        Has("texts/0.txt"),
        "what is trained on (`data.text`) differs between processes: ",
    ),
    (
        TOKENS,
        Byte("tokens.bin"),
        "what is trained on (`data.tokens`) differs between processes: tokens.bin has checksum ",
    ),
    (HELD_OUT, Byte("held.bin"), "what is held out for validation differs between processes"),
    (
        TOKENIZER,
        Is("tokenizer.json", "other.json"),
        "the tokenizer (`data.tokenizer`) differs between processes: tokenizer.json",
    ),
    ("--init before/weights.safetensors", Byte("before/weights.safetensors"), "the initial weights"),
    ("--init before", Is("before", "another"), "the initial weights"),
    (GOES_ON, Is("before", "another"), "the initial weights differs between processes"),
    ("", Is("run.json", "seed.json"), "`seed` of the run file differs between processes: "),
    (SCHEDULE, Is("order.csv", "another.csv"), "`parallel` of the run file differs between processes: "),
    ("", Arguments("", "--set seed=4"), "`seed` of the run file differs between processes: "),
    ("--out out", Arguments("--out out", "--out other"), "--out differs between processes: "),
    ("", Arguments("", "--overwrite"), "--overwrite differs between processes: "),
    ("", Arguments("", "--resume"), "--resume differs between processes: "),
    (AT_STEP, Arguments("--step 1", "--step 2"), "--step differs between processes: "),
    ("", Arguments("", "--trace"), "--trace differs between processes: "),
    ("", Arguments("", "--init before"), "--init differs between processes: "),
    ("", Arguments("", "--rescue rescued"), "--rescue differs between processes: "),
];

const TOKENS: &str = "--set data.text=null --set data.tokens=tokens.bin";
const HELD_OUT: &str = "--set data.text=null --set data.tokens=tokens.bin --set data.validation=null --set data.validation_tokens=held.bin";
const TOKENIZER: &str = "--set data.tokenizer=tokenizer.json --set model.vocab_size=300";
const SCHEDULE: &str = r#"--set parallel.schedule={"file":"order.csv"}"#;
const GOES_ON: &str = "--out before --resume --set steps=3";
const AT_STEP: &str = "--out before --resume --set steps=3 --step 1";

/// Ranks 0 to 2, each in a folder of its own.
fn run(home: &Home, arguments: [&str; 3]) -> Printed {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["--oversubscribe", "--bind-to", "none"]);
    for ((number, host), arguments) in HOSTS.into_iter().enumerate().zip(arguments) {
        mpirun.args((number > 0).then_some(":")).args(["-n", "1", "--wdir"]).arg(home.path(host));
        mpirun.args([env!("CARGO_BIN_EXE_pipezero"), "train", "run.json", "--set", "comm.backend=mpi"]);
        mpirun.args(arguments.split_whitespace());
        if !arguments.contains("--out") {
            mpirun.args(["--out", "out"]);
        }
    }
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.env("OMPI_MCA_btl_vader_single_copy_mechanism", "none").env("COLUMNS", "1000");
    mpirun.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Printed::new(mpirun.output().unwrap(), &home.path(""))
}

/// Three folders with the same files: texts, tokens of one, tokenizers, schedules, weights, runs with checkpoints.
fn home() -> Home {
    let home = Home::with(&[
        ("{ \"pipeline\": 2, \"data\": 2 }", "{ \"pipeline\": 3 }"),
        ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }"),
        // Untied, so that no stage needs what the rank of another folder writes.
        ("\"seq_length\": 16", "\"seq_length\": 16, \"tie_embeddings\": false"),
        ("\"stage\": 3", "\"stage\": 1"),
    ]);
    let text = home.read("text.txt");
    let tokens: Vec<u8> = text.bytes().flat_map(|byte| u16::from(byte).to_le_bytes()).collect();
    home.write("held.bin", &tokens[..8 << 10]);
    home.write("tokens.bin", tokens);
    fs::create_dir(home.path("texts")).unwrap();
    home.write("texts/a.txt", &text);
    train_tokenizer([&*text].into_iter(), 300, &home.path("tokenizer.json")).unwrap();
    train_tokenizer([&*text.to_uppercase()].into_iter(), 300, &home.path("other.json")).unwrap();
    home.write("seed.json", home.read("run.json").replace("\"seed\": 3", "\"seed\": 5"));
    let last = "2F0,2B0,2F1,2B1\n";
    home.write("order.csv", format!("0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n{last}"));
    home.write("another.csv", format!("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n{last}"));
    home.run("train run.json --out before --set steps=2").success();
    home.run("train run.json --out another --set steps=2 --set seed=7").success();
    for host in HOSTS {
        // Each host has all files of the run directories, as if they had been copied there.
        fs::create_dir(home.path(host)).unwrap();
        for name in home.names().into_iter().filter(|name| !HOSTS.contains(&name.as_str())) {
            put(&home, &name, &format!("{host}/{name}"));
        }
    }
    home
}

/// Copies a file or a folder to where another may be.
fn put(home: &Home, from: &str, to: &str) {
    if home.path(from).is_dir() {
        return copy(home, from, to);
    }
    fs::copy(home.path(from), home.path(to)).unwrap();
}

impl Other {
    /// Gives it to a host.
    fn make(&self, home: &Home, host: &str) {
        match *self {
            Byte(name) => {
                let path = home.path(host).join(name);
                let mut bytes = fs::read(&path).unwrap();
                // The low byte of a token of two, so that it stays one.
                let middle = bytes.len() / 4 * 2;
                bytes[middle] ^= 1;
                fs::write(path, bytes).unwrap();
            }
            Is(name, other) => put(home, other, &format!("{host}/{name}")),
            Has(name) => fs::write(home.path(host).join(name), "another text").unwrap(),
            Arguments(..) => {}
        }
    }

    /// Takes it away again.
    fn undo(&self, home: &Home, host: &str) {
        match *self {
            Byte(name) | Is(name, _) => put(home, name, &format!("{host}/{name}")),
            Has(name) => fs::remove_file(home.path(host).join(name)).unwrap(),
            Arguments(..) => {}
        }
    }

    /// The arguments of the host that has it.
    fn arguments(&self, of_all: &str) -> String {
        match *self {
            Arguments("", more) => format!("{of_all} {more}"),
            Arguments(these, those) => of_all.replace(these, those),
            _ => of_all.to_owned(),
        }
    }
}

/// Checks that a run was refused, which names two ranks and has trained nothing.
fn refused(home: &Home, printed: &Printed, expected: &str) {
    assert_ne!(printed.status, Some(0), "{expected}");
    let error = printed.stderr.lines().find_map(|line| line.strip_prefix("error: "));
    let error = error.unwrap_or_else(|| panic!("{expected}: {}", printed.stderr));
    assert!(error.starts_with(expected) && error.contains(" for rank 0"), "{expected}: {error}");
    for host in HOSTS {
        assert!(!home.path(host).join("out/metrics.jsonl").exists(), "{expected}: nothing was trained");
    }
}

#[test]
fn processes_that_see_different_things_do_not_train() {
    let mut sample = Sample::one_in(6, "thing that a process sees otherwise, on one of three hosts");
    let home = home();
    for (arguments, other, expected) in &KINDS {
        for (rank, host) in HOSTS.into_iter().enumerate() {
            if !sample.takes_next() {
                continue;
            }
            other.make(&home, host);
            let of_host = other.arguments(arguments);
            let of_each = [0, 1, 2].map(|of| if of == rank { &*of_host } else { arguments });
            refused(&home, &run(&home, of_each), expected);
            other.undo(&home, host);
        }
    }
    assert_eq!(sample.num_cases(), 54);
}

#[test]
fn copies_of_the_same_files_are_the_same() {
    let home = home();
    let trained = run(&home, [""; 3]);
    let expected = "each of these hosts keeps checkpoints and logs in a folder of that name of its own";
    assert!(trained.stderr.contains(expected), "{}", trained.stderr);
    trained.success();
    assert!(home.path("b/out/checkpoints").is_dir() && !home.path("b/out/metrics.jsonl").exists());
    // The files of the run are replaced on all hosts.
    run(&home, ["--overwrite --set checkpoint=null --set steps=1"; 3]).success();
    assert!(!home.path("b/out/checkpoints").exists());
}

/// A file of more than 1 GiB is not read to be compared: a byte that no step reads may differ, unless `data.verify` is true.
#[test]
fn large_files_are_compared_whole_where_that_is_asked_for() {
    let home = home();
    for (host, byte) in HOSTS.into_iter().zip([0, 0, 1]) {
        let mut file = fs::File::create(home.path(host).join("tokens.bin")).unwrap();
        file.set_len((1 << 30) + (1 << 26)).unwrap();
        file.seek(SeekFrom::Start((1 << 29) + (1 << 16))).unwrap();
        file.write_all(&[byte]).unwrap();
    }
    let sampled = format!("{TOKENS} --set steps=1 --set checkpoint=null");
    let trained = run(&home, [&sampled; 3]);
    assert!(trained.stderr.contains("1.06 GiB more their sizes and some blocks"), "{}", trained.stderr);
    trained.success();
    for host in HOSTS {
        fs::remove_dir_all(home.path(host).join("out")).unwrap();
    }
    let verified = format!("{sampled} --set data.verify=true");
    let expected = "a file of tokens or weights differs between processes: tokens.bin has checksum ";
    refused(&home, &run(&home, [&verified; 3]), expected);
}
