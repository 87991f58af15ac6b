//! `check --fix`.

use expect_test::expect;

use crate::command::{Home, RUN};

/// A run file with mistakes that can mean one thing alone, and its text mended.
fn broken() -> (String, String) {
    let broken = RUN
        .replace("\"steps\": 3,", "\"stpes\": \"3\", # short")
        .replace("\"zero_optimization\": { \"stage\": 3 },", "zero_optimization: 3")
        .replace("\"train_batch_size\"", "\"train-batch-size\"");
    let mended = RUN
        .replace("\"steps\": 3,", "\"steps\": 3, # short")
        .replace("\"zero_optimization\": { \"stage\": 3 },", "\"zero_optimization\": {\"stage\": 3},");
    (broken, mended)
}

#[test]
fn a_master_file_is_mended_and_its_engines_are_checked() {
    let home = Home::new();
    let engines = r#"{"engines": {"one": "run.json", "other": "run.json"}"#;
    home.write("pair.json", format!(r#"{engines} "tasks": {{"both": {{"Train": ["one", "other"]}}}}}}"#));
    let printed = home.run("check pair.json --fix").success();
    let changes = "pair.json:1: nothing -> ,\npair.json:1: \"Train\" -> \"train\"\nwrote pair.fixed.json\n\n";
    assert!(printed.starts_with(changes), "{printed}");
    home.run("check pair.fixed.json").success();
    // There its engines would have no run files.
    std::fs::create_dir(home.path("folder")).unwrap();
    let error = home.run("check pair.json --fix --out folder/pair.json").failure(2);
    assert!(error.contains("run.json: cannot read the run file"), "{error}");
    assert!(!home.path("folder/pair.json").exists());
}

#[test]
fn a_mended_file_stands_beside_the_old_one_and_runs() {
    let home = Home::new();
    let (broken, mended) = broken();
    home.write("mine.json", &broken);
    let printed = home.run("check mine.json --fix").success();
    let (changes, summary) = printed.split_once("\n\n").unwrap();
    expect![[r#"
        mine.json:12: zero_optimization -> "zero_optimization"
        mine.json:12: nothing -> ,
        mine.json:12: 3 -> {"stage": 3}
        mine.json:13: "train-batch-size" -> "train_batch_size"
        mine.json:17: "stpes" -> "steps"
        mine.json:17: "3" -> 3
        wrote mine.fixed.json"#]]
    .assert_eq(changes);
    assert!(summary.ends_with("mine.fixed.json is a valid run, with 1 warning and 1 hint\n"), "{summary}");
    assert_eq!(home.run("check mine.json --fix --out -").success(), mended);
    assert_eq!((home.read("mine.json"), home.read("mine.fixed.json")), (broken, mended));
    assert!(!home.path("-").exists());
    home.run("train mine.fixed.json").success();
    expect!["mine.fixed.json: there is nothing to mend\n"]
        .assert_eq(&home.run("check mine.fixed.json --fix").success());
}

#[test]
fn no_file_is_replaced_unasked_and_none_is_written_that_does_not_pass() {
    let home = Home::new();
    let (broken, mended) = broken();
    home.write("run.json", &broken);
    home.write("other.txt", "notes");
    home.write("old.json", RUN);
    home.refuses("check run.json --fix", expect![[r#"
        $ --out old.json
        [1] error: old.json already exists: name another file with --out, or replace it with --overwrite
        $ --out other.txt --overwrite
        [1] error: other.txt is not a run file or master file: --overwrite only replaces one that `pipezero check --fix` wrote; name another file with --out, or remove this one yourself
        $ --set steps=4
        [2] error: the argument '--fix' cannot be used with '--set <KEY.PATH=VALUE>'

        Usage: pipezero check --fix <RUN.json>
    "#]]);
    assert_eq!(
        (home.read("run.json"), home.read("old.json"), home.read("other.txt")),
        (broken.clone(), RUN.to_owned(), "notes".to_owned())
    );
    home.run("check run.json --fix --out old.json --overwrite").success();
    assert_eq!(home.read("old.json"), mended);
    // A mistake that needs a decision, and a text that is not where the file would stand.
    home.write("run.json", broken.replace("0.01", "\"much\""));
    let error = home.run("check run.json --fix --out new.json").failure(2);
    assert!(
        error.contains("`optimizer.params.lr` must be a number") && error.contains("nothing was written"),
        "{error}"
    );
    std::fs::create_dir(home.path("folder")).unwrap();
    home.write("run.json", broken);
    let error = home.run("check run.json --fix --out folder/new.json").failure(2);
    assert!(error.contains("`data.text` is \"text.txt\", but"), "{error}");
    assert!(!home.path("new.json").exists() && !home.path("folder/new.json").exists());
}
