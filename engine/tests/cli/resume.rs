//! What `train --resume` takes, says and refuses.

use std::path::Path;

use expect_test::expect;

use crate::checkpoint::run;
use crate::command::Home;

/// Changes the last byte of a rank's file.
fn damage(home: &Home, step: u64) {
    let path = format!("out/checkpoints/step-{step:08}/rank-00001.safetensors");
    let mut bytes = std::fs::read(home.path(&path)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    home.write(&path, bytes);
}

fn steps_of(home: &Home) -> Vec<String> {
    home.names_in("out/checkpoints")
}

/// Killed between its last evaluation and its summary, a run evaluates again, and its metrics have that once.
#[test]
fn a_run_that_lacks_its_summary_alone_ends_as_if_it_had_not_been_killed() {
    let home = run();
    let metrics = || -> Vec<(bool, u64)> {
        let lines = home.read("out/metrics.jsonl");
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| (line["kind"] == "eval", line["step"].as_u64().unwrap())).collect()
    };
    let before = metrics();
    std::fs::remove_file(home.path("out/summary.json")).unwrap();
    home.run("train run.json --out out --resume").success();
    assert_eq!(metrics(), before);
}

#[test]
fn resume_says_what_it_takes_and_what_it_refuses() {
    let home = run();
    // Done is done.
    let done = home.run("train run.json --out out --resume");
    assert!(done.stderr.contains("out has done all 3 steps: nothing is left to resume\n"), "{}", done.stderr);
    assert!(!done.stderr.contains("had no effect"), "{}", done.stderr);
    done.success();
    let done = home.run("train run.json --out out --resume --set seed=9 --set checkpoint.every=2");
    let expected = "warning: these settings differ from those of the last checkpoint and had no effect: seed 3 -> 9, checkpoint.every 1 -> 2; to train on, set `steps` above 3; to train anew";
    assert!(done.stderr.replace("\n    ", " ").contains(expected), "{}", done.stderr);
    done.success();
    // Without weights a checkpoint can be named, and one of a run that is being replaced cannot.
    let weights = home.path("out/weights.safetensors");
    std::fs::rename(&weights, home.path("kept")).unwrap();
    for command in ["eval out", "generate out --prompt a"] {
        let unfinished = home.run(command);
        let stderr = unfinished.stderr.replace("\n    ", " ");
        assert!(
            stderr.contains("name a checkpoint, such as the newest with --step 3"),
            "{command}: {stderr}"
        );
    }
    home.run("eval out --step 3").success();
    std::fs::rename(home.path("kept"), weights).unwrap();
    let starts = home.read("out/starts.json");
    home.write(
        "out/starts.json",
        starts.replace("\"is_being_removed\": false", "\"is_being_removed\": true"),
    );
    let removed = home.run("checkpoint inspect out").stderr.replace("\n    ", " ");
    assert!(
        removed.contains("out has no checkpoint: its run was being replaced with --overwrite"),
        "{removed}"
    );
    home.write("out/starts.json", starts);
    // The newest is damaged: the one before it is taken, and the metrics are cut back to it.
    damage(&home, 3);
    let resumed = home.run("train run.json --out out --resume --set steps=4");
    let expected = [
        "warning: not resumed from the newest checkpoint: out/checkpoints/step-00000003/rank-00001.safetensors: bytes ",
        "the run goes on after step 2\n",
    ];
    expected.iter().for_each(|text| assert!(resumed.stderr.contains(text), "{}", resumed.stderr));
    resumed.success();
    let steps = home.read("out/metrics.jsonl").lines().filter(|line| !line.contains("eval")).count();
    assert_eq!(steps, 4);
    // Other models and optimizers.
    home.refuses("train run.json --out out --resume --set steps=9", expect![[r#"
        $ --set model.hidden_size=32
        [2] error: out/checkpoints/step-00000004: its `wte.weight` is [256, 16], the model's [256, 32]; the run file describes another model than the checkpoint holds
        $ --set model.num_attention_heads=4
        [2] error: out/checkpoints/step-00000004: its `model.num_attention_heads` is 2, the model's 4; the run file describes another model than the checkpoint holds
        $ --set optimizer.type=SGD --set optimizer.params.momentum=0.9
        [2] error: out/checkpoints/step-00000004: it holds parameter, exp_avg, exp_avg_sq of each parameter, and the run's optimizer keeps parameter, momentum_buffer: resume with the optimizer that it was trained with, or start from its weights alone with --init
    "#]]);
    // Fewer steps than were done.
    std::fs::remove_file(home.path("out/summary.json")).unwrap();
    let fewer = home.run("train run.json --out out --resume --set steps=3").failure(2);
    assert!(fewer.contains("step-00000004 is of step 4, and the run has 3: raise `steps`"), "{fewer}");
    // Another text.
    home.write("text.txt", "abc ".repeat(5000));
    let other = home.run("train run.json --out out --resume --set steps=5");
    assert!(
        other.stderr.contains("warning: the training text is not the one that the checkpoint's run read"),
        "{}",
        other.stderr
    );
    other.success();
    // Nothing there yet.
    let new = home.run("train run.json --out new --resume");
    assert!(new.stderr.contains("new has no checkpoint yet: the run starts at step 1\n"), "{}", new.stderr);
    new.success();
}

/// A damaged checkpoint and those of a way that was given up are none of those that stay.
#[test]
fn what_a_run_does_not_go_on_from_is_removed_once_another_is_complete() {
    let home = run();
    damage(&home, 3);
    home.run(
        "train run.json --out out --resume --set steps=4 --set checkpoint.every=4 --set checkpoint.keep=1",
    )
    .success();
    assert_eq!(steps_of(&home), ["step-00000004"]);
    let home = run();
    let back = "train run.json --out out --resume --step 2 --set steps=4 --set optimizer.params.lr=1e-3";
    let printed = home.run(back);
    for expected in [
        "the run goes on after step 2\n",
        "step 3 was done before, and is done again\n",
        "warning: optimizer.params.lr 0.01 -> 0.001 since the checkpoint: ",
    ] {
        assert!(printed.stderr.contains(expected), "{expected}: {}", printed.stderr);
    }
    printed.success();
    assert_eq!(steps_of(&home), ["step-00000003", "step-00000004"]);
    let steps = home.read("out/metrics.jsonl").lines().filter(|line| !line.contains("eval")).count();
    assert_eq!(steps, 4);
    let missing = home.run("train run.json --out out --resume --step 1 --set steps=5").failure(2);
    assert!(missing.contains("out has no checkpoint of step 1, but of 3, 4"), "{missing}");
}

/// As after a line that found no room on its disk.
#[test]
fn steps_without_a_line_in_the_metrics_are_named() {
    let home = run();
    let lines = home.read("out/metrics.jsonl");
    let kept = lines.lines().filter(|line| !line.starts_with("{\"step\":2,"));
    home.write("out/metrics.jsonl", kept.map(|line| format!("{line}\n")).collect::<String>());
    let resumed = home.run("train run.json --out out --resume --set steps=4");
    let said = "warning: out/metrics.jsonl has no line of step 2, which the run has done\n";
    assert_eq!(resumed.stderr.matches(said).count(), 1, "{}", resumed.stderr);
    resumed.success();
    let whole = run();
    let resumed = whole.run("train run.json --out out --resume --set steps=4");
    assert!(!resumed.stderr.contains("has no line"), "{}", resumed.stderr);
}

/// The state of a run that fails is saved beside the checkpoints that it had, so that an earlier one can be taken.
#[test]
fn a_run_that_diverges_keeps_its_earlier_checkpoints() {
    let home = run();
    let diverges =
        "train run.json --out out --resume --set steps=9 --set checkpoint.keep=1 --set checkpoint.every=9";
    let printed = home.run(format!("{diverges} --set optimizer.params.lr=1e30"));
    let error = printed.failure(1);
    assert!(error.contains("is saved in out: go on with the same command and --resume --out out"), "{error}");
    assert_eq!(steps_of(&home).len(), 3, "{:?}", steps_of(&home));
    home.run(format!("{diverges} --step 3")).success();
    assert_eq!(steps_of(&home), ["step-00000009"]);
}

#[test]
fn a_folder_with_another_name_is_not_taken_for_its_step() {
    let home = run();
    let at = |step: u64| home.path(&format!("out/checkpoints/step-{step:08}"));
    std::fs::rename(at(2), at(9)).unwrap();
    let printed = home.run("train run.json --out out --resume --set steps=4");
    let expected = "it is of step 2, and its folder is named after step 9";
    assert!(printed.stderr.contains(expected), "{}", printed.stderr);
    assert!(printed.stderr.contains("the run goes on after step 3\n"), "{}", printed.stderr);
    printed.success();
    assert_eq!(steps_of(&home), ["step-00000003", "step-00000004"]);
}

/// A file that somebody else put there is in nobody's way.
#[test]
fn a_run_goes_on_beside_files_that_are_not_its_own() {
    let home = run();
    for name in ["slurm-17.out", "checkpoints/.nfs01", "checkpoints/step-00000099"] {
        home.write(&format!("out/{name}"), "somebody's");
    }
    home.run("train run.json --out out --resume --set steps=4").success();
    let left = ["slurm-17.out", "checkpoints/.nfs01"].map(|name| home.read(&format!("out/{name}")));
    assert_eq!(left, ["somebody's", "somebody's"]);
    let replaced = home.run("train run.json --out out --overwrite").failure(1);
    assert!(replaced.contains("which no run wrote"), "{replaced}");
}

/// Weights that no checkpoint has are not replaced by those of a run that starts again.
#[test]
fn weights_without_a_checkpoint_are_not_lost() {
    let home = Home::new();
    home.run("train run.json --out out").success();
    let before = std::fs::read(home.path("out/weights.safetensors")).unwrap();
    let refused = home.run("train run.json --out out --resume --set steps=4").failure(1);
    assert!(
        refused.contains("out has weights, and no checkpoint from which the run could go on"),
        "{refused}"
    );
    assert!(before == std::fs::read(home.path("out/weights.safetensors")).unwrap());
}

#[test]
fn places_for_the_state_of_a_failed_run_are_looked_at_before() {
    let home = run();
    let cases = [
        ("new", "new/rescue", "--rescue new/rescue is in the run directory new", 2),
        ("new", "new", "--rescue new is in the run directory new", 2),
        ("new", "out", "out already exists, and may hold the state of a run that an error ended", 1),
    ];
    for (out, rescue, expected, status) in cases {
        let refused = home.run(format!("train run.json --out {out} --rescue {rescue}")).failure(status);
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(!Path::new(&home.path("new")).exists());
    for weights in ["out", "out/weights.safetensors"] {
        let heads = format!("train run.json --out new --init {weights} --set model.num_attention_heads=4");
        let other = home.run(heads).failure(2);
        assert!(other.contains("its run has `model.num_attention_heads` 2, this one 4"), "{other}");
    }
    let missing = home.run("train run.json --out new --init nowhere").failure(2);
    assert!(missing.contains("--init nowhere: there is no such file or folder"), "{missing}");
}
