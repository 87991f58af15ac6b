//! What cannot be a base, and where mistakes of several files are shown.

use expect_test::expect;

use super::{BASE, home, load, recorded, wrong};

#[test]
fn a_chain_of_eight_bases_is_read_and_one_of_nine_is_not() {
    let mut files = vec![("0.json".to_owned(), "{}".to_owned())];
    files.extend(
        (1..=9).map(|n| (format!("{n}.json"), format!(r#"{{"extends": "{}.json", "k{n}": {n}}}"#, n - 1))),
    );
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let home = home(&files);
    assert_eq!(recorded(&home, "8.json").as_object().unwrap().len(), 8);
    let expected = expect![[r#"
        1.json:1:13: `extends` is "0.json", but a run has at most 8 bases, each that of the file before it (9.json -> 8.json -> 7.json -> 6.json -> 5.json -> 4.json -> 3.json -> 2.json -> 1.json -> 0.json); join some of these files
    "#]];
    expected.assert_eq(&wrong(&home, "9.json", &[]));
}

/// None of these files can be a base, and each has one mistake that is reported.
#[test]
fn what_cannot_be_a_base_is_one_error_at_its_name() {
    let home = home(&[
        ("self.json", r#"{"extends": "./self.json"}"#),
        ("one.json", r#"{"extends": "sub/two.json"}"#),
        ("sub/two.json", r#"{"extends": "../one.json"}"#),
        ("missing.json", "{\n  \"steps\": 3,\n  \"extends\": \"gone.json\"\n}"),
        ("of-missing.json", r#"{"extends": "missing.json"}"#),
        ("list.json", "[1]"),
        ("of-list.json", r#"{"extends": "list.json"}"#),
        ("master.json", r#"{"engines": {"a": "a.json"}, "tasks": {"t": {"train": ["a"]}}}"#),
        ("of-master.json", r#"{"extends": "master.json"}"#),
        ("of-stdin.json", r#"{"extends": "-"}"#),
        ("of-folder.json", r#"{"extends": "sub"}"#),
        ("of-nothing.json", r#"{"extends": ""}"#),
        ("of-two.json", r#"{"extends": ["one.json", "list.json"]}"#),
        ("broken.json", "{\n  \"steps\": 3,\n  \"seed\" 4\n}"),
        ("of-broken.json", r#"{"extends": "broken.json"}"#),
    ]);
    let names = [
        "self",
        "one",
        "missing",
        "of-missing",
        "of-list",
        "of-master",
        "of-stdin",
        "of-folder",
        "of-nothing",
        "of-two",
        "of-broken",
    ];
    let all: String = names.iter().map(|name| wrong(&home, &format!("{name}.json"), &[])).collect();
    let expected = expect![[r#"
        self.json:1:13: `extends` is "./self.json", but that file is read already, so the files extend each other in a circle (self.json -> ./self.json); remove `extends` from one of them
        sub/two.json:1:13: `extends` is "../one.json", but that file is read already, so the files extend each other in a circle (one.json -> sub/two.json -> sub/../one.json); remove `extends` from one of them
        missing.json:3:14: `extends` is "gone.json", but that file cannot be read: No such file or directory (os error 2) (missing.json -> gone.json); relative paths start at the folder of the file in which they are written
        missing.json:3:14: `extends` is "gone.json", but that file cannot be read: No such file or directory (os error 2) (of-missing.json -> missing.json -> gone.json); relative paths start at the folder of the file in which they are written
        of-list.json:1:13: `extends` is "list.json", but that file is a list, and a run file is an object (of-list.json -> list.json); begin that file with `{` and end it with `}`
        of-master.json:1:13: `extends` is "master.json", but that is a master file, of several models, and not a run file (of-master.json -> master.json); name the run file of one engine
        of-stdin.json:1:13: `extends` is "-", but only the file of the command line may be stdin (of-stdin.json); name a file
        of-folder.json:1:13: `extends` is "sub", but that file cannot be read: it is a folder, and only regular files of at most 16777198 bytes are read (of-folder.json -> sub); relative paths start at the folder of the file in which they are written
        of-nothing.json:1:13: `extends` is "", but that file cannot be read: it is a folder, and only regular files of at most 16777201 bytes are read (of-nothing.json -> ); relative paths start at the folder of the file in which they are written
        of-two.json:1:13: `extends` must be the path of a run file, but is a list; write the path of one file, in quotes; that file may extend another
        broken.json:3:10: this is not JSON: `:` belongs here, but `4` stands there
    "#]];
    expected.assert_eq(&all);
}

#[test]
fn the_bounds_of_a_run_file_hold_for_all_files_together() {
    let blanks = " ".repeat(9 << 20);
    let values = |count| format!("{{\"_\": [{}0]}}", "0,".repeat(count));
    let home = home(&[
        ("large.json", &format!("{{}}{blanks}")),
        ("of-large.json", &format!("{{\"extends\": \"large.json\"}}{blanks}")),
        ("many.json", &values(60_000)),
        ("of-many.json", &values(60_000).replacen('{', r#"{"extends": "many.json", "#, 1)),
        ("of-one.json", r#"{"extends": "large.json"}"#),
        ("of-other.json", r#"{"extends": "many.json"}"#),
    ]);
    let all: String = ["of-large", "of-many"].map(|name| wrong(&home, &format!("{name}.json"), &[])).concat();
    let expected = expect![[r#"
        of-large.json:1:13: `extends` is "large.json", but that file cannot be read: it has 9437186 bytes or more, and at most 7340007 are read (of-large.json -> large.json); the files of a run have at most 16777216 bytes together
        of-many.json:1:13: `extends` is "many.json", but with that file the run has more than 100000 values (of-many.json -> many.json); name files of data by their folder or a pattern such as "data/*.txt"
    "#]];
    expected.assert_eq(&all);
    for alone in ["of-one.json", "of-other.json"] {
        assert!(load(&home, alone).is_ok(), "{alone}");
    }
}

#[test]
fn mistakes_stand_in_the_file_in_which_they_are_written() {
    let base =
        BASE.replace("\"steps\": 3", "\"steps\": -3,\n  \"bf16\": {\"enabled\": true},\n  \"seed\": \"x\"");
    let own = "{\n  \"extends\": \"sub/base.json\",\n  \"threads\": 0,\n  \"batch\": 4,\n  \"global_batch_size\": 4,\n  \"bfloat16\": {\"enabled\": false}\n}";
    let home = home(&[("sub/base.json", &base), ("run.json", own)]);
    let expected = expect![[r#"
        run.json:3:14: `threads` is 0, but it must be at least 1; use 1 or more
        run.json:4:3: unknown key `batch`; did you mean `train_batch_size`? that stands at sub/base.json:4:23 already
        run.json:5:3: unknown key `global_batch_size`; here it is `train_batch_size`, which stands at sub/base.json:4:23 already: remove one of the two
        run.json:6:3: `bfloat16` is an object, but it is a second name of `bf16`, which is another value at sub/base.json:6:3; keep `bf16` alone
        sub/base.json:5:12: `steps` is -3, but it must not be negative; use a positive number
        --set seed=-1: `seed` is -1, but it must not be negative; use a positive number
        --set data.validation=2: `data.validation` is 2, but it is a share of the data, from 0 to 0.5; use a value such as 0.05
    "#]];
    expected.assert_eq(&wrong(&home, "run.json", &["seed=-1", "data.validation=2"]));
}

#[test]
fn null_for_a_key_that_the_base_does_not_have_is_a_mistake_as_without_a_base() {
    let own = "{\n  \"extends\": \"base.json\",\n  \"stepps\": null,\n  \"zero_optimization\": {\"stagee\": null}\n}";
    let home = home(&[("base.json", BASE), ("run.json", own)]);
    let expected = expect![[r#"
        run.json:3:3: unknown key `stepps`; did you mean `steps`? that stands at base.json:5:12 already
        run.json:4:25: unknown key `zero_optimization.stagee`; did you mean `stage`?
    "#]];
    expected.assert_eq(&wrong(&home, "run.json", &[]));
}
