//! Things that other users can put in the place of every file that a command reads or writes: a link to a secret, a pipe, a device, a folder, a file of
//! theirs. The target of a link never changes, no secret is copied or shown, and no command waits.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;

use crate::command::Home;
use crate::in_threads::in_threads;
use crate::sample::Sample;
use crate::several;
use crate::stand_ins::{StandIn, TEMPORARY, WAIT_MAX, add_targets, check};
use crate::traced_files::{has_strace, traced};

const CHECKPOINTS: &str = r#" --set checkpoint={"every":1}"#;

/// Every command, and what it does with a run directory: `out` is a run that has ended, with a trace.
const COMMANDS: &[&str] = &[
    "check words.json",
    "check broken.json --fix",
    "check from.json",
    "check pair.json",
    "plan words.json",
    "show order.json",
    "simulate words.json --costs costs.json",
    "simulate run.json --format json --out step.json --overwrite",
    "simulate --schedule order.csv --forward 1 --backward-input 1 --backward-weight 1",
    "profile words.json --out costs.json --overwrite --steps 2",
    "compare out",
    "compare out --costs costs.json",
    "checkpoint inspect out",
    "checkpoint verify out",
    "checkpoint export out --out weights.safetensors",
    "checkpoint export out --format hf --out exported",
    "checkpoint reshape out --files 2 --out reshaped",
    "tokenize chats.jsonl --tokenizer tok --out tokens",
    "tokenize chats.jsonl --tokenizer tok --out data --overwrite",
    "train words.json --out new --trace --set checkpoint.every=1",
    "train words.json --out out --overwrite --trace --set checkpoint.every=1",
    "train words.json --out out --resume --set steps=4 --set checkpoint.every=1",
    "train words.json --out out --resume --step 2 --set checkpoint.every=1",
    "train words.json --out new --init out --rescue rescue",
    "train words.json --out new --init out/weights.safetensors",
    "train order.json",
    "train from.json --out new",
    "train pair.json --out new",
    "resume out",
    "eval out --batches 1",
    "eval out --step 2 --batches 1 --data text.txt",
    "generate out --prompts prompts.txt --max-tokens 4",
    "doctor run.json",
    "man --out pages",
    "completions bash",
    #[cfg(feature = "mpi")]
    "launch -n 4 -- train run.json --out new --set checkpoint.every=1",
];

/// Files that are texts: their user wants them to be learned, copied into files of tokens or shown, whatever they hold.
const TEXTS: [&str; 3] = ["text.txt", "chats.jsonl", "prompts.txt"];

