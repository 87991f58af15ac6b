//! Plans of small run files, and costs of messages, for tests here and in other crates.
#![allow(clippy::unwrap_used, reason = "an unwrap that fails is how a test fails")]

use std::collections::BTreeMap;

use pipezero_config::{HostGpu, Resources, RunFile};

use crate::Plan;
use crate::costs::{MessageKind, MessageTimes, SizedTimes};

/// ZeRO-3 with units of which some parameters are sharded, others persistent, and others whole.
pub const MIXED: &str =
    "3 zero_optimization.parameters=[\"whole:bias|wte\",\"persistent:ln_.*weight|mlp.*bias\"]";

/// A plan of this run file with keys changed, as `--set` changes them; spaces lie between the changes.
pub fn plan(file: &str, changes: &str) -> Plan {
    let arguments: Vec<String> = changes.split_whitespace().map(str::to_owned).collect();
    let file = RunFile::parse("run.json", file).unwrap().set(&arguments).unwrap();
    let resolved = file.resolve(Resources {
        cores: 2,
        memory_bytes: None,
        gpu: HostGpu::Absent,
        ranks: None,
        part: None,
    });
    Plan::new(resolved.unwrap_or_else(|errors| panic!("{changes}: {errors}")).0).unwrap()
}

/// What a message of a size costs: issue, occupied, latency, landing.
pub fn sized(bytes: u64, [issue_ns, occupied_ns, latency_ns, landing_ns]: [u64; 4]) -> SizedTimes {
    SizedTimes { bytes, issue_ns, occupied_ns, latency_ns, landing_ns, probed: false }
}

/// Messages by kind and number of ranks, each with its sizes ascending.
pub fn by_kind(messages: impl Iterator<Item = (MessageKind, u64, SizedTimes)>) -> Vec<MessageTimes> {
    let mut found: BTreeMap<_, BTreeMap<u64, SizedTimes>> = BTreeMap::new();
    for (kind, ranks, times) in messages {
        found.entry((kind, ranks)).or_default().insert(times.bytes, times);
    }
    let times = |((kind, ranks), sizes): (_, BTreeMap<_, _>)| MessageTimes {
        kind,
        ranks,
        sizes: sizes.into_values().collect(),
    };
    found.into_iter().map(times).collect()
}

/// Eight layers on two pipeline ranks of two data ranks.
pub const GPT2: &str = r#"{
  "model": { "family": "gpt2", "num_layers": 8, "hidden_size": 32, "num_attention_heads": 4, "seq_length": 16,
             "tie_embeddings": false },
  "data": { "text": "x" },
  "parallel": { "pipeline": 2, "data": 2, "partition": "uniform" },
  "zero_optimization": { "stage": 3 },
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "threads": 1,
  "steps": 1
}"#;

/// Eight timed layers on four pipeline ranks.
pub const TIMED: &str = r#"{
  "model": { "family": "timed", "num_layers": 8, "seq_length": 8, "parameters_per_layer": 1024,
             "activation_elements": 64, "forward_ms": 1, "backward_input_ms": 1.5, "backward_weight_ms": 0.5 },
  "parallel": { "pipeline": 4, "partition": "uniform" },
  "zero_optimization": { "stage": 1 },
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 8,
  "threads": 1,
  "steps": 1
}"#;
