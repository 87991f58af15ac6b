//! `tokenize`, then `train`, `eval` and `generate` on tokens.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::{Duration, Instant};

use expect_test::expect;
use pipezero::tokens::{Tokenizer, train_tokenizer};

use crate::command::Home;
use crate::signals::{guard, obeying, signal};

/// A folder with a tokenizer of 300 tokens, some documents and a run on them.
pub(crate) fn home() -> Home {
    let home = Home::with(&[
        (
            r#""text": "text.txt", "validation": 0.2"#,
            r#""tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2"#,
        ),
        (r#""seq_length": 16"#, r#""seq_length": 16, "vocab_size": 320"#),
    ]);
    let text = home.read("text.txt");
    train_tokenizer([&text].into_iter(), 300, &home.path("tokenizer.json")).unwrap();
    let lines = text.as_bytes().chunks(300).map(|text| {
        let text = String::from_utf8_lossy(text);
        format!("{}\n", serde_json::json!({ "text": text }))
    });
    home.write("documents.jsonl", lines.collect::<String>());
    home
}

#[test]
fn a_folder_of_transformers_has_the_runs_tokenizer_and_its_tokens() {
    let home = home();
    let end = Tokenizer::load(&home.path("tokenizer.json"), None).unwrap().end_token();
    home.write("tokenizer_config.json", r#"{"bos_token": {"content": "<|endoftext|>"}}"#);
    home.write("generation_config.json", "{}");
    home.write("chat_template.jinja", "{{ messages }}");
    let train =
        "train run.json --set data.tokens=null --set data.text=text.txt --set checkpoint.every=1 --out out";
    home.run(train).success();
    home.run("checkpoint export out --format hf --out hf").success();
    let names = [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    assert_eq!(home.names_in("hf"), names);
    let config: serde_json::Value = serde_json::from_str(&home.read("hf/config.json")).unwrap();
    assert!(end.is_some());
    assert_eq!([&config["bos_token_id"], &config["eos_token_id"]], [&serde_json::json!(end); 2]);
    // Of a checkpoint's own folder, too.
    home.run("checkpoint export out/checkpoints/step-00000003 --format hf --out same").success();
    assert_eq!(home.names_in("same"), names);
    assert_eq!(home.read("same/config.json"), home.read("hf/config.json"));
    // What is not beside the tokenizer any more is not the run's.
    fs::remove_file(home.path("chat_template.jinja")).unwrap();
    home.run(format!("{train} --resume --set steps=4")).success();
    home.run("checkpoint export out --format hf --out later").success();
    assert_eq!(home.names_in("later"), names[1..]);
    home.run(format!("{train} --overwrite")).success();
}

#[test]
fn tokens_are_made_trained_on_scored_and_continued() {
    let home = home();
    let printed =
        home.run("tokenize documents.jsonl ./documents.jsonl --tokenizer tokenizer.json --out data");
    assert!(printed.stderr.contains("\n1 file named again; each file is read once\n"), "{}", printed.stderr);
    let stdout = printed.success();
    assert!(
        stdout.contains(" tokens of u16 in ") && stdout.ends_with("written: data.bin and data.idx\n"),
        "{stdout}"
    );
    home.run("train run.json --out out").success();
    // A run directory needs neither the tokenizer nor its place.
    fs::remove_file(home.path("tokenizer.json")).unwrap();
    let all = home.run("eval out --all").success();
    let fields: Vec<&str> = all.lines().last().unwrap().split_whitespace().collect();
    let bits: f64 = fields[3].parse().expect("bits per byte");
    assert!(bits > 0.5 && bits < 8.0, "{all}");
    let batches = home.run("eval out").success();
    assert_ne!(
        batches.lines().last().unwrap().split_whitespace().next(),
        Some(fields[0]),
        "batches are some of all"
    );
    home.write("prompts.txt", "the cat\n\non a mat\nsat\n");
    let lines = home.run("generate out --prompts prompts.txt --batch 2 --max-tokens 6").success();
    let alone = home.run("generate out --prompts prompts.txt --batch 1 --max-tokens 6").success();
    assert_eq!(lines, alone, "what is drawn for a prompt does not depend on the others");
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let prompts: Vec<&str> = lines.iter().map(|line| line["prompt"].as_str().unwrap()).collect();
    assert_eq!(prompts, ["the cat", "on a mat", "sat"]);
    let one = home.command("generate out --max-tokens 6").args(["--prompt", "the cat"]).output().unwrap();
    let written = format!("the cat{}\n", lines[0]["completion"].as_str().unwrap());
    assert_eq!(String::from_utf8_lossy(&one.stdout), written);
    home.run("eval out --data documents.jsonl --batches 1").success();
}

/// The run directory's own run file names the tokenizer in it, which is read before anything of the directory is removed.
#[test]
fn a_run_is_started_again_in_its_place_from_its_own_run_file() {
    let home = home();
    home.run("tokenize documents.jsonl --tokenizer tokenizer.json --out data").success();
    home.write("tokenizer_config.json", "{}");
    home.run("train run.json --out out").success();
    let kept = |name: &str| home.read(&format!("out/{name}"));
    let both = ["tokenizer.json", "tokenizer_config.json"].map(kept);
    for line in ["train out/run.json --out out --overwrite", "train out/run.json --out out --resume"] {
        home.run(format!("{line} --set data.tokens={}", home.path("data").display())).success();
        assert_eq!(["tokenizer.json", "tokenizer_config.json"].map(kept), both, "{line}");
    }
}

/// A token that no check before the run has looked at: what is wrong, with which file, and where.
#[test]
fn a_token_that_the_model_does_not_know_is_named_with_its_file() {
    let home = home();
    home.run("tokenize documents.jsonl --tokenizer tokenizer.json --out data").success();
    home.run("train run.json --out out").success();
    home.run("train run.json --set data.tokenizer=null --out bare").success();
    home.write("other.bin", [700_u16; 1000].map(u16::to_le_bytes).concat());
    home.refuses(
        "",
        expect![[r#"
            $ eval out --data other.bin --all
            [2] error: `other.bin`: token 700 at token 0 (byte 0) is beyond vocab_size 320; the file is of another tokenizer or of another `data.token_type` or byte order, or the model needs a larger `vocab_size`
            $ eval bare --data other.bin --all
            [2] error: evaluation, batch 1: rank 0, reading micro-batch 0: `other.bin`: token 700 at token 0 (byte 0) is beyond vocab_size 320; the file is of another tokenizer or of another `data.token_type` or byte order, or the model needs a larger `vocab_size`
        "#]],
    );
}

/// A process that is killed again and again, wherever it is, ends with the files of one that is not.
#[test]
fn killed_work_goes_on_to_the_same_files() {
    let home = home();
    // Long enough to be killed in the middle.
    let documents = home.read("documents.jsonl").repeat(60);
    home.write("documents.jsonl", &documents);
    let line = "tokenize documents.jsonl --tokenizer tokenizer.json --save-every 1 --out";
    home.run(format!("{line} whole")).success();
    let mut num_kills = 0;
    let mut bytes_before = 0;
    loop {
        let resume = if num_kills > 0 { " --resume" } else { "" };
        let mut child = home.command(format!("{line} data{resume}")).spawn().unwrap();
        match killed_later_than(&home, &mut child, bytes_before) {
            Some(bytes) => bytes_before = bytes,
            None => break,
        }
        num_kills += 1;
    }
    assert!(num_kills > 0, "it was killed in the middle");
    for ending in ["bin", "idx"] {
        let read = |name: &str| fs::read(home.path(&format!("{name}.{ending}"))).unwrap();
        assert!(read("data") == read("whole"), "{ending} after {num_kills} kills");
    }
}

/// Nothing is kept but for the signals, since --save-every is beyond the input.
#[test]
fn a_signal_stops_the_work_where_it_can_go_on() {
    let home = home();
    // Long enough to be stopped in the middle, twice.
    let documents = home.read("documents.jsonl").repeat(120);
    home.write("documents.jsonl", &documents);
    let line = "tokenize documents.jsonl --tokenizer tokenizer.json --threads 1 --out";
    home.run(format!("{line} whole")).success();
    let mut bytes_before = 0;
    for (name, status, resume) in [("INT", 130, ""), ("TERM", 143, " --resume")] {
        let mut child = obeying(name, &home, &format!("{line} data{resume}")).spawn().unwrap();
        let (ended, guard) = guard(&child);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        assert_ne!(stderr.read_line(&mut text).unwrap(), 0, "it waits for signals, and says what it does");
        signal(name, &child.id().to_string());
        stderr.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status), "{text}");
        ended.send(()).unwrap();
        guard.join().unwrap();
        let says = |line: &str| line.starts_with("stopped after ") && line.ends_with("; go on with --resume");
        assert!(text.lines().any(says), "{text}");
        let state: serde_json::Value = serde_json::from_str(&home.read("data.tokenize.json")).unwrap();
        let kept = state["num_bytes"].as_u64().unwrap();
        // Nothing more, where the signal came while what had been done was looked through.
        assert!(kept >= bytes_before.max(1) && kept < documents.len() as u64, "{text}");
        bytes_before = kept;
    }
    home.run(format!("{line} data --resume")).success();
    for ending in ["bin", "idx"] {
        let read = |name: &str| fs::read(home.path(&format!("{name}.{ending}"))).unwrap();
        assert!(read("data") == read("whole"), "{ending}");
    }
}

/// Kills a process once it has kept more than so many bytes of the input, and returns how many; `None` if it ended before.
fn killed_later_than(home: &Home, child: &mut Child, bytes_before: u64) -> Option<u64> {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "it neither ends nor goes on");
        let state = fs::read_to_string(home.path("data.tokenize.json")).unwrap_or_default();
        let state: Option<serde_json::Value> = serde_json::from_str(&state).ok();
        let kept = state.and_then(|state| state["num_bytes"].as_u64()).unwrap_or(0);
        if kept > bytes_before {
            child.kill().unwrap();
            child.wait().unwrap();
            return Some(kept);
        }
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return None;
        }
        std::thread::yield_now();
    }
}

