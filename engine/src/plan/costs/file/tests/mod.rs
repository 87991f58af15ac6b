//! Costs files that are read back, and everything that can be wrong with one.

mod forms; // Lists for objects, and kinds that are not named.

use expect_test::{Expect, expect};
use pipezero_models::shared::GptSizes;

use super::*;
use crate::config::{Launch, RunFile};

/// A file of two kinds of units and two kinds of messages.
pub(in crate::plan::costs) const FILE: &str = r#"{
  "version": 1,
  "host": {
    "name": "a machine",
    "cores": 2,
    "ranks": 2
  },
  "workload": {
    "model": {
      "gpt2": {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "vocab_size": 256,
        "dropout": false
      }
    },
    "seq_length": 32,
    "micro_batch_size": 2,
    "precision": "f32",
    "optimizer": "AdamW",
    "activation_checkpointing": "off",
    "threads": 1
  },
  "step_overhead_ns": 40000,
  "units": [
    {
      "layers": [
        "h.*.attn",
        "h.*.mlp"
      ],
      "parameters": 49984,
      "forward_ns": 900000,
      "backward_ns": 1900000,
      "gradient_norm": {
        "elements": 24992,
        "ns": 30000
      },
      "optimizer_step": {
        "elements": 24992,
        "ns": 50000
      }
    },
    {
      "layers": [
        "ln_f",
        "lm_head"
      ],
      "parameters": 16512,
      "forward_ns": 300000,
      "backward_input_ns": 200000,
      "backward_weight_ns": 150000,
      "recompute_ns": 10,
      "gradient_norm": {
        "elements": 0,
        "ns": 0
      },
      "optimizer_step": {
        "elements": 8256,
        "ns": 20000
      }
    }
  ],
  "messages": [
    {
      "kind": "gather_after_step",
      "ranks": 2,
      "sizes": [
        {
          "bytes": 66048,
          "issue_ns": 9000,
          "occupied_ns": 0,
          "latency_ns": 0,
          "landing_ns": 100
        },
        {
          "bytes": 199936,
          "issue_ns": 20000,
          "occupied_ns": 0,
          "latency_ns": 0,
          "landing_ns": 100
        }
      ]
    },
    {
      "kind": "gradient_norm",
      "ranks": 4,
      "sizes": [
        {
          "bytes": 192,
          "issue_ns": 0,
          "occupied_ns": 0,
          "latency_ns": 15000,
          "landing_ns": 0
        }
      ]
    }
  ]
}
"#;

#[test]
fn a_file_is_written_as_it_was_read() {
    let file = CostsFile::parse("costs.json", FILE).unwrap();
    assert_eq!(file.to_json(), FILE);
    assert_eq!(file.units[0].backward_ns, Some(1_900_000));
    assert_eq!(file.units[1].backward_ns, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("costs.json");
    std::fs::write(&path, FILE).unwrap();
    assert_eq!(CostsFile::load(&path).unwrap(), file);
}

/// The page that describes the format has a file in it.
#[test]
fn the_example_of_the_page_is_a_costs_file() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulator.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, below) = page.split_once("## Costs\n").unwrap();
    let (_, example) = below.split_once("```json\n").unwrap();
    let (example, described) = example.split_once("```").unwrap();
    let file = CostsFile::parse("docs/simulator.md", example).unwrap();
    assert_eq!(file.workload, CostsFile::parse("costs.json", FILE).unwrap().workload);
    // Every kind of message and every key that the example leaves out is named below it.
    for word in ["gather_after_step", "all_reduce", "add_tied", "backward_input_ns", "recompute_ns"] {
        assert!(described.contains(&format!("`{word}`")), "{word}");
    }
}

/// What is said to a file in which one text stands for another.
#[track_caller]
pub(in crate::plan::costs) fn refuses(from: &str, to: &str, expected: Expect) {
    assert!(FILE.contains(from), "{from}");
    let error = CostsFile::parse("costs.json", &FILE.replacen(from, to, 1)).unwrap_err();
    expected.assert_eq(&error.to_string());
}

