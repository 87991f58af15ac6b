//! What `train --resume` says of a run that is not as it was, and what it keeps: the sequences of a step.

use std::fs;

use expect_test::{Expect, expect};
use pipezero::tokens::train_tokenizer;
use serde_json::Value;

use crate::checkpoint::run;
use crate::command::Home;

/// The lines about changes of a run that goes on.
pub(crate) fn lines(stderr: &str) -> String {
    let is_about_changes = |line: &&str| {
        ["warning: ", "since the checkpoint: "].iter().any(|begin| line.starts_with(begin))
            || line.contains("`gradient_accumulation_steps`")
    };
    stderr.lines().filter(is_about_changes).map(|line| format!("{line}\n")).collect()
}

/// Goes on with a copy of the run in `out` for each `$` in the expected text, with what stands behind it, and compares what is said of changes.
#[track_caller]
pub(crate) fn goes_on(home: &Home, command: &str, expected: Expect) {
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
pub(crate) fn copy(home: &Home, from: &str, to: &str) {
    let _ = fs::remove_dir_all(home.path(to));
    fs::create_dir(home.path(to)).unwrap();
    for name in home.names_in(from) {
        let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
        if home.path(&from).is_dir() {
            copy(home, &from, &to);
        } else {
            fs::copy(home.path(&from), home.path(&to)).unwrap();
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
            warning: seed 3 -> 7 since the checkpoint: the order of samples is another one from here on: within this epoch some come twice and others never
            since the checkpoint: steps 3 -> 4
            $ --set seed=3 --set gradient_clipping=1
            since the checkpoint: steps 3 -> 4
            $ --set train_batch_size=4
            warning: train_batch_size 8 -> 4 since the checkpoint: each step learns from another number of sequences
            since the checkpoint: train_micro_batch_size_per_gpu 2 -> 1, steps 3 -> 4
            $ --set data.text=other.txt
            warning: data.text ["~/text.txt"] -> ["~/other.txt"] since the checkpoint: the training data is another: its order of samples is another one from here on
            since the checkpoint: steps 3 -> 4
            $ --set data.text=same.txt
            since the checkpoint: steps 3 -> 4, data.text ["~/text.txt"] -> ["~/same.txt"]
            $ --set data.validation=0.1
            warning: data.validation 0.2 -> 0.1 since the checkpoint: the training data is another: its order of samples is another one from here on
            since the checkpoint: steps 3 -> 4
            $ --set data.document_attention=true
            warning: data.document_attention false -> true since the checkpoint: tokens see other tokens than before
            since the checkpoint: steps 3 -> 4
            $ --set data.seq_lengths=[8,16]
            warning: data.seq_lengths [] -> [8,16] since the checkpoint: other parts of the samples are read from here on
            since the checkpoint: steps 3 -> 4
            $ --set model.dropout=0.1
            warning: model.dropout 0.0 -> 0.1 since the checkpoint: a training step drops another share from here on
            since the checkpoint: steps 3 -> 4
            $ --set optimizer.params.betas=[0.8,0.99]
            warning: optimizer.params.betas [0.9,0.999] -> [0.8,0.99] since the checkpoint: gradients change the weights otherwise from here on
            since the checkpoint: steps 3 -> 4
            $ --set optimizer.params.weight_decay=0.1 --set optimizer.no_decay=[]
            warning: optimizer.no_decay "one_dimensional" -> {"patterns":[]}, optimizer.params.weight_decay 0.0 -> 0.1 since the checkpoint: weights decay otherwise from here on
            since the checkpoint: steps 3 -> 4
            $ --set gradient_clipping=0.5
            warning: gradient_clipping 1.0 -> 0.5 since the checkpoint: gradients are clipped at another norm from here on
            since the checkpoint: steps 3 -> 4
            $ --set bf16.enabled=true
            warning: bf16.enabled false -> true since the checkpoint: weights and activations are rounded otherwise from here on
            since the checkpoint: steps 3 -> 4
            $ --set fp16.enabled=true
            warning: fp16.enabled false -> true since the checkpoint: weights and activations are rounded otherwise from here on
            since the checkpoint: steps 3 -> 4, fp16.loss_scale (not set) -> 0, fp16.initial_scale_power (not set) -> 16, fp16.loss_scale_window (not set) -> 1000, fp16.hysteresis (not set) -> 2, fp16.consecutive_hysteresis (not set) -> false, fp16.min_loss_scale (not set) -> 1.0
            $ --set optimizer.params.lr=0.001
            warning: optimizer.params.lr 0.01 -> 0.001 since the checkpoint: the learning rate is another one from step 4 on, which has 0.001 instead of 0.01
            since the checkpoint: steps 3 -> 4
            $ --set scheduler.type=WarmupDecayLR --set scheduler.params.warmup_num_steps=2
            warning: steps 3 -> 4, scheduler.type "constant" -> "WarmupDecayLR", scheduler.params.warmup_min_lr (not set) -> 0.0, scheduler.params.warmup_max_lr (not set) -> 0.001, scheduler.params.warmup_num_steps (not set) -> 2, scheduler.params.warmup_type (not set) -> "log", scheduler.params.total_num_steps (not set) -> 4 since the checkpoint: the learning rate is another one from step 4 on, which has 0.001 instead of 0.01
            $ --set threads=2 --set checkpoint.keep=3 --set evaluation.every=0
            since the checkpoint: steps 3 -> 4, threads 1 -> 2, evaluation.every 2 -> 0, checkpoint.keep 2 -> 3
            $ --set zero_optimization.stage=1 --set parallel.schedule=gpipe
            since the checkpoint: steps 3 -> 4, parallel.schedule "1f1b" -> "gpipe", zero_optimization.stage 3 -> 1, zero_optimization.reduce "every" -> "last"
            $ --set comm.links.near.gb_per_s=10 --set comm.timeout_s=60
            since the checkpoint: steps 3 -> 4, comm.timeout_s 300 -> 60, comm.links.ranks_per_node (not set) -> 4, comm.links.shared (not set) -> false, comm.links.near.latency_us (not set) -> 0, comm.links.near.gb_per_s (not set) -> 10, comm.links.far.latency_us (not set) -> 0, comm.links.far.gb_per_s (not set) -> 10
        "#]],
    );
    // Of the text alone that is read, however it is named.
    home.write("text.txt", home.read("other.txt"));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
            $ --set steps=4
            warning: the training text is not the one that the checkpoint's run read: its order of samples is another one from here on
            since the checkpoint: steps 3 -> 4
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
            warning: model.seq_length 16 -> 8 since the checkpoint: the text is cut into other sequences: their order and the place in the epoch are others from here on
            since the checkpoint: steps 3 -> 4
            $ --set model.init_std=0.1
            since the checkpoint: steps 3 -> 4, model.init_std 0.02 -> 0.1
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
            since the checkpoint: steps 3 -> 5
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
            warning: steps 3 -> 5, scheduler.params.total_num_steps 3 -> 5 since the checkpoint: the learning rate is another one from step 5 on, which has 0.000666667 instead of 0
            $ --set steps=5 --set scheduler.params.total_num_steps=3
            since the checkpoint: steps 3 -> 5
            $ --set steps=4 --set scheduler.params.warmup_max_lr=0.02
            warning: steps 3 -> 4, scheduler.params.warmup_max_lr 0.001 -> 0.02, scheduler.params.total_num_steps 3 -> 4 since the checkpoint: the learning rate is another one from step 4 on, which has 0.02 instead of 0.001
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
            since the checkpoint: steps 3 -> 4
            $ --set data.tokenizer=same.json
            since the checkpoint: steps 3 -> 4, data.tokenizer "~/one.json" -> "~/same.json"
            $ --set data.tokenizer=two.json
            warning: data.tokenizer "~/one.json" -> "~/two.json" since the checkpoint: it has other contents, so each token may mean another text than the one that the weights were trained for
            warning: the training text is not the one that the checkpoint's run read: its order of samples is another one from here on
            since the checkpoint: steps 3 -> 4
        "#]],
    );
    home.write("one.json", home.read("two.json"));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
            $ --set steps=4
            warning: data.tokenizer "~/one.json" since the checkpoint: it has other contents, so each token may mean another text than the one that the weights were trained for
            warning: the training text is not the one that the checkpoint's run read: its order of samples is another one from here on
            since the checkpoint: steps 3 -> 4
        "#]],
    );
}

