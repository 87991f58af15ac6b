//! Mistakes in the run file and in the text: each is an error at its place, exit status 2, and no folder is made.

use expect_test::expect;

use crate::command::Home;

/// The text, `None` if it is missing, and the last line of the error, after the run's headline.
#[test]
fn train_refuses_texts_that_it_cannot_learn_from() {
    for (text, expected) in [
        (None, "`~/text.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`"),
        (Some(&b""[..]), "the text is empty: all 1 files have 0 bytes; name files with text"),
        (
            Some(b"abc\xff, and more than two sequences of it"),
            "`~/text.txt` is not UTF-8 text at byte 3; convert it, or name only the text files, with a glob such as `**/*.txt`",
        ),
        (
            Some(b"abc"),
            "the data has 3 tokens, but a sequence to train on and one to validate on, each of seq_length 16, need 34 with their last targets; name more data, set `data.validation` to 0 or shorten seq_length",
        ),
    ] {
        let home = Home::new();
        match text {
            None => std::fs::remove_file(home.path("text.txt")).unwrap(),
            Some(text) => home.write("text.txt", text),
        }
        let error = home.run("train run.json --out out").failure(2);
        assert!(error.contains(expected) && error.contains("`data.text`"), "{error}");
        assert!(!home.path("out").exists());
    }
}

/// From two sequences with their last targets on; 20,000 bytes are five blocks, of which a twentieth is none.
#[test]
fn texts_of_any_length_train_and_validate() {
    let home = Home::new();
    for num_bytes in [34, 4096, 18_000, 20_000] {
        home.write("text.txt", "call me Ishmael ".repeat(1250).get(..num_bytes).unwrap());
        let printed = home.run("train run.json --out out --overwrite --set data.validation=0.05");
        assert!(printed.stderr.contains("--prompt 'call me Ishmael'"), "{}", printed.stderr);
        let summary: serde_json::Value = serde_json::from_str(&home.read("out/summary.json")).unwrap();
        assert!(summary["validation_loss"].is_f64(), "{num_bytes}: {summary}");
        printed.success();
    }
}

#[test]
fn other_text_to_evaluate() {
    let home = Home::trained();
    home.write("short.txt", "abc");
    home.refuses("eval out", expect![[r#"
        $ --data nowhere.txt
        [2] error: `nowhere.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`
        $ --data short.txt
        [2] error: the data has 3 tokens, but one sequence of seq_length 16 needs 17 with its last target; name more data or shorten seq_length
    "#]]);
}

/// `check` reports it with all other mistakes, each drawn at its place; a plan needs no text.
#[test]
fn check_looks_for_texts() {
    let home = Home::new();
    std::fs::remove_file(home.path("text.txt")).unwrap();
    home.refuses("check run.json", expect![[r#"
        $ --set steps=0
        [2] error: not a valid run with --set steps=0, 2 mistakes:
          x `data.text` is "text.txt", but `~/text.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`
            ,-[run.json:9:21]
          8 |   },
          9 |   "data": { "text": "text.txt", "validation": 0.2 },
            :                     ^^^^^^^^^^
         10 |   "evaluation": { "every": 2, "batches": 1 },
            `----
          help: relative paths start at the run file's folder

          x `steps` is 0, but a run has at least one step
           ,-[--set:1:7]
         1 | steps=0
           :       ^
           `----
          help: use 1 or more
    "#]]);
    home.run("plan run.json").success();
    home.write("text.txt", [0xff; 100]);
    home.run("check run.json").success();
}

/// Names and contents with control characters move no cursor and change no colour.
#[cfg(unix)]
#[test]
fn control_characters_are_escaped() {
    let home = Home::new();
    let name = "a\u{1b}[31m.json";
    home.write(name, "{ \"steps\": 3, \"st\u{1b}[0m\": 1 }");
    home.write("b\u{1b}.json", crate::command::RUN);
    for line in [
        format!("check {name}"),
        format!("plan {name}"),
        "train b\u{1b}.json --out c\u{1b}".to_owned(),
        "eval no\u{1b}dir".to_owned(),
        "check run.json --set data.text=\u{1b}.txt".to_owned(),
    ] {
        let output = home.command(&line).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert!(!text.contains(&0x1b) && !text.is_empty(), "{}", String::from_utf8_lossy(&text));
    }
    assert!(home.run("check b\u{1b}.json").success().contains(r"b\u{1b}.json is a valid run"));
}
