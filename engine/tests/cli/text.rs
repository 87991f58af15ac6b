//! Mistakes in the text: the error names `data.text` and the file, and no folder is made.

use expect_test::{Expect, expect};

use crate::command::Home;

/// `train` refuses the text that `prepare` leaves; the error is the last line, after the run's headline.
#[track_caller]
fn refused(prepare: impl Fn(&Home), expected: Expect) {
    let home = Home::new();
    prepare(&home);
    let printed = home.run(&["train", "run.json", "--out", "out"]);
    assert_eq!((printed.status, printed.stdout.as_str()), (Some(1), ""));
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
        1,
        expect![[r#"
            error: `nowhere.txt` does not exist; name a file, a folder or a glob such as `texts/**/*.txt`
        "#]],
    );
    home.write("short.txt", "abc");
    home.refuses(&["eval", "out", "--data", "short.txt"], 1, expect![[r#"
        error: the training text has 3 of 3 tokens (bytes), but one sequence of seq_length 16 needs 17 with its last target; name more text, shorten seq_length or change the validation share of 0
    "#]]);
}
