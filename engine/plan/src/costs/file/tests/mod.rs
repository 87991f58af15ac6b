//! Costs files that are read back, and everything that can be wrong with one.

mod forms; // Lists for objects, and kinds that are not named.

use expect_test::{Expect, expect};
use pipezero_config::{HostGpu, Resources, RunFile};
use pipezero_models::shared::GptSizes;

use super::*;
use crate::costs::CostsFileError;

/// A file of two kinds of units and two kinds of messages.
pub(in crate::costs) const FILE: &str = r#"{
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
    "document_attention": false,
    "device": "cpu",
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

/// What was added to the version later has a value where it is left out: of what there was before.
#[test]
fn files_without_later_keys_are_of_rows_and_cores() {
    let file = CostsFile::parse("costs.json", FILE).unwrap();
    for later in ["    \"document_attention\": false,\n", "    \"device\": \"cpu\",\n"] {
        assert_eq!(CostsFile::parse("costs.json", &FILE.replacen(later, "", 1)).unwrap(), file, "{later}");
        assert!(FILE.contains(later));
    }
}

/// The page that describes the format has a file in it.
#[test]
fn the_example_of_the_page_is_a_costs_file() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
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

/// What is said of a text: line, column, and what is wrong; without the repair that stands behind every mistake in JSON.
pub(in crate::costs) fn refusal(text: &str) -> String {
    let error = CostsFile::parse("costs.json", text).unwrap_err();
    let said = error.to_string();
    let repair = match error {
        CostsFileError::Syntax { .. } => "; mend it, or measure again with `pipezero profile`",
        _ => "",
    };
    said.strip_prefix("costs.json:").and_then(|said| said.strip_suffix(repair)).unwrap().to_owned()
}

/// Compares what is said of the file with each of these changes, one text in place of another, line by line.
pub(in crate::costs) fn refuses(changes: &[(&str, &str)], expected: Expect) {
    let said = changes.iter().map(|(from, to)| {
        assert!(FILE.contains(from), "{from}");
        refusal(&FILE.replacen(from, to, 1)) + "\n"
    });
    expected.assert_eq(&said.collect::<String>());
}

#[test]
fn times_are_whole_nanoseconds_within_bounds() {
    let forward = "-900000 0 900000.5 900000.0 1e300 1000000000000001 18446744073709551616 null";
    for (key, place, value, least, all_found) in [
        ("forward_ns", "34:21: `units[0].forward_ns`", "900000", 1, forward),
        ("backward_ns", "35:22: `units[0].backward_ns`", "1900000", 1, "0"),
        ("recompute_ns", "54:23: `units[1].recompute_ns`", "10", 1, "null"),
        ("issue_ns", "72:23: `messages[0].sizes[0].issue_ns`", "9000", 0, "-1"),
        ("step_overhead_ns", "26:23: `step_overhead_ns`", "40000", 0, "1e30"),
    ] {
        for found in all_found.split(' ') {
            let rule = format!("must be a time in whole nanoseconds from {least} to 1000000000000000");
            let text = FILE.replacen(&format!("\"{key}\": {value}"), &format!("\"{key}\": {found}"), 1);
            assert_eq!(refusal(&text), format!("{place} {rule}, but is {found}"));
        }
    }
}

/// Numbers, words, names and lists, as they stand in the file; keys are known, present and there once.
#[test]
fn what_does_not_fit_its_key_is_refused_at_its_place() {
    refuses(
        &[
            (r#""forward_ns": 900000"#, r#""forward_ns": 1e400"#),
            (r#""bytes": 66048"#, r#""bytes": -1"#),
            (r#""cores": 2"#, r#""cores": 2.5"#),
            (r#""cores": 2"#, r#""cores": 2.0"#),
            (r#""name": "a machine""#, r#""name": 7"#),
            (r#""dropout": false"#, r#""dropout": 0"#),
            (r#""layers": ["#, r#""layers": 5, "x": ["#),
            (r#""forward_ns": 900000"#, r#""forward_ns": "9""#),
            (r#""step_overhead_ns": 40000"#, r#""step_overhead_ns": [[1]]"#),
            (r#""step_overhead_ns": 40000"#, r#""step_overhead_ns": {"a": {}}"#),
            (r#""forward_ns""#, r#""forward""#),
            (r#""threads": 1"#, r#""threads": 1, "nodes": 1"#),
            (r#""forward_ns": 900000,"#, ""),
            (r#""version": 1,"#, ""),
            (r#""forward_ns": 900000,"#, r#""forward_ns": 900000, "forward_ns": 1,"#),
            (r#""gradient_norm","#, r#""norm","#),
            // Texts that are not JSON.
            (r#""seq_length": 32,"#, r#""seq_length": 32"#),
            (r#""forward_ns": 900000"#, r#""forward_ns": NaN"#),
            (FILE, ""),
            (FILE, "[1]"),
        ],
        expect![[r#"
            34:21: `units[0].forward_ns` is 1e400, but numbers must lie between -1.8e308 and 1.8e308; write one nearer to 0
            71:20: `messages[0].sizes[0].bytes` must be a whole number from 0 to 18446744073709551615, but is -1
            5:14: `host.cores` must be a whole number from 0 to 18446744073709551615, but is 2.5
            5:14: `host.cores` must be a whole number from 0 to 18446744073709551615, but is 2.0
            4:13: `host.name` must be a string, but is 7
            14:20: `workload.model.gpt2.dropout` must be true or false, but is 0
            29:17: `units[0].layers` must be a list, but is 5
            34:21: `units[0].forward_ns` must be a time in whole nanoseconds from 1 to 1000000000000000, but is the string "9"
            26:23: `step_overhead_ns` must be a time in whole nanoseconds from 0 to 1000000000000000, but is a list
            26:23: `step_overhead_ns` must be a time in whole nanoseconds from 0 to 1000000000000000, but is an object
            34:7: `units[0].forward` is an unknown key; did you mean `forward_ns`?
            24:19: `workload.nodes` is an unknown key; remove it, or write `model`, `seq_length`, `micro_batch_size`, `precision`, `optimizer`, `activation_checkpointing`, `document_attention`, `device` or `threads`
            28:5: `units[0].forward_ns` is missing; add it
            1:1: `version` is missing; add it
            34:29: `units[0].forward_ns` stands twice, first at 34:7; keep one of the two
            87:15: `messages[1].kind` must be `unshard`, `gather_after_step`, `reduce`, `reduce_last`, `all_reduce`, `activation`, `gradient`, `add_tied` or `gradient_norm`, but is the string "norm"
            18:5: this is not JSON: `,` or `}` belongs here, but `"` stands there
            34:21: JSON knows no `NaN`; write a number
            1:1: the file is empty; it must hold one JSON object
            1:1: the file must be a costs file, which is one object, but is a list
        "#]],
    );
}

/// The byte order mark that some editors put before the text is not part of it.
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
    Workload::of(
        &file
            .resolve(Resources {
                cores: 2,
                memory_bytes: None,
                gpu: HostGpu::Absent,
                ranks: None,
                part: None,
            })
            .unwrap()
            .0,
    )
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
        other => panic!("no GPT-2: {other:?}"),
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
