//! Steps that a perfect machine went through, which leave nothing to explain; and broken ones.

mod broken;
mod file;
mod perfect;
mod replay;

use crate::config::{Launch, RunFile};
use crate::plan::Plan;

/// A run of timed layers whose grid, schedule and ZeRO are those of `changes`.
fn planned(changes: &[&str]) -> Plan {
    let text = r#"{
        "model": {"family": "timed", "num_layers": 8, "seq_length": 4, "parameters_per_layer": 16,
            "activation_elements": 16, "forward_ms": 1},
        "parallel": {"pipeline": 2, "data": 2, "partition": "uniform"},
        "zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 4,
        "steps": 3
    }"#;
    let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
    let file = RunFile::parse("run.json", text).and_then(|file| file.set(&changes)).unwrap();
    let (run, _) = file.resolve(Launch { cores: 1, ranks: None }).unwrap();
    Plan::new(run).unwrap()
}

/// Grids, schedules and levels that together have every instruction but those of tied weights.
fn plans() -> Vec<Plan> {
    [
        &["parallel.pipeline=1"][..],
        &[],
        &["parallel.pipeline=4", "parallel.schedule=gpipe"],
        &["parallel.pipeline=4", "zero_optimization.prefetch_units=0", "zero_optimization.resident_units=1"],
        &["parallel.schedule=interleaved", "parallel.virtual_stages=2"],
        &["parallel.schedule=zb-h1", "gradient_accumulation_steps=5"],
        &["activation_checkpointing.enabled=true", "zero_optimization.reduce=last"],
        &["zero_optimization.stage=1", "parallel.pipeline=4"],
        &["zero_optimization.stage=0"],
    ]
    .into_iter()
    .map(planned)
    .collect()
}
