//! What becomes of parameters, and what is said where they are frozen, or whole, or the file is that of several engines.

use expect_test::expect;
use serde_json::json;

use crate::command::Home;

/// Some kinds in one run.
const MIXED: &str = r#"--set zero_optimization.parameters=["whole:lm_head","persistent:bias$"] --set train_only=["attn","lm_head"]"#;

#[test]
fn plan_shows_what_becomes_of_parameters() {
    let home = Home::new();
    let text = home.run(format!("plan run.json {MIXED}")).success();
    let table = &text[text.find("parameters of the model").unwrap()..text.find("memory per rank").unwrap()];
    expect![[r#"
        parameters of the model  parameters  elements  before sharding            first                  last
        sharded                          12     4.2 k        16.25 KiB  h.0.ln_1.weight  h.3.attn.proj.weight
        persistent                       12       320         1.25 KiB    h.0.ln_1.bias    h.3.attn.proj.bias
        whole                             1     4.1 k        16.00 KiB       wte.weight            wte.weight
        sharded, frozen                  14     8.5 k        33.31 KiB       wpe.weight           ln_f.weight
        persistent, frozen               13       400         1.56 KiB    h.0.ln_2.bias             ln_f.bias
        --parameters lists each

    "#]]
    .assert_eq(table);
    // Nothing is to be told apart.
    assert!(!home.run("plan run.json").success().contains("parameters of the model"));
    let each = home.run(format!("plan run.json --parameters {MIXED}")).success();
    let table = &each[each.find("parameter ").unwrap()..each.find("beside ZeRO-1").unwrap()];
    expect![[r#"
        parameter             pipeline rank  elements             becomes
        h.0.ln_1.weight                   0        16             sharded
        h.0.attn.qkv.weight               0       768             sharded
        h.0.attn.proj.weight              0       256             sharded
        h.1.ln_1.weight                   0        16             sharded
        h.1.attn.qkv.weight               0       768             sharded
        h.1.attn.proj.weight              0       256             sharded
        h.2.ln_1.weight                   0        16             sharded
        h.2.attn.qkv.weight               0       768             sharded
        h.2.attn.proj.weight              0       256             sharded
        h.3.ln_1.weight                   1        16             sharded
        h.3.attn.qkv.weight               1       768             sharded
        h.3.attn.proj.weight              1       256             sharded
        h.0.ln_1.bias                     0        16          persistent
        h.0.attn.qkv.bias                 0        48          persistent
        h.0.attn.proj.bias                0        16          persistent
        h.1.ln_1.bias                     0        16          persistent
        h.1.attn.qkv.bias                 0        48          persistent
        h.1.attn.proj.bias                0        16          persistent
        h.2.ln_1.bias                     0        16          persistent
        h.2.attn.qkv.bias                 0        48          persistent
        h.2.attn.proj.bias                0        16          persistent
        h.3.ln_1.bias                     1        16          persistent
        h.3.attn.qkv.bias                 1        48          persistent
        h.3.attn.proj.bias                1        16          persistent
        wte.weight                        0      4096               whole
        wpe.weight                        0       256     sharded, frozen
        h.0.ln_2.weight                   0        16     sharded, frozen
        h.0.mlp.up.weight                 0      1024     sharded, frozen
        h.0.mlp.down.weight               0      1024     sharded, frozen
        h.1.ln_2.weight                   0        16     sharded, frozen
        h.1.mlp.up.weight                 0      1024     sharded, frozen
        h.1.mlp.down.weight               0      1024     sharded, frozen
        h.2.ln_2.weight                   0        16     sharded, frozen
        h.2.mlp.up.weight                 0      1024     sharded, frozen
        h.2.mlp.down.weight               0      1024     sharded, frozen
        h.3.ln_2.weight                   1        16     sharded, frozen
        h.3.mlp.up.weight                 1      1024     sharded, frozen
        h.3.mlp.down.weight               1      1024     sharded, frozen
        ln_f.weight                       1        16     sharded, frozen
        h.0.ln_2.bias                     0        16  persistent, frozen
        h.0.mlp.up.bias                   0        64  persistent, frozen
        h.0.mlp.down.bias                 0        16  persistent, frozen
        h.1.ln_2.bias                     0        16  persistent, frozen
        h.1.mlp.up.bias                   0        64  persistent, frozen
        h.1.mlp.down.bias                 0        16  persistent, frozen
        h.2.ln_2.bias                     0        16  persistent, frozen
        h.2.mlp.up.bias                   0        64  persistent, frozen
        h.2.mlp.down.bias                 0        16  persistent, frozen
        h.3.ln_2.bias                     1        16  persistent, frozen
        h.3.mlp.up.bias                   1        64  persistent, frozen
        h.3.mlp.down.bias                 1        16  persistent, frozen
        ln_f.bias                         1        16  persistent, frozen

    "#]]
    .assert_eq(table);
    let found = home.json(format!("plan run.json --json {MIXED}"));
    let kinds = found["parameter_kinds"].as_array().unwrap();
    let elements: u64 = kinds.iter().map(|kind| kind["elements"].as_u64().unwrap()).sum();
    assert_eq!(elements, found["parameters"].as_u64().unwrap());
    let frozen = kinds.iter().filter(|kind| kind["is_trained"] == json!(false));
    let frozen: u64 = frozen.map(|kind| kind["elements"].as_u64().unwrap()).sum();
    assert_eq!(frozen, found["frozen_parameters"].as_u64().unwrap());
}

#[test]
fn check_says_what_is_sharded_and_which_weights_frozen_layers_keep() {
    let home = Home::new();
    let state = |set: &str| {
        let printed = home.run(format!("check run.json {set}"));
        let notes = printed.stderr.clone();
        let text = printed.success();
        let state = &text[text.find("state").unwrap()..text.find("memory").unwrap()];
        format!("{state}{}", notes.trim_start())
    };
    let found = [
        state(r#"--set zero_optimization.parameters=["whole:."]"#),
        state(r#"--set zero_optimization.parameters=["persistent:."] --set zero_optimization.reduce=last"#),
        state(r#"--set zero_optimization.parameters=["whole:lm_head"]"#),
        state(r#"--set train_only=["lm_head"]"#),
    ]
    .join("\n");
    expect![[r#"
        state       f32 on the CPU, optimizer state sharded, parameters and gradients whole (ZeRO-3 in name, ZeRO-1 in effect)
        run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        --set zero_optimization.parameters=["whole:."]: hint: `zero_optimization.parameters`: every unit is whole, which is ZeRO-1; use "stage": 1, which says so

        state       f32 on the CPU, optimizer state sharded, parameters and gradients whole (ZeRO-3 in name, ZeRO-1 in effect)
        run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        run.json:12:35: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 1: it needs 177.00 KiB there, ZeRO-1 on the same grid 177.00 KiB, and it sends 41.28 KiB in a step, ZeRO-1 41.28 KiB; use "stage": 1
        --set zero_optimization.parameters=["persisten...: warning: `zero_optimization.parameters`: with this list all 6 units (17504 elements) stay gathered all step and ZeRO-3 has no weights left to shard; optimizer state alone is sharded, and gradients are reduced once, as they would be by ZeRO-1; let some units be sharded

        state       f32 on the CPU, optimizer state, gradients and parameters sharded (ZeRO-3), but 4.1 k of the parameters stay gathered all step, at most 2 units gathered on a rank ("level")
        run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        run.json:12:35: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 1: it needs 203.00 KiB there, ZeRO-1 on the same grid 177.00 KiB, and it sends 47.78 KiB in a step, ZeRO-1 41.28 KiB; use "stage": 1

        state       f32 on the CPU, optimizer state, gradients and parameters sharded (ZeRO-3), at most 2 units gathered on a rank ("level")
        run.json:1:1: default: `gradient_clipping`: not written, so it is 1.0, as in DeepSpeed since 0.19.3, June 2026; before, it was 0, which does not clip
        --set train_only=["lm_head"]: hint: `train_only`: the tied weight of the head is trained, which is the embedding too, so the 10 frozen layers behind that have a backward and keep what it reads; with neither of its two uses in the list they would not
        --set train_only=["lm_head"]: hint: `train_only`: 13408 frozen parameters keep the values that they begin with: random ones, unless `train --init DIR` reads those of a trained model
        run.json:12:35: warning: `zero_optimization.stage`: ZeRO-3 does not pay on pipeline rank 1: it needs 189.50 KiB there, ZeRO-1 on the same grid 151.00 KiB, and it sends 42.78 KiB in a step, ZeRO-1 28.28 KiB; use "stage": 1
    "#]].assert_eq(&found);
    let text = home.run("check run.json --set data.seq_lengths=[8,4]").success();
    let step = &text[text.find("step ").unwrap()..text.find("state").unwrap()];
    expect![[r#"
        step        8 sequences (at most 128 tokens): on each data rank 2 micro-batches of 2; 3 steps; sequences of 8 or 4 tokens, as is drawn for each micro-batch
    "#]].assert_eq(step);
    let warned = home.run(r#"train run.json --out out --set train_only=["lm_head"]"#);
    assert!(warned.stderr.contains("keep the random values that they are drawn with"), "{}", warned.stderr);
    warned.success();
    let set = r#"--set train_only=["lm_head"] --init out"#;
    let begun = home.run(format!("train run.json --out next {set}"));
    assert!(!begun.stderr.contains("random values"), "{}", begun.stderr);
    begun.success();
}

#[test]
fn stages_in_front_of_all_that_is_trained_are_shown_without_a_backward() {
    let home = Home::new();
    let front = r#"--set train_only=["h.3.mlp"]"#;
    let planned = home.run(format!("plan run.json {front}")).success();
    assert!(planned.contains("are frozen (`train_only`); stage 0 has no backward\n"), "{planned}");
    let shown = home.run(format!("show run.json {front}")).success();
    let grid: Vec<&str> = shown.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(grid, ["rank 0  F0 F1 .. .. .. .. ..", "rank 1  .. F0 B0 B0 F1 B1 B1"]);
}

#[test]
fn hints_on_a_file_of_two_engines_name_the_engine() {
    let home = Home::new();
    let task = json!({ "train": ["left", "right"] });
    let master = json!({ "engines": { "left": "run.json", "right": "run.json" }, "tasks": { "both": task } });
    home.write("master.json", master.to_string());
    let set = "--set engines.right.zero_optimization.prefetch_units=9";
    let checked = home.run(format!("check master.json {set}"));
    for engine in ["left", "right"] {
        assert!(checked.stderr.contains(&format!(": engine `{engine}`: `")), "{}", checked.stderr);
    }
    let found = home.json(format!("check master.json --json {set}"));
    let tasks = &found["tasks"];
    assert_eq!(tasks["both"]["train"], json!(["left", "right"]), "{tasks}");
    assert!(tasks["both"]["memory_bytes"].as_u64().unwrap() > 0, "{tasks}");
    assert_eq!(found["engines"]["left"], home.json("check run.json --json"));
}

#[test]
fn a_run_that_goes_on_says_which_step_begins() {
    let home = Home::new();
    let train = "train run.json --out out --set checkpoint.every=3";
    let first = home.run(train);
    assert!(first.stderr.contains("the first of 3 steps begins"), "{}", first.stderr);
    first.success();
    let next = home.run(format!("{train} --set steps=5 --resume"));
    assert!(next.stderr.contains("step 4 of 5 begins"), "{}", next.stderr);
    next.success();
}
