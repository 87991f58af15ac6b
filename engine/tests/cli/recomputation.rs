//! `"activation_checkpointing": "auto"`: what it becomes, what is said of it, and that a run goes on with it.

use expect_test::expect;

use crate::command::Home;

const AUTO: &str = "--set parallel.partition=uniform --set activation_checkpointing=auto --set";

#[test]
fn what_auto_became_is_said_with_what_is_needed_otherwise() {
    let home = Home::new();
    let mut said = String::new();
    for (argument, checkpointing) in [
        ("seed=1", "off"),
        ("memory=1MiB", "off"),
        ("memory=275584", "off"),
        ("memory=275583", "unit"),
        ("memory=1MiB --set activation_checkpointing.head_logits=recompute", "off"),
        ("memory=275583 --set activation_checkpointing.head_logits=recompute", "unit"),
        ("memory=1MiB --set parallel.schedule=zb-h1 --set zero_optimization.stage=1", "off"),
    ] {
        let check = format!("check run.json {AUTO} {argument}");
        let summary = home.run(&check).success();
        let autos =
            summary.lines().skip_while(|line| !line.starts_with("auto")).take_while(|line| !line.is_empty());
        said += &format!("$ {argument}\n");
        autos.for_each(|line| said += &format!("{line}\n"));
        assert_eq!(home.json(format!("{check} --json"))["checkpointing"], checkpointing, "{argument}");
        let headline = home.run(format!("plan run.json {AUTO} {argument}"));
        let is_said = headline.stderr.contains("`activation_checkpointing.enabled`: auto is ");
        assert!(is_said, "{}", headline.stderr);
        let names_it = headline.success().contains("activations of each unit recomputed (\"auto\")");
        assert_eq!(names_it, checkpointing == "unit", "{argument}");
    }
    expect![[r#"
        $ seed=1
        auto        `activation_checkpointing.enabled` is false: it recomputes what does not fit `memory`, which is not given
        $ memory=1MiB
        auto        `activation_checkpointing.enabled` is false: with all activations kept the fullest rank needs 269.12 KiB of the 1.00 MiB that `memory` gives it
        $ memory=275584
        auto        `activation_checkpointing.enabled` is false: with all activations kept the fullest rank needs 269.12 KiB of the 269.12 KiB that `memory` gives it
        $ memory=275583
        auto        `activation_checkpointing.enabled` is true, of each unit: with all activations kept a rank would need 275584 bytes of the 275583 bytes that `memory` gives it; recomputed, the fullest needs 239.75 KiB
        $ memory=1MiB --set activation_checkpointing.head_logits=recompute
        auto        `activation_checkpointing.enabled` is false: with the logits recomputed and all other activations kept the fullest rank needs 269.12 KiB of the 1.00 MiB that `memory` gives it
        $ memory=275583 --set activation_checkpointing.head_logits=recompute
        auto        `activation_checkpointing.enabled` is true, of each unit: with the logits recomputed and all other activations kept a rank would need 275584 bytes of the 275583 bytes that `memory` gives it; recomputed, the fullest needs 221.62 KiB
        $ memory=1MiB --set parallel.schedule=zb-h1 --set zero_optimization.stage=1
        auto        `activation_checkpointing.enabled` is false: `parallel.schedule` runs weight gradients apart from input gradients, and those that wait would need all that was recomputed for them
    "#]]
    .assert_eq(&said);
    home.refuses(
        &format!("check run.json {AUTO}"),
        expect![[r#"
            $ memory=220000
            [1] error: rank 2 (stage 1) needs 221.62 KiB, but `memory` gives each rank 214.84 KiB even with the activations of each unit recomputed, the least that "auto" comes to; with the logits recomputed and all other activations kept a rank would need 269.12 KiB; any one of these makes it fit:
              "resident_units": 1, "prefetch_units": 0  (205.62 KiB on the fullest rank)
              "overlap_comm": false  (205.62 KiB on the fullest rank)
              "unit_layers": 0.5  (212.38 KiB on the fullest rank)
              "sharding": "auto"  (199.50 KiB on the fullest rank)
              "stage": 1, "reduce": "last"  (199.50 KiB on the fullest rank)
              "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4  (209.62 KiB on the fullest rank)
            $ memory=1KiB
            [1] error: rank 2 (stage 1) needs 221.62 KiB, but `memory` gives each rank 1.00 KiB even with the activations of each unit recomputed, the least that "auto" comes to; with the logits recomputed and all other activations kept a rank would need 269.12 KiB; no single change that is tried (to the schedule, ZeRO, its units, recomputation or the micro-batches) makes it fit: use a smaller model or sequence, or more ranks
        "#]],
    );
}

/// The run directory keeps the word, and whoever reads it decides alike.
#[test]
fn a_run_that_is_left_to_the_plan_goes_on_as_it_began() {
    let home = Home::new();
    let run = format!("run.json {AUTO} memory=275583 --set checkpoint.background=false");
    home.run(format!(
        "train {run} --out kept --set activation_checkpointing.enabled=false --set memory=null"
    ))
    .success();
    let printed = home.run(format!("train {run} --out out --set checkpoint.every=1"));
    assert!(printed.stderr.contains("auto is true, of each unit: "), "{}", printed.stderr);
    printed.success();
    home.run(format!("train {run} --out out --resume --set checkpoint.every=1 --set steps=4")).success();
    let recorded: serde_json::Value = serde_json::from_str(&home.read("out/run.json")).unwrap();
    assert_eq!(recorded["activation_checkpointing"], "auto");
    assert_eq!(home.json("check out/run.json --json")["checkpointing"], "unit");
    let losses = |folder: &str| -> Vec<serde_json::Value> {
        let lines = home.read(&format!("{folder}/metrics.jsonl"));
        let lines = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["kind"] != "eval").map(|line| line["loss"].clone()).collect()
    };
    let (kept, resumed) = (losses("kept"), losses("out"));
    assert_eq!((kept.len(), resumed.len()), (3, 4));
    assert_eq!(kept, resumed[..3]);
}