#[test]
fn mistakes_are_refused() {
    let home = home();
    home.write("empty.txt", "");
    home.run("tokenize documents.jsonl --tokenizer tokenizer.json --out data").success();
    home.refuses(
        "",
        expect![[r#"
            $ tokenize documents.jsonl --tokenizer tokenizer.json --out data
            [1] error: `data.idx` exists; name another --out, or replace it with --overwrite
            $ tokenize documents.jsonl --tokenizer tokenizer.json --out data --resume
            [1] error: `data.idx` exists; name another --out, or replace it with --overwrite
            $ tokenize missing.txt --tokenizer tokenizer.json --out x
            [2] error: `missing.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`
            $ tokenize empty.txt --tokenizer tokenizer.json --out x
            [2] error: the inputs hold no document: all 1 files are empty
            $ tokenize documents.jsonl --tokenizer documents.jsonl --out x
            [2] error: `documents.jsonl` is no tokenizer.json that can be used: trailing characters at line 2 column 1
            $ tokenize documents.jsonl --tokenizer missing.json --out x
            [2] error: `missing.json`: No such file or directory (os error 2)
            $ tokenize documents.jsonl --tokenizer tokenizer.json --end-token </s> --out x
            [2] error: `tokenizer.json` has no token "</s>"; its special tokens are "<|endoftext|>"
            $ tokenize documents.jsonl --tokenizer tokenizer.json --separator \q --out x
            [2] error: invalid value '\q' for '--separator <TEXT>': behind a \ stands n, t or another \
            $ tokenize documents.jsonl --tokenizer tokenizer.json --separator \n --out x
            [2] error: --separator stands between the documents of a text, but each of the files (1) is JSON, of which each object is one; leave it out
            $ tokenize text.txt --tokenizer tokenizer.json --text-field body --out x
            [2] error: --text-field names a field of JSON, but none of the files (1) is .json, .jsonl or .ndjson; give them that ending, or leave it out
            $ tokenize documents.jsonl --tokenizer tokenizer.json --text-field body --out x
            [2] error: documents.jsonl:1: it has neither "body", nor "messages", nor "prompt" and "completion", nor "instruction" and "output", nor "tokens", but "text"; name the field of the text with --text-field of `pipezero tokenize`, or leave the file out
            $ tokenize documents.jsonl --tokenizer tokenizer.json --save-every many --out x
            [2] error: invalid value 'many' for '--save-every <BYTES>': it is a number of bytes, such as 200KB or 5GB
            $ check run.json --set data.tokens=missing
            [2] error: not a valid run, 1 mistake:
              x `data.tokens` is "missing", but `~/missing`: there is neither this file nor, for a prefix, one with .bin; name a `.bin` file, or the prefix of a `.bin` and a `.idx`, as `pipezero tokenize` writes them
               ,-[--set:1:13]
             1 | data.tokens=missing
               :             ^^^^^^^
               `----
              help: relative paths start at the run file's folder
            $ check run.json --set data.tokens=data.idx --set data.weights=[1,2]
            [2] error: not a valid run, 1 mistake:
              x `data.weights` is a list of 2, but `data.tokens` names 1 file, and each has a weight
               ,-[--set:1:14]
             1 | data.weights=[1,2]
               :              ^^^^^
               `----
              help: write as many weights as files
            $ check run.json --set data.weights=[-1]
            [2] error: not a valid run, 1 mistake:
              x `data.weights` is -1, but a weight is above 0
               ,-[--set:1:14]
             1 | data.weights=[-1]
               :              ^^^^
               `----
              help: leave a file out that is not to be read
            $ check run.json --set data.text=text.txt
            [2] error: not a valid run, 1 mistake:
              x `data.text` is written, but `data.tokens` stands beside it, and a run reads one or the other
               ,-[--set:1:11]
             1 | data.text=text.txt
               :           ^^^^^^^^
               `----
              help: remove it
            $ check run.json --set data.tokenizer=documents.jsonl
            [2] error: not a valid run, 1 mistake:
              x `data.tokenizer`: `~/documents.jsonl` is no tokenizer.json that can be used: trailing characters at line 2 column 1
               ,-[--set:1:16]
             1 | data.tokenizer=documents.jsonl
               :                ^^^^^^^^^^^^^^^
               `----
            $ check run.json --set data.validation_tokens=data
            [2] error: not a valid run with --set data.validation_tokens=data, 1 mistake:
              x `data.validation` is 0.2, but `data.validation_tokens` stands beside it, and says what is validated on
                ,-[run.json:9:76]
              8 |   },
              9 |   "data": { "tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2 },
                :                                                                            ^^^
             10 |   "evaluation": { "every": 2, "batches": 1 },
                `----
              help: remove it
            $ check run.json --set data.token_type=f32
            [2] error: not a valid run, 1 mistake:
              x `data.token_type` is "f32", but it must be "u8", "i8", "u16", "i16", "u32", "i32" or "i64"
               ,-[--set:1:17]
             1 | data.token_type=f32
               :                 ^^^
               `----
              help: did you mean "u32"?
            $ train run.json --set model.vocab_size=100 --out x
            [2] error: not a valid run with --set model.vocab_size=100, 1 mistake:
              x `data.tokenizer`: the tokenizer has tokens up to 266, but the model knows tokens below vocab_size 100; set `model.vocab_size` to 267 or more, or, where `model.from` says it, use that model's own tokenizer
                ,-[run.json:9:44]
              8 |   },
              9 |   "data": { "tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2 },
                :                                            ^^^^^^^^^^^^^^^^
             10 |   "evaluation": { "every": 2, "batches": 1 },
                `----
            $ train run.json --set data.weights=[1] --set data.validation=0.5 --set model.seq_length=100000 --out x
            [2] error: not a valid run with --set data.weights=[1] --set data.validation=0.5 --set model.seq_length=100000, 1 mistake:
              x `data.tokens`: file 1: the data has 13143 tokens, but a sequence to train on and one to validate on, each of seq_length 100000, need 200002 with their last targets; name more data, set `data.validation` to 0 or shorten seq_length
                ,-[run.json:9:23]
              8 |   },
              9 |   "data": { "tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2 },
                :                       ^^^^^^
             10 |   "evaluation": { "every": 2, "batches": 1 },
                `----
            $ generate out --prompts missing.txt
            [2] error: missing.txt: No such file or directory (os error 2)
        "#]],
    );
}

/// The numbers of its tokens would mean other words.
#[test]
fn tokens_that_another_tokenizer_made_are_refused() {
    let home = home();
    home.run("tokenize documents.jsonl --tokenizer tokenizer.json --out data").success();
    home.run("train run.json --out out").success();
    let json: serde_json::Value = serde_json::from_str(&home.read("tokenizer.json")).unwrap();
    home.write("same.json", json.to_string());
    train_tokenizer(["other words of another text"].into_iter(), 300, &home.path("other.json")).unwrap();
    home.run("tokenize documents.jsonl --tokenizer other.json --out others").success();
    home.refuses(
        "check run.json --set",
        expect![[r#"
            $ data.tokenizer=other.json
            [2] error: not a valid run, 1 mistake:
              x `data.tokenizer`: `~/data.bin` was made by the tokenizer `~/tokenizer.json`, and `~/other.json` has other contents, by which its tokens mean another text; name the tokenizer that made it, or make the tokens again with `pipezero tokenize`
               ,-[--set:1:16]
             1 | data.tokenizer=other.json
               :                ^^^^^^^^^^
               `----
            $ data.tokens=others
            [2] error: not a valid run with --set data.tokens=others, 1 mistake:
              x `data.tokenizer`: `~/others.bin` was made by the tokenizer `~/other.json`, and `~/tokenizer.json` has other contents, by which its tokens mean another text; name the tokenizer that made it, or make the tokens again with `pipezero tokenize`
                ,-[run.json:9:44]
              8 |   },
              9 |   "data": { "tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2 },
                :                                            ^^^^^^^^^^^^^^^^
             10 |   "evaluation": { "every": 2, "batches": 1 },
                `----
            $ data.tokens=["data","others.bin"]
            [2] error: not a valid run with --set data.tokens=["data","others.bin"], 1 mistake:
              x `data.tokenizer`: `~/others.bin` was made by the tokenizer `~/other.json`, and `~/tokenizer.json` has other contents, by which its tokens mean another text; name the tokenizer that made it, or make the tokens again with `pipezero tokenize`
                ,-[run.json:9:44]
              8 |   },
              9 |   "data": { "tokens": "data", "tokenizer": "tokenizer.json", "validation": 0.2 },
                :                                            ^^^^^^^^^^^^^^^^
             10 |   "evaluation": { "every": 2, "batches": 1 },
                `----
            $ data.validation=null --set data.validation_tokens=others
            [2] error: not a valid run, 1 mistake:
              x `data.validation_tokens`: `~/others.bin` was made by the tokenizer `~/other.json`, and `~/tokenizer.json` has other contents, by which its tokens mean another text; name the tokenizer that made it, or make the tokens again with `pipezero tokenize`
               ,-[--set:1:24]
             1 | data.validation_tokens=others
               :                        ^^^^^^
               `----
        "#]],
    );
    let said = "was made by the tokenizer `~/tokenizer.json`, and `~/other.json` has other contents";
    let trained = home.run("train run.json --out new --set data.tokenizer=other.json").failure(2);
    assert!(trained.contains(said), "{trained}");
    assert!(!home.path("new").exists());
    let scored = home.run("eval out --data others --batches 1").failure(2);
    assert!(scored.contains("was made by the tokenizer `~/other.json`"), "{scored}");
    // Wherever it lies, and however it is written.
    home.run("check run.json --set data.tokenizer=same.json").success();
    home.run("check run.json --set data.tokens=others --set data.tokenizer=other.json").success();
    // Without a tokenizer nothing is said of texts, and without the file beside them nothing is known.
    home.run("check run.json --set data.tokenizer=null").success();
    let beside = "data.tokenizer-of-tokens.json";
    let written = home.read(beside);
    fs::remove_file(home.path(beside)).unwrap();
    home.run("check run.json --set data.tokenizer=other.json").success();
    // One of other tokens was left there.
    home.write(beside, home.read("others.tokenizer-of-tokens.json"));
    home.run("check run.json").success();
    home.write(beside, written);
    // Tokens that are made again say so.
    home.run("tokenize documents.jsonl --tokenizer other.json --out data --overwrite").success();
    let refused = home.run("check run.json").failure(2);
    assert!(refused.contains("was made by the tokenizer `~/other.json`"), "{refused}");
    home.run("check run.json --set data.tokenizer=other.json").success();
}
