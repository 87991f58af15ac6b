//! What `train --resume` says of a run that is not as it was, and what it keeps: the sequences of a step.

use std::fs;

use expect_test::{Expect, expect};
use pipezero::tokens::train_tokenizer;
use serde_json::Value;

use crate::checkpoint::run;
use crate::command::Home;

/// The lines about changes of a run that goes on.
fn lines(stderr: &str) -> String {
    let is_about_changes = |line: &&str| {
        ["warning: ", "since the checkpoint: "].iter().any(|begin| line.starts_with(begin))
            || line.contains("`gradient_accumulation_steps`")
    };
    stderr.lines().filter(is_about_changes).map(|line| format!("{line}\n")).collect()
}

/// Goes on with a copy of the run in `out` for each `$` in the expected text, with what stands behind it, and compares what is said of changes.
#[track_caller]
fn goes_on(home: &Home, command: &str, expected: Expect) {
    let arguments: Vec<&str> =
        expected.data().lines().filter_map(|line| line.trim_start().strip_prefix("$ ")).collect();
    assert!(!arguments.is_empty(), "arguments stand behind each `$`");
    let mut found = String::new();
    for arguments in arguments {
        copy(home, "out", "copy");
        let printed = home.run(format!("{command} --out copy --resume {arguments}"));
        found += &format!("$ {arguments}\n{}", lines(&printed.stderr));
        printed.success();
    }
    expected.assert_eq(&found);
}

/// Copies a run directory, over one that is there.
fn copy(home: &Home, from: &str, to: &str) {
    let _ = fs::remove_dir_all(home.path(to));
    fs::create_dir(home.path(to)).unwrap();
    for name in home.names_in(from) {
        let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
        match home.path(&from).is_dir() {
            true => copy(home, &from, &to),
            false => drop(fs::copy(home.path(&from), home.path(&to)).unwrap()),
        }
    }
}

