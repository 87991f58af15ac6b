//! Costs of whole plans.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is how a test fails")]

mod calculated; // Analytic costs beside closed forms.
mod measured; // Costs files, applied to other plans than they were measured on.
mod memory; // What is in use beside what is allocated.
mod messages; // Bytes beside the plan's traffic.
mod slowness; // Ranks that are off their mean times.

use std::fmt::Write;

use crate::config::{Launch, RunFile};
use crate::plan::Plan;

/// A plan of this run file with keys changed, as `--set` changes them.
pub(in crate::plan) fn plan(file: &str, changes: &[&str]) -> Plan {
    let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
    let file = RunFile::parse("run.json", file).unwrap().set(&changes).unwrap();
    match file.resolve(Launch { cores: 2, ranks: None }) {
        Ok((run, _)) => Plan::new(run).unwrap(),
        Err(errors) => {
            let mut text = format!("{changes:?}");
            write!(text, ": {errors}").unwrap();
            panic!("{text}")
        }
    }
}

/// Eight layers on two pipeline ranks of two data ranks.
pub(in crate::plan) const GPT2: &str = r#"{
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
pub(in crate::plan) const TIMED: &str = r#"{
  "model": { "family": "timed", "num_layers": 8, "seq_length": 8, "parameters_per_layer": 1024,
             "activation_elements": 64, "forward_ms": 1, "backward_input_ms": 1.5, "backward_weight_ms": 0.5 },
  "parallel": { "pipeline": 4, "partition": "uniform" },
  "zero_optimization": { "stage": 1 },
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 8,
  "threads": 1,
  "steps": 1
}"#;