/// What a student learns from is not in its run file.
#[test]
fn another_loss_is_warned_of() {
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    let file = |alpha: f64| {
        let distill =
            serde_json::json!({ "student": "small", "teacher": "large", "temperature": 2, "alpha": alpha });
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
    expect![[r#"
        warning: loss "distillation with temperature 2 and alpha 0.5" -> "distillation with temperature 2 and alpha 0.25" since the checkpoint: what is minimised is another sum from here on
        since the checkpoint: steps 3 -> 4
    "#]].assert_eq(&lines(&printed.stderr));
    printed.success();
    let alone = home.run("resume out/small --set steps=4");
    expect![[r#"
        warning: loss "distillation with temperature 2 and alpha 0.5" -> "cross-entropy" since the checkpoint: what is minimised is another sum from here on
        since the checkpoint: steps 3 -> 4, zero_optimization.vocabulary_slices 1 -> "auto", activation_checkpointing.head_logits "keep" -> "auto", teacher "~/teacher" -> (not set)
    "#]].assert_eq(&lines(&alone.stderr));
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
        (both, "pipeline=1", [8, 2, 2]),
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
            run.json:14:34: hint: `gradient_accumulation_steps`: 1 is used: steps of the resumed run keep their 8 sequences, 1 x `train_micro_batch_size_per_gpu` 2 x data degree 4; for steps of another size add --set gradient_accumulation_steps=2
            run.json:14:34: warning: `gradient_accumulation_steps`: a step of 1 micro-batch on 2 pipeline ranks never has work for all of them, and the bubble is 50% of it; raise `gradient_accumulation_steps` to 2 or more
            since the checkpoint: gradient_accumulation_steps 2 -> 1, steps 3 -> 4, parallel.data 2 -> 4
            $ --set parallel.data=1 --set parallel.pipeline=1
            run.json:14:34: hint: `gradient_accumulation_steps`: 4 is used: steps of the resumed run keep their 8 sequences, 4 x `train_micro_batch_size_per_gpu` 2 x data degree 1; for steps of another size add --set gradient_accumulation_steps=2
            since the checkpoint: gradient_accumulation_steps 2 -> 4, steps 3 -> 4, parallel.pipeline 2 -> 1, parallel.data 2 -> 1
            $ --set parallel.data=4 --set gradient_accumulation_steps=2
            warning: train_batch_size 8 -> 16 since the checkpoint: each step learns from another number of sequences
            since the checkpoint: steps 3 -> 4, parallel.data 2 -> 4
            $ --set train_micro_batch_size_per_gpu=4
            warning: train_batch_size 8 -> 16 since the checkpoint: each step learns from another number of sequences
            since the checkpoint: train_micro_batch_size_per_gpu 2 -> 4, steps 3 -> 4
            $ --set parallel.data=4 --set train_batch_size=16 --set gradient_accumulation_steps=null
            warning: train_batch_size 8 -> 16 since the checkpoint: each step learns from another number of sequences
            since the checkpoint: steps 3 -> 4, parallel.data 2 -> 4
        "#]],
    );
    home.refuses(
        "train run.json --out out --resume --set steps=4",
        expect![[r#"
            $ --set parallel.data=8
            [2] error: not a valid run with --set steps=4 --set parallel.data=8, 1 mistake:
              x `train_micro_batch_size_per_gpu` is 2, but 2 x data degree 8 = 16 does not divide 8, the sequences of a step that the resumed run keeps
                ,-[run.json:13:37]
             12 |   "zero_optimization": { "stage": 3 },
             13 |   "train_micro_batch_size_per_gpu": 2,
                :                                     ^
             14 |   "gradient_accumulation_steps": 2,
                `----
              help: write 1, or use another data degree; for steps of another size add --set gradient_accumulation_steps=2
            $ --set parallel.data=3
            [2] error: not a valid run with --set steps=4 --set parallel.data=3, 1 mistake:
              x `train_micro_batch_size_per_gpu` is 2, but 2 x data degree 3 = 6 does not divide 8, the sequences of a step that the resumed run keeps
                ,-[run.json:13:37]
             12 |   "zero_optimization": { "stage": 3 },
             13 |   "train_micro_batch_size_per_gpu": 2,
                :                                     ^
             14 |   "gradient_accumulation_steps": 2,
                `----
              help: use a data degree that divides 8; for steps of another size add --set gradient_accumulation_steps=2
        "#]],
    );
    // The file has other micro-batches than it had: they are as many as make the step that it was.
    home.write("run.json", home.read("run.json").replace("_per_gpu\": 2", "_per_gpu\": 1"));
    goes_on(
        &home,
        "train run.json",
        expect![[r#"
            $ --set steps=4
            run.json:14:34: hint: `gradient_accumulation_steps`: 4 is used: steps of the resumed run keep their 8 sequences, 4 x `train_micro_batch_size_per_gpu` 1 x data degree 2; for steps of another size add --set gradient_accumulation_steps=2
            since the checkpoint: train_micro_batch_size_per_gpu 2 -> 1, gradient_accumulation_steps 2 -> 4, steps 3 -> 4
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
    expect![[r#"
        the run goes on after step 3
    "#]]
    .assert_eq(&again(&home, "--set steps=4"));
    let home = run();
    let rank = home.path(&format!("{newest}/rank-00000.safetensors"));
    fs::write(&rank, &fs::read(&rank).unwrap()[..100]).unwrap();
    expect![[r#"
        the run goes on after step 2
        step 3 was done before, and is done again
    "#]]
    .assert_eq(&again(&home, "--set steps=4"));
    // Killed while it wrote one.
    let home = run();
    fs::rename(home.path(newest), home.path(&format!("{newest}.partial"))).unwrap();
    fs::remove_file(home.path("out/summary.json")).unwrap();
    expect![[r#"
        the run goes on after step 2
        step 3 was done before, and is done again
    "#]]
    .assert_eq(&again(&home, ""));
    let home = run();
    home.run("train run.json --out out --resume --set steps=6 --set checkpoint.keep=9").success();
    expect![[r#"
        the run goes on after step 2
        steps 3 to 6 were done before, and are done again
    "#]]
    .assert_eq(&again(&home, "--step 2 --set steps=6"));
    // Its metrics are gone, and the checkpoints say how far it was.
    let home = run();
    fs::remove_file(home.path("out/metrics.jsonl")).unwrap();
    expect![[r#"
        the run goes on after step 2
        step 3 was done before, and is done again
    "#]]
    .assert_eq(&again(&home, "--step 2 --set steps=4"));
}