#[test]
fn what_changes_what_is_learned_is_a_warning_and_all_else_a_line() {
    let home = run();
    home.write("other.txt", home.read("text.txt").replace("cat", "dog"));
    home.write("same.txt", home.read("text.txt"));
    goes_on(
        &home,
        "train run.json --set steps=4",
        expect![[r#"
            $ --set seed=7
            $ --set seed=3 --set gradient_clipping=1
            $ --set train_batch_size=4
            $ --set data.text=other.txt
            $ --set data.text=same.txt
            $ --set data.validation=0.1
            $ --set data.document_attention=true
            $ --set data.seq_lengths=[8,16]
            $ --set model.dropout=0.1
            $ --set optimizer.params.betas=[0.8,0.99]
            $ --set optimizer.params.weight_decay=0.1 --set optimizer.no_decay=[]
            $ --set gradient_clipping=0.5
            $ --set bf16.enabled=true
            $ --set fp16.enabled=true
            $ --set optimizer.params.lr=0.001
            $ --set scheduler.type=WarmupDecayLR --set scheduler.params.warmup_num_steps=2
            $ --set threads=2 --set checkpoint.keep=3 --set evaluation.every=0
            $ --set zero_optimization.stage=1 --set parallel.schedule=gpipe
            $ --set comm.links.near.gb_per_s=10 --set comm.timeout_s=60
        "#]],
    );
    // Of the text alone that is read, however it is named.
    home.write("text.txt", home.read("other.txt"));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
        $ --set steps=4
    "#]],
    );
}

/// The text is cut into other sequences, which GPT-2's table of positions does not allow.
#[test]
fn sequences_of_another_length_are_warned_of() {
    let home = Home::with(&[
        (r#""family": "gpt2""#, r#""family": "llama""#),
        ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }"),
    ]);
    home.run("train run.json --out out").success();
    goes_on(
        &home,
        "train run.json --set steps=4",
        expect![[r#"
        $ --set model.seq_length=8
        $ --set model.rotary_base=500000
        $ --set model.norm_epsilon=1e-6
    "#]],
    );
}

/// The rate follows from the number of steps: it is what is warned of, and not that a run is longer.
#[test]
fn a_longer_run_is_warned_of_if_its_rate_is_another() {
    let home = run();
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
        $ --set steps=5
    "#]],
    );
    let decays =
        "train run.json --set scheduler.type=WarmupDecayLR --set scheduler.params.warmup_num_steps=2";
    home.run(format!("{decays} --out out --overwrite")).success();
    goes_on(
        &home,
        decays,
        expect![[r#"
        $ --set steps=5
        $ --set steps=5 --set scheduler.params.total_num_steps=3
        $ --set steps=4 --set scheduler.params.warmup_max_lr=0.02
    "#]],
    );
}

/// By what it says, wherever it lies and however it is spaced.
#[test]
fn a_tokenizer_with_other_contents_is_warned_of() {
    let home = Home::with(&[
        (r#""text": "text.txt""#, r#""text": "text.txt", "tokenizer": "one.json""#),
        (r#""seq_length": 16"#, r#""seq_length": 16, "vocab_size": 320"#),
        ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }"),
    ]);
    let text = home.read("text.txt");
    train_tokenizer([&text].into_iter(), 300, &home.path("one.json")).unwrap();
    train_tokenizer(["other words"].into_iter(), 300, &home.path("two.json")).unwrap();
    let one: Value = serde_json::from_str(&home.read("one.json")).unwrap();
    home.write("same.json", one.to_string());
    home.run("train run.json --out out").success();
    goes_on(
        &home,
        "train run.json --set steps=4",
        expect![[r#"
        $ --set data.tokenizer=one.json
        $ --set data.tokenizer=same.json
        $ --set data.tokenizer=two.json
    "#]],
    );
    home.write("one.json", home.read("two.json"));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
        $ --set steps=4
    "#]],
    );
}

/// What a student learns from is not in its run file.
#[test]
fn another_loss_is_warned_of() {
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    let file = |alpha: f64| {
        let distill = serde_json::json!({ "student": "small", "teacher": "large", "alpha": alpha });
        let task = serde_json::json!({ "distill": distill, "init": { "large": "teacher" } });
        let mut large: Value = serde_json::from_str(&home.read("run.json")).unwrap();
        for key in [
            "data",
            "evaluation",
            "optimizer",
            "steps",
            "seed",
            "train_batch_size",
            "gradient_accumulation_steps",
            "checkpoint",
        ] {
            large.as_object_mut().unwrap().remove(key);
        }
        serde_json::json!({ "engines": { "small": "run.json", "large": large }, "tasks": { "learn": task } })
            .to_string()
    };
    home.run("train run.json --out teacher").success();
    home.write("distill.json", file(0.5));
    home.run("train distill.json --out out").success();
    let more = "--resume --set engines.small.steps=4";
    home.write("distill.json", file(0.25));
    copy(&home, "out", "copy");
    let printed = home.run(format!("train distill.json --out copy {more}"));
    expect![[r#""#]].assert_eq(&lines(&printed.stderr));
    printed.success();
    let alone = home.run("resume out/small --set steps=4");
    expect![[r#""#]].assert_eq(&lines(&alone.stderr));
    alone.success();
}

const MICRO_BATCHES: (&str, &str) = (
    "\"train_batch_size\": 8,\n  \"gradient_accumulation_steps\": 2",
    "\"train_micro_batch_size_per_gpu\": 2,\n  \"gradient_accumulation_steps\": 2",
);

/// A run on 2 data ranks whose batch is written in these keys.
fn with_batch(keys: &str) -> Home {
    let (from, _) = MICRO_BATCHES;
    let home =
        Home::with(&[(from, keys), ("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    home.run("train run.json --out out").success();
    home
}

/// The batch of the newest checkpoint: of a step, of a micro-batch, and how many micro-batches.
fn batch(home: &Home, run: &str) -> [u64; 3] {
    let newest = home.names_in(&format!("{run}/checkpoints")).pop().unwrap();
    let manifest: Value =
        serde_json::from_str(&home.read(&format!("{run}/checkpoints/{newest}/manifest.json"))).unwrap();
    let of = |key: &str| manifest["run"]["batch"][key].as_u64().unwrap();
    [of("train_batch_size"), of("micro_batch_size"), of("num_micro_batches")]
}

#[test]
fn steps_keep_their_sequences_on_another_grid() {
    let both = MICRO_BATCHES.1;
    let micro = "\"train_micro_batch_size_per_gpu\": 2";
    let all =
        "\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2";
    let written = [
        (both, "data=1", [8, 2, 4]),
        (both, "data=4", [8, 2, 1]),
        (both, "pipeline=4", [8, 2, 2]),
        (micro, "data=1", [4, 2, 2]),
        (all, "data=1", [8, 2, 4]),
        (all, "data=4", [8, 2, 1]),
        ("\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2", "data=4", [8, 2, 1]),
        ("\"train_batch_size\": 8, \"gradient_accumulation_steps\": 2", "data=4", [8, 1, 2]),
        ("\"train_batch_size\": 8", "data=4", [8, 2, 1]),
    ];
    for (keys, grid, expected) in written {
        let home = with_batch(keys);
        let on = home.run(format!("train run.json --out out --resume --set steps=4 --set parallel.{grid}"));
        assert!(!on.stderr.contains("train_batch_size "), "{}", on.stderr);
        on.success();
        assert_eq!(batch(&home, "out"), expected, "{keys} with {grid}");
        // The run file of the run directory says it too, and the same command goes on once more.
        home.run(format!("train run.json --out out --resume --set steps=5 --set parallel.{grid}")).success();
        home.run("resume out --set steps=6").success();
        assert_eq!(batch(&home, "out"), expected, "{keys} with {grid}");
    }
}

#[test]
fn a_step_that_cannot_keep_its_sequences_is_refused_and_a_command_may_change_it() {
    let home = with_batch(MICRO_BATCHES.1);
    goes_on(
        &home,
        "train run.json --set steps=4",
        expect![[r#"
        $ --set parallel.data=4
        $ --set parallel.data=1 --set parallel.pipeline=4
        $ --set parallel.data=4 --set gradient_accumulation_steps=2
        $ --set train_micro_batch_size_per_gpu=4
        $ --set parallel.data=4 --set train_batch_size=16 --set gradient_accumulation_steps=null
    "#]],
    );
    home.refuses(
        "train run.json --out out --resume --set steps=4",
        expect![[r#"
        $ --set parallel.data=8
        $ --set parallel.data=3
    "#]],
    );
    // The file has other micro-batches than it had: they are as many as make the step that it was.
    home.write("run.json", home.read("run.json").replace("_per_gpu\": 2", "_per_gpu\": 1"));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
        $ --set steps=4
    "#]],
    );
}

#[test]
fn steps_that_are_done_again_are_counted() {
    let again = |home: &Home, arguments: &str| {
        let printed = home.run(format!("train run.json --out out --resume {arguments}"));
        let lines = printed
            .stderr
            .lines()
            .filter(|line| line.contains("done again") || line.contains("goes on after"));
        let lines: String = lines.map(|line| format!("{line}\n")).collect();
        printed.success();
        lines
    };
    let newest = "out/checkpoints/step-00000003";
    let home = run();
    // Nothing is lost.
    expect![[r#""#]].assert_eq(&again(&home, "--set steps=4"));
    let home = run();
    let rank = home.path(&format!("{newest}/rank-00000.safetensors"));
    fs::write(&rank, &fs::read(&rank).unwrap()[..100]).unwrap();
    expect![[r#""#]].assert_eq(&again(&home, "--set steps=4"));
    // Killed while it wrote one.
    let home = run();
    fs::rename(home.path(newest), home.path(&format!("{newest}.partial"))).unwrap();
    fs::remove_file(home.path("out/summary.json")).unwrap();
    expect![[r#""#]].assert_eq(&again(&home, ""));
    let home = run();
    home.run("train run.json --out out --resume --set steps=6 --set checkpoint.keep=9").success();
    expect![[r#""#]].assert_eq(&again(&home, "--step 2 --set steps=6"));
    // Its metrics are gone, and the checkpoints say how far it was.
    let home = run();
    fs::remove_file(home.path("out/metrics.jsonl")).unwrap();
    expect![[r#""#]].assert_eq(&again(&home, "--step 2 --set steps=4"));
}

/// With what `--set` said when it was started, which the command does not repeat.
#[test]
fn a_run_directory_goes_on_as_it_was_started() {
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    let set = "--set seed=9 --set optimizer.params.betas=[0.8,0.9] --set parallel.pipeline=1";
    home.run(format!("train run.json --out out {set}")).success();
    copy(&home, "out", "copy");
    home.run(format!("train run.json --out copy {set} --set steps=5 --resume")).success();
    // It needs neither the file nor what else was named.
    fs::remove_file(home.path("run.json")).unwrap();
    let resumed = home.run("resume out --set steps=5");
    expect![[r#""#]].assert_eq(&lines(&resumed.stderr));
    resumed.success();
    let weights = |run: &str| fs::read(home.path(&format!("{run}/weights.safetensors"))).unwrap();
    assert!(weights("out") == weights("copy"));
    let changed = home.run("resume out --set steps=6 --set seed=1 --resume");
    expect![[r#""#]].assert_eq(&lines(&changed.stderr));
    changed.success();
    fs::create_dir(home.path("several")).unwrap();
    copy(&home, "copy", "several/left");
    home.refuses(
        "resume",
        expect![[r#"
        $ nowhere
        $ several
        $ out --step 99
        $ out --set seed=x
        $ out --overwrite
    "#]],
    );
}
