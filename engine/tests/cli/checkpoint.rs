//! `pipezero checkpoint`, and what `train --resume` says of checkpoints.

use expect_test::expect;

use crate::command::Home;

/// A finished run of 3 steps with checkpoints after each, of which two stay.
pub(crate) fn run() -> Home {
    let home = Home::with(&[("\"threads\": 1", "\"threads\": 1, \"checkpoint\": { \"every\": 1 }")]);
    home.run("train run.json --out out").success();
    home
}

#[test]
fn inspect_verify_export_and_reshape() {
    let home = run();
    expect![[r#"
        checkpoint       bytes  headers
        2           220.97 KiB    sound
        3           220.97 KiB    sound

        step        3 (3 updates, 24 sequences)
        written by  pipezero 0.1.0 on pipeline 2 x data 2
        model       17.5 k parameters in 52 tensors
        of each     parameter, exp_avg, exp_avg_sq
        precision   f32
        loss scale  none
        files       4 files, 220.97 KiB
        folder      out/checkpoints/step-00000003
    "#]]
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
    assert!(twice.contains("one exists, or cannot be made: name a new folder with --out"), "{twice}");
    // With the optimizer's state, from which the run goes on.
    let on = home.run("train run.json --out one --resume --set steps=4");
    assert!(on.stderr.contains("the run goes on after step 3\n"), "{}", on.stderr);
    on.success();
    // The weights of an earlier step.
    let eval = |arguments: &str| home.run(format!("eval {arguments}")).success();
    assert_eq!(eval("out --step 3"), eval("out"));
    assert_ne!(eval("out --step 2"), eval("out"));
    home.run("generate out --step 2 --prompt a --max-tokens 0").success();
}

#[test]
fn weights_go_to_a_folder_of_transformers_and_come_back() {
    let home = run();
    home.run("checkpoint export out --format hf --out hf --file-bytes 20KB").success();
    let names = home.names_in("hf");
    assert_eq!(names.iter().filter(|name| name.ends_with(".safetensors")).count(), names.len() - 2);
    assert!(names.len() > 4 && names.contains(&"model.safetensors.index.json".to_owned()), "{names:?}");
    home.run("checkpoint export out --format hf --out one").success();
    assert_eq!(home.names_in("one"), ["config.json", "model.safetensors"]);
    // Runs that begin there end as one that begins with the run itself.
    let weights = |init: &str, set: &str| {
        let line = format!("train run.json --out new --overwrite --init {init} --set steps=1 {set}");
        home.run(line).success();
        std::fs::read(home.path("new/weights.safetensors")).unwrap()
    };
    let wanted = weights("out", "");
    assert!(weights("hf", "") == wanted && weights("one", "") == wanted);
    let from = r#"--set model={"from":"one"}"#;
    assert!(weights("hf", from) == wanted);
    // Without --init its weights are not read, which is said.
    let hint = "`model.from`: one has weights too: `train --init one`";
    let said = |line: &str| home.run(format!("{line} {from}")).stderr.replace("\n      ", " ");
    for line in ["check run.json", "train run.json --out drawn"] {
        let said = said(line);
        assert!(said.contains(hint), "{said}");
    }
    assert!(!said("train run.json --out read --init one").contains("has weights too"));
    // The run directory has the sizes themselves.
    std::fs::remove_dir_all(home.path("one")).unwrap();
    home.run("eval new").success();
    let other = home.run("train run.json --out other --init hf --set model.num_layers=5").failure(2);
    assert!(other.contains("hf/config.json: its `num_layers` is 4, and the run's 5; "), "{other}");
    assert!(!other.contains("reading the text"), "{other}");
    let shard = names.iter().find(|name| name.starts_with("model-00001-of-")).unwrap();
    let file = home.run(format!("train run.json --out other --init hf/{shard}")).failure(2);
    assert!(file.contains(": it is a file of a folder of transformers; name the folder, hf, "), "{file}");
    std::fs::rename(home.path(&format!("hf/{shard}")), home.path("away")).unwrap();
    let missing = home.run("train run.json --out other --init hf").failure(2);
    let said =
        format!("hf/{shard}: it is not there, and model.safetensors.index.json names it; download it again");
    assert!(missing.contains(&said), "{missing}");
    std::fs::rename(home.path("away"), home.path(&format!("hf/{shard}"))).unwrap();
    let twice = home.run("checkpoint export out --format hf --out hf").failure(1);
    assert!(twice.contains("hf exists, or cannot be made: name a new folder with --out"), "{twice}");
    let one_file = home.run("checkpoint export out --out w --file-bytes 1MB").failure(2);
    assert!(one_file.contains("--file-bytes is for --format hf: the other format is one file"), "{one_file}");
}

#[test]
fn a_finished_run_without_checkpoints_becomes_a_folder_of_transformers() {
    let home = run();
    home.run("checkpoint export out --format hf --out of-checkpoint").success();
    home.run("train run.json --set checkpoint=null --out bare").success();
    home.run("checkpoint export bare --format hf --out of-weights").success();
    let weights = |name: &str| std::fs::read(home.path(&format!("{name}/model.safetensors"))).unwrap();
    assert!(weights("of-weights") == weights("of-checkpoint"));
    assert_eq!(home.read("of-weights/config.json"), home.read("of-checkpoint/config.json"));
    // The weights of its end, where the newest checkpoint is of an earlier step.
    std::fs::remove_dir_all(home.path("out/checkpoints/step-00000003")).unwrap();
    home.run("checkpoint export out --format hf --out of-end").success();
    assert!(weights("of-end") == weights("of-checkpoint"));
    home.run("checkpoint export out --step 2 --format hf --out of-2").success();
    assert!(weights("of-2") != weights("of-end"));
    let step = home.run("checkpoint export bare --step 2 --format hf --out none").failure(2);
    assert!(step.contains("bare has no checkpoint"), "{step}");
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