#[test]
fn times_are_whole_nanoseconds_within_bounds() {
    let forward = "\"forward_ns\": 900000";
    refuses(
        forward,
        "\"forward_ns\": -900000",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is -900000, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": 0",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is 0, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": 900000.5",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is 900000.5, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": NaN",
        expect![
            "costs.json:32:21: this is not JSON: a value belongs here; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": Infinity",
        expect![
            "costs.json:32:21: this is not JSON: a value belongs here; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": 1000000000000001",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is 1000000000000001, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": 1e400",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is 1e400, but numbers end at 1.8e308; write a smaller one; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": 18446744073709551616",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is 18446744073709551616, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        forward,
        "\"forward_ns\": \"900000\"",
        expect![[
            r#"costs.json:32:21: `units[0].forward_ns` is "900000", but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"#
        ]],
    );
    refuses(
        forward,
        "\"forward_ns\": null",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is null, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"backward_ns\": 1900000",
        "\"backward_ns\": 0",
        expect![
            "costs.json:33:22: `units[0].backward_ns` is 0, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"recompute_ns\": 10",
        "\"recompute_ns\": null",
        expect![
            "costs.json:52:23: `units[1].recompute_ns` is null, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"issue_ns\": 9000",
        "\"issue_ns\": -1",
        expect![
            "costs.json:70:23: `messages[0].sizes[0].issue_ns` is -1, but must be a time in whole nanoseconds from 0 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"step_overhead_ns\": 40000",
        "\"step_overhead_ns\": 1e30",
        expect![
            "costs.json:24:23: `step_overhead_ns` is 1e30, but must be a time in whole nanoseconds from 0 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"bytes\": 66048",
        "\"bytes\": -66048",
        expect![
            "costs.json:69:20: `messages[0].sizes[0].bytes` is -66048, but must be a whole number from 0 to 18446744073709551615; mend it, or measure again with `pipezero profile`"
        ],
    );
}

/// A number is repeated as it stands in the file, not as its digits.
#[test]
fn values_are_repeated_as_they_were_written() {
    refuses(
        "\"forward_ns\": 900000",
        "\"forward_ns\": 1e300",
        expect![
            "costs.json:32:21: `units[0].forward_ns` is 1e300, but must be a time in whole nanoseconds from 1 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"cores\": 2",
        "\"cores\": 2.5",
        expect![
            "costs.json:5:14: `host.cores` is 2.5, but must be a whole number from 0 to 18446744073709551615; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"name\": \"a machine\"",
        "\"name\": 7",
        expect![
            "costs.json:4:13: `host.name` is 7, but must be a string; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"dropout\": false",
        "\"dropout\": 0",
        expect![
            "costs.json:14:20: `workload.model.gpt2.dropout` is 0, but must be true or false; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"layers\": [",
        "\"layers\": 5, \"x\": [",
        expect![
            "costs.json:27:17: `units[0].layers` is 5, but must be a list; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"step_overhead_ns\": 40000",
        "\"step_overhead_ns\": [40000]",
        expect![
            "costs.json:24:23: `step_overhead_ns` is a list, but must be a time in whole nanoseconds from 0 to 1000000000000000; mend it, or measure again with `pipezero profile`"
        ],
    );
}

#[test]
fn keys_are_known_present_and_there_once() {
    refuses(
        "\"forward_ns\"",
        "\"forward\"",
        expect![
            "costs.json:32:7: `units[0].forward` is no key: there are `layers`, `parameters`, `forward_ns`, `backward_ns`, `backward_input_ns`, `backward_weight_ns`, `recompute_ns`, `gradient_norm`, `optimizer_step`; rename or remove it; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"forward_ns\": 900000,",
        "",
        expect![
            "costs.json:26:5: `units[0]` lacks the key `forward_ns`; add it; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"forward_ns\": 900000,",
        "\"forward_ns\": 900000, \"forward_ns\": 1,",
        expect![
            "costs.json:32:29: `units[0].forward_ns` stands twice; keep one of the two; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"threads\": 1",
        "\"threads\": 1, \"nodes\": 1",
        expect![
            "costs.json:22:19: `workload.nodes` is no key: there are `model`, `seq_length`, `micro_batch_size`, `precision`, `optimizer`, `activation_checkpointing`, `threads`; rename or remove it; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"gpt2\"",
        "\"gpt3\"",
        expect![[
            r#"costs.json:10:7: `workload.model.gpt3` is "gpt3", and known are `gpt2`, `mlp`, `timed`; write one of these; mend it, or measure again with `pipezero profile`"#
        ]],
    );
    refuses(
        "\"gradient_norm\",",
        "\"norm\",",
        expect![[
            r#"costs.json:85:15: `messages[1].kind` is "norm", and known are `unshard`, `gather_after_step`, `reduce`, `reduce_last`, `all_reduce`, `activation`, `gradient`, `add_tied`, `gradient_norm`; write one of these; mend it, or measure again with `pipezero profile`"#
        ]],
    );
    refuses(
        "\"version\": 1,",
        "",
        expect![
            "costs.json:1:1: the file lacks the key `version`; add it; mend it, or measure again with `pipezero profile`"
        ],
    );
}

#[test]
fn syntax_is_refused_at_its_place() {
    refuses(
        "\"threads\": 1\n",
        "\"threads\": 1,\n",
        expect![
            "costs.json:23:3: this is not JSON: a key in quotes belongs here, or the comma before it does not; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        "\"seq_length\": 32,",
        "\"seq_length\": 32",
        expect![
            "costs.json:18:5: this is not JSON: expected `,` or `}`; mend it, or measure again with `pipezero profile`"
        ],
    );
    let end = &FILE[FILE.len() - 8..];
    refuses(
        end,
        "",
        expect![
            "costs.json:96:4: this is not JSON: the text ends within an object; mend it, or measure again with `pipezero profile`"
        ],
    );
    refuses(
        end,
        "  ]\n}\n}\n",
        expect![
            "costs.json:96:7: this is not JSON: expected `,` or `}`; mend it, or measure again with `pipezero profile`"
        ],
    );
    let error = CostsFile::parse("costs.json", "").unwrap_err();
    expect!["costs.json:1:1: this is not JSON: the text ends where a value belongs; mend it, or measure again with `pipezero profile`"].assert_eq(&error.to_string());
    let error = CostsFile::parse("costs.json", "[1]").unwrap_err();
    expect!["costs.json:1:1: the file is a list, but must be a costs file, which is one object; mend it, or measure again with `pipezero profile`"].assert_eq(&error.to_string());
}

/// What some editors put before the text is none of it.
#[test]
fn a_byte_order_mark_is_passed_over() {
    let file = CostsFile::parse("costs.json", &format!("\u{feff}{FILE}")).unwrap();
    assert_eq!(file, CostsFile::parse("costs.json", FILE).unwrap());
    let crlf = FILE.replace('\n', "\r\n");
    assert_eq!(file, CostsFile::parse("costs.json", &crlf).unwrap());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = CostsFile::load("no/such/file.json".as_ref()).unwrap_err();
    expect!["no/such/file.json: cannot read the costs file: No such file or directory (os error 2); name one that `pipezero profile` has written"]
        .assert_eq(&error.to_string());
}

fn workload(text: &str) -> Workload {
    let file = RunFile::parse("run.json", text).unwrap();
    Workload::of(&file.resolve(Launch { cores: 2, ranks: None }).unwrap().0)
}

#[test]
fn the_workload_of_a_run_is_what_decides_its_times() {
    let gpt2 = |layers: u32, more: &str| {
        workload(&format!(
            r#"{{"model": {{"family": "gpt2", "num_layers": {layers}, "hidden_size": 64, "num_attention_heads": 4,
                 "seq_length": 32{more}, "data": {{"text": "x"}}, "train_micro_batch_size_per_gpu": 2,
                 "gradient_accumulation_steps": 4, "threads": 1, "steps": 1}}"#
        ))
    };
    let expected = CostsFile::parse("costs.json", FILE).unwrap().workload;
    assert_eq!(gpt2(4, "}"), expected);
    // Neither depth, grid nor sharding are part of it.
    let grid = r#"}, "parallel": {"pipeline": 2, "data": 2}, "zero_optimization": {"stage": 1}"#;
    assert_eq!(gpt2(12, grid), expected);
    let other =
        Workload { model: ModelSizes::Gpt2(GptSizes { dropout: true, ..sizes(&expected) }), ..expected };
    assert_eq!(gpt2(4, r#", "dropout": 0.1}"#), other);
}

fn sizes(workload: &Workload) -> GptSizes {
    match &workload.model {
        ModelSizes::Gpt2(sizes) | ModelSizes::Mlp(sizes) => sizes.clone(),
        ModelSizes::Timed(_) => panic!("no model that computes"),
    }
}

#[test]
fn the_times_of_timed_layers_are_part_of_the_workload() {
    let timed = workload(
        r#"{"model": {"family": "timed", "num_layers": 4, "seq_length": 8, "parameters_per_layer": 100,
            "activation_elements": 10, "forward_ms": 1.5, "backward_input_ms": 2, "backward_weight_ms": 0.25},
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4, "threads": 1, "steps": 1}"#,
    );
    let ModelSizes::Timed(sizes) = timed.model else { panic!("another family: {timed:?}") };
    let times = [sizes.forward_ns, sizes.backward_input_ns, sizes.backward_weight_ns];
    assert_eq!(times, [1_500_000, 2_000_000, 250_000].map(Nanoseconds));
}
