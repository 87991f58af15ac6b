//! `pipezero checkpoint`, and what `train --resume` says of checkpoints.

use expect_test::expect;

use crate::command::Home;

/// A finished run of 3 steps with checkpoints after each.
fn run() -> Home {
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    home.run("train run.json --out out").success();
    home
}

#[test]
fn inspect_verify_export_and_reshape() {
    let home = run();
    expect![[r#"
        checkpoint       bytes     state
        2           220.97 KiB  complete
        3           220.97 KiB  complete

        step        3 (3 updates, 24 sequences)
        written by  pipezero 0.1.0 on pipeline 2 x data 2
        model       17.5 k parameters in 52 tensors
        of each     parameter, exp_avg, exp_avg_sq
        precision   f32
        files       4 files, 220.97 KiB
        folder      out/checkpoints/step-00000003"#]]
    .assert_eq(&home.run("checkpoint inspect out").success());
    let verified = home.run("checkpoint verify out --step 2").success();
    assert!(verified.starts_with("out/checkpoints/step-00000002: sound, "), "{verified}");
    // The weights of the last step, in the same bytes.
    home.run("checkpoint export out --out weights.safetensors").success();
    let weights = |name: &str| std::fs::read(home.path(name)).unwrap();
    assert!(weights("weights.safetensors") == weights("out/weights.safetensors"));
    let again = home.run("checkpoint export out --out weights.safetensors").failure(1);
    assert!(again.contains("weights.safetensors: the file exists already"), "{again}");
    // One file instead of four, and back: the same state.
    home.run("checkpoint reshape out --files 1 --out one").success();
    home.run("checkpoint verify one").success();
    assert_eq!(home.names_in("one/checkpoints/step-00000003"), ["manifest.json", "rank-00000.safetensors"]);
    home.run("checkpoint export one --out one.safetensors").success();
    assert!(weights("one.safetensors") == weights("out/weights.safetensors"));
    let twice = home.run("checkpoint reshape out --files 2 --out one").failure(1);
    assert!(twice.contains("one has the checkpoint of step 3 already"), "{twice}");
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
fn what_is_no_checkpoint_is_refused() {
    let home = run();
    for (folder, file) in [
        ("deepspeed", "mp_rank_00_model_states.pt"),
        ("megatron", "latest_checkpointed_iteration.txt"),
        ("dcp", ".metadata"),
    ] {
        std::fs::create_dir(home.path(folder)).unwrap();
        home.write(&format!("{folder}/{file}"), "");
    }
    std::fs::create_dir(home.path("empty")).unwrap();
    home.refuses("checkpoint", expect![[r#"
        $ inspect empty
        [2] error: empty has no checkpoint; name a run directory that has one, or its folder
        $ verify out --step 7
        [2] error: out has no checkpoint of step 7, but of 2, 3; name a run directory that has one, or its folder
        $ inspect deepspeed
        [2] error: deepspeed is a checkpoint of DeepSpeed, whose optimizer state is not read; turn it into Hugging Face weights, as with `python zero_to_fp32.py . weights --safe_serialization`, which DeepSpeed left in its folder
        $ inspect megatron
        [2] error: megatron is a checkpoint of Megatron-LM, whose optimizer state is not read; turn it into Hugging Face weights, as with Megatron-LM's `tools/checkpoint/convert.py` with a saver for Hugging Face
        $ inspect dcp
        [2] error: dcp is a checkpoint of PyTorch's distributed checkpoints, whose optimizer state is not read; turn it into Hugging Face weights, as with `python -m torch.distributed.checkpoint.format_utils dcp_to_torch`, and `save_pretrained` of the model
    "#]]);
}

#[test]
fn resume_says_what_it_takes_and_what_it_refuses() {
    let home = run();
    // Done is done.
    let done = home.run("train run.json --out out --resume");
    assert!(done.stderr.contains("out has done all 3 steps: nothing is left to resume\n"), "{}", done.stderr);
    done.success();
    // The newest is damaged: the one before it is taken, and the metrics are cut back to it.
    let path = "out/checkpoints/step-00000003/rank-00001.safetensors";
    let mut bytes = std::fs::read(home.path(path)).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    home.write(path, bytes);
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
        $ --set optimizer.type=SGD --set optimizer.params.momentum=0.9
        [2] error: out/checkpoints/step-00000004: it holds parameter, exp_avg, exp_avg_sq of each parameter, and the run's optimizer keeps parameter, momentum_buffer: resume with the optimizer that it was trained with, or start from its weights alone with --init
    "#]]);
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

#[test]
fn two_runs_do_not_write_one_directory() {
    let home = run();
    // A process that holds the lock, as a run does.
    let file = std::fs::File::options().write(true).open(home.path("out/run.lock")).unwrap();
    file.lock().unwrap();
    let busy = "error: out is being written by another run (process ";
    for arguments in ["--overwrite", "--resume --set steps=9"] {
        let refused = home.run(format!("train run.json --out out {arguments}")).failure(1);
        assert!(refused.contains(busy), "{refused}");
    }
    drop(file);
    home.run("train run.json --out out --overwrite").success();
}
