//! Mistakes in the text: the error names `data.text` and the file, and no folder is made.

use expect_test::{Expect, expect};

use crate::command::Home;

/// `train` refuses the text that `prepare` leaves; the error is the last line, after the run's headline.
#[track_caller]
fn refused(prepare: impl Fn(&Home), expected: Expect) {
    let home = Home::new();
    prepare(&home);
    let printed = home.run(&["train", "run.json", "--out", "out"]);
    assert_eq!((printed.status, printed.stdout.as_str()), (Some(2), ""));
    expected.assert_eq(printed.stderr.lines().last().unwrap());
    assert!(!home.path("out").exists());
}

#[test]
fn a_missing_text() {
    refused(
        |home| std::fs::remove_file(home.path("text.txt")).unwrap(),
        expect![
            "error: `data.text`: `~/text.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`"
        ],
    );
}

#[test]
fn an_empty_text() {
    refused(
        |home| home.write("text.txt", ""),
        expect!["error: `data.text`: the text is empty: all 1 files have 0 bytes; name files with text"],
    );
}

#[test]
fn a_text_that_is_not_utf_8() {
    refused(
        |home| home.write("text.txt", b"abc\xff"),
        expect![
            "error: `data.text`: `~/text.txt` is not UTF-8 text at byte 3; convert it, or name only the text files, with a glob such as `**/*.txt`"
        ],
    );
}

#[test]
fn a_text_shorter_than_a_sequence() {
    refused(
        |home| home.write("text.txt", "abc"),
        expect![
            "error: `data.text`: the training text has 3 of 3 tokens (bytes), but one sequence of seq_length 16 needs 17 with its last target; name more text, shorten seq_length or change the validation share of 0.2"
        ],
    );
}

#[test]
fn other_text_to_evaluate() {
    let home = Home::trained();
    home.refuses(
        &["eval", "out", "--data", "nowhere.txt"],
        2,
        expect![[r#"
            error: `nowhere.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`
        "#]],
    );
    home.write("short.txt", "abc");
    home.refuses(&["eval", "out", "--data", "short.txt"], 2, expect![[r#"
        error: the training text has 3 of 3 tokens (bytes), but one sequence of seq_length 16 needs 17 with its last target; name more text, shorten seq_length or change the validation share of 0
    "#]]);
}

/// `check` says it with all other mistakes, at its line; a plan needs no text.
#[test]
fn check_looks_for_texts() {
    let home = Home::new();
    std::fs::remove_file(home.path("text.txt")).unwrap();
    let said = home.run(&["check", "run.json", "--set", "steps=0"]).failure(2);
    expect![[r#"
        error: not a valid run, 2 mistakes:
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
    "#]].assert_eq(&said);
    home.run(&["plan", "run.json"]).success();
    home.write("text.txt", b"\xff");
    home.run(&["check", "run.json"]).success();
}