/// A folder in which every command succeeds.
pub(crate) fn prepared() -> Home {
    let home = several::home();
    ["tok", TEMPORARY].iter().for_each(|folder| fs::create_dir(home.path(folder)).unwrap());
    home.write("tok/tokenizer.json", TOKENIZER);
    home.write("tok/tokenizer_config.json", r#"{"eos_token": "[UNK]"}"#);
    home.write("tok/special_tokens_map.json", r#"{"eos_token": "[UNK]"}"#);
    home.write("tok/generation_config.json", "{}");
    let template = "{% for m in messages %}{{ m.role + ' : ' + m.content + ' ' }}{% endfor %}";
    home.write("tok/chat_template.jinja", template);
    let chat = r#"{"messages": [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat on a mat the mat"}]}"#;
    home.write("chats.jsonl", format!("{chat}\n").repeat(60));
    home.write("prompts.txt", "the cat\nthe mat\n");
    home.run("tokenize chats.jsonl --tokenizer tok --out data").success();
    let words = r#""tokens": "data", "tokenizer": "tok", "validation": 0.2"#;
    home.write(
        "words.json",
        home.read("run.json").replace(r#""text": "text.txt", "validation": 0.2"#, words),
    );
    home.write("broken.json", home.read("run.json").replace("\"steps\"", "\"stpes\""));
    home.write("order.csv", home.run("show run.json --format csv").success());
    let order = r#""pipeline": 2, "schedule": {"file": "order.csv"}"#;
    home.write("order.json", home.read("run.json").replace(r#""pipeline": 2"#, order));
    several::pair(&home, [2, 2], &serde_json::json!({ "every": 1 }));
    home.run(format!("train words.json --out out --trace{CHECKPOINTS}")).success();
    home.run("checkpoint export out --format hf --out hf").success();
    let mut from: serde_json::Value = serde_json::from_str(&home.read("words.json")).unwrap();
    from["model"] = serde_json::json!({ "from": "hf" });
    home.write("from.json", from.to_string());
    home.run("profile words.json --out costs.json --steps 2").success();
    home.run("simulate run.json --format json --out step.json").success();
    home
}

const TOKENIZER: &str = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"[UNK]":0,"the":1,"cat":2,"sat":3,"on":4,"a":5,"mat":6},"unk_token":"[UNK]"},"pre_tokenizer":{"type":"Whitespace"}}"#;

/// Makes a folder as the example.
pub(crate) fn restore(home: &Home, example: &Home) {
    for name in home.names() {
        let path = home.path(&name);
        if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
            .unwrap();
    }
    let copied = Command::new("cp").arg("-aT").args([example.path(""), home.path("")]).status();
    assert!(copied.unwrap().success());
}

/// Files that a command names, one of several of a kind, and none whose name nobody can guess.
fn places(example: &Home, line: &str) -> Vec<String> {
    let home = Home::new();
    let trace = || {
        restore(&home, example);
        traced(&home, line)
    };
    let mut named = trace();
    let is_temporary = |name: &str| name.starts_with(&format!("{TEMPORARY}/"));
    if named.inside.iter().any(|name| is_temporary(name)) {
        // A name that is another one each time cannot be guessed.
        let again = trace().inside;
        named.inside.retain(|name| !is_temporary(name) || again.contains(name));
    }
    let is_changed = |path: &Path| !["/dev", "/proc"].iter().any(|own| path.starts_with(own));
    let elsewhere: Vec<_> = named.changed_elsewhere.iter().filter(|path| is_changed(path)).collect();
    assert!(elsewhere.is_empty(), "pipezero {line} changes {elsewhere:?}");
    // Names that nobody can guess, and files of Open MPI, are no places.
    let of_others = ["rank-00001", "rank-00002", "rank-00003", "step-00000001", ".tmp", "/ompi.", "/vader_"];
    // A path below a file, as if that were a folder, cannot exist.
    let is_below_file =
        |name: &str| Path::new(name).ancestors().skip(1).any(|above| example.path("").join(above).is_file());
    let is_place = |name: &String| {
        !name.is_empty() && !is_below_file(name) && !of_others.iter().any(|other| name.contains(other))
    };
    named.inside.into_iter().filter(is_place).collect()
}

/// Whether the user says with the command that what is there is to be used, wherever a link leads.
fn is_meant(name: &str, line: &str, stand_in: StandIn) -> bool {
    let is_named = line.split(' ').any(|argument| argument == name);
    match stand_in {
        StandIn::LinkToSecret | StandIn::LinkToTwin => TEXTS.contains(&name),
        // An error shows the lines of a run file.
        StandIn::LinkToSecretJson => TEXTS.contains(&name) || is_named,
        // A folder that the user names is written to, wherever it is.
        StandIn::LinkToFolder => is_named,
        _ => false,
    }
}

#[test]
fn in_the_place_of_any_file_of_any_command() {
    if !has_strace() {
        return;
    }
    let example = prepared();
    add_targets(&example);
    let found: Vec<Vec<String>> = in_threads(COMMANDS, |line| places(&example, line));
    let names: BTreeSet<&String> = found.iter().flatten().collect();
    assert!(names.len() > 100, "{names:?}");
    let mut sample = Sample::one_in(100, "thing in the place of a file that a command names");
    let mut cases = Vec::new();
    for (line, places) in COMMANDS.iter().zip(&found) {
        for place in places {
            for stand_in in StandIn::ALL.into_iter().filter(|&stand_in| !is_meant(place, line, stand_in)) {
                cases.extend(sample.takes_next().then_some((*line, place.as_str(), stand_in)));
            }
        }
    }
    assert!(sample.num_cases() > 3000, "{}", sample.num_cases());
    let took = in_threads(&cases, |&(line, place, stand_in)| {
        let home = Home::new();
        let took = || {
            restore(&home, &example);
            check(&home, line, place, stand_in)
        };
        // A machine with other work may keep a command from its processor for a while, but not each time.
        let soon = || (0..3).map(|_| took()).find(|took| *took < WAIT_MAX);
        // All cases are run: which of them fail says more than the first.
        let took = catch_unwind(AssertUnwindSafe(soon)).ok().flatten();
        (took, format!("{line}, {place}, {stand_in:?}"))
    });
    let failed: Vec<&String> =
        took.iter().filter_map(|(took, case)| took.is_none().then_some(case)).collect();
    assert!(failed.is_empty(), "{} of {} cases fail: {failed:#?}", failed.len(), cases.len());
    let longest = took.iter().max().unwrap();
    println!("{} files, {} cases, the longest {longest:?}", names.len(), cases.len());
}

/// A folder with what a link may lead to, and what `made` adds.
fn with_targets(made: impl Fn(&Home)) -> Home {
    let home = Home::new();
    add_targets(&home);
    made(&home);
    home
}

/// People keep a run, or its checkpoints, on another disk.
#[test]
fn links_to_folders_of_the_same_user_are_followed_and_said() {
    let home = with_targets(|home| {
        fs::create_dir_all(home.path("disk/checkpoints")).unwrap();
        fs::create_dir(home.path("disk/run")).unwrap();
        symlink(home.path("disk/run"), home.path("out")).unwrap();
        symlink(home.path("disk/checkpoints"), home.path("disk/run/checkpoints")).unwrap();
    });
    let line = format!("train run.json --out out{CHECKPOINTS}");
    let refused = |line: &str| {
        let said = home.run(line);
        assert!(matches!(said.status, Some(1 | 2)), "{}", said.stderr);
        said.stderr
    };
    refused(&line);
    fs::remove_file(home.path("disk/run/checkpoints")).unwrap();
    let said = home.run(&line);
    assert!(
        said.stderr.contains("out is a link: what the run writes there goes to ~/disk/run"),
        "{}",
        said.stderr
    );
    said.success();
    // The checkpoints move to another disk.
    fs::rename(home.path("disk/run/checkpoints"), home.path("disk/moved")).unwrap();
    symlink(home.path("disk/moved"), home.path("disk/run/checkpoints")).unwrap();
    let said = home.run(format!("{line} --resume --set steps=5"));
    assert!(said.stderr.contains("out/checkpoints is a link"), "{}", said.stderr);
    said.success();
    assert!(home.path("disk/moved/step-00000005").is_dir());
    // Replaced, the links stay, and what no run wrote.
    home.run(format!("{line} --overwrite")).success();
    assert!(home.path("out").is_symlink() && home.path("disk/run/checkpoints").is_symlink());
    assert_eq!(home.names_in("disk/moved"), ["step-00000002", "step-00000003"]);
    home.write("disk/moved/thesis", "years of work");
    let said = refused(&format!("{line} --overwrite"));
    assert!(said.contains("which no run wrote"), "{said}");
    // Of another user's: only the superuser can give a folder away.
    if chown(home.path("disk/moved"), Some(1234), None).is_ok() {
        let said = refused(&format!("{line} --resume --set steps=9"));
        assert!(said.contains("that folder belongs to user 1234"), "{said}");
        assert!(!home.path("disk/moved/step-00000009").exists());
    }
}

/// A name that cannot be replaced is found before hours of training, not after them.
#[test]
fn a_name_that_cannot_be_written_at_the_end_is_refused_at_the_beginning() {
    for name in ["weights.safetensors", "summary.json"] {
        let home = Home::new();
        home.run(format!("train run.json --out out{CHECKPOINTS}")).success();
        let before = home.read("out/metrics.jsonl");
        fs::remove_file(home.path("out").join(name)).unwrap();
        fs::create_dir(home.path("out").join(name)).unwrap();
        let said =
            home.run(format!("train run.json --out out --resume --set steps=9{CHECKPOINTS}")).failure(1);
        assert!(said.contains(name) && said.contains("only a regular file can be replaced"), "{said}");
        assert_eq!(home.read("out/metrics.jsonl"), before);
        // A folder of the user's own is not removed, though a run writes a file of its name.
        let said = home.run("train run.json --out out --overwrite").failure(1);
        assert!(said.contains(&format!("it holds `{name}`, which no run wrote")), "{said}");
    }
}

/// A link with the name of a file of a run is removed with the run, and what it leads to is not.
#[test]
fn a_run_is_replaced_without_what_its_links_lead_to() {
    let home = with_targets(|_| {});
    home.run("train run.json --out out").success();
    symlink(home.path("elsewhere"), home.path("out/trace.json")).unwrap();
    home.run("train run.json --out out --overwrite").success();
    assert_eq!(home.names_in("elsewhere"), ["thesis"]);
    assert!(!home.path("out/trace.json").is_symlink());
}

/// The metrics of another run are not continued in this one.
#[test]
fn metrics_of_another_run_are_not_copied() {
    let home = Home::new();
    home.run(format!("train run.json --out out{CHECKPOINTS}")).success();
    fs::rename(home.path("out/metrics.jsonl"), home.path("theirs.jsonl")).unwrap();
    symlink(home.path("theirs.jsonl"), home.path("out/metrics.jsonl")).unwrap();
    let said = home.run(format!("train run.json --out out --resume --set steps=4{CHECKPOINTS}")).failure(1);
    assert!(said.contains("metrics.jsonl: it is a link to ~/theirs.jsonl, outside of its folder"), "{said}");
}

/// A link in a folder that somebody else made: what it leads to does not travel into the run directory.
#[test]
fn a_link_beside_a_tokenizer_is_not_copied() {
    let tokenizer = r#"{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"the":0,"[UNK]":1},"unk_token":"[UNK]"},"pre_tokenizer":{"type":"Whitespace"}}"#;
    for name in ["chat_template.jinja", "generation_config.json", "special_tokens_map.json"] {
        let home = with_targets(|home| {
            fs::create_dir(home.path("theirs")).unwrap();
            home.write("theirs/tokenizer.json", tokenizer);
            home.write(
                "run.json",
                home.read("run.json").replace("\"text.txt\",", "\"text.txt\", \"tokenizer\": \"theirs\","),
            );
        });
        home.run("train run.json --out whole").success();
        let path = format!("theirs/{name}");
        check(&home, "train run.json --out out", &path, StandIn::LinkToSecret);
        let said = home.run("train run.json --out out").stderr;
        assert!(said.contains(&format!("{name}: it is a link to ~/secret, outside of its folder")), "{said}");
    }
}
