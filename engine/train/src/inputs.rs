//! The inputs of a training run that its processes compare.

use std::path::PathBuf;

use pipezero_config::Run;
use pipezero_plan::Plan;
use pipezero_run::checkpoint::digits;
use pipezero_run::engine::InitialState;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::batches::Batches;
use super::error::TrainingError;
use super::same_inputs::{Input, LargeFiles};
use super::teacher::Teacher;

/// The inputs of a run, and the large files that its ranks read in parts.
pub(super) fn inputs(
    plan: &Plan,
    batches: &Batches,
    state: &InitialState,
    teacher: Option<&Teacher>,
) -> Result<(Vec<Input>, LargeFiles), TrainingError> {
    let data = &plan.run().data;
    let mut inputs = sections(plan.run());
    let mut add = |what: &str, digest: Option<String>, files: Vec<PathBuf>| {
        // Each process has all rows, so that one that has read nothing differs from one that has.
        let digest = digest.unwrap_or_else(|| "none".to_owned());
        inputs.push(Input { what: what.to_owned(), digest, files, repair: Input::REPAIR });
    };
    let (key, files) = match data.files.tokens.is_empty() {
        true => ("data.text", data.text.clone()),
        false => ("data.tokens", batches.token_files.clone()),
    };
    let weights_files = state.files(plan)?;
    add(
        "the tokenizer (`data.tokenizer`)",
        batches.tokenizer_checksum.clone(),
        data.tokenizer.iter().cloned().collect(),
    );
    add(&format!("what is trained on (`{key}`)"), batches.text_checksum.clone(), files);
    add("what is held out for validation", batches.validation_checksum.clone(), Vec::new());
    let weights = state.weights_checksum(plan)?.map(digits);
    add("the initial weights", weights, weights_files.clone());
    let step = match state {
        InitialState::Checkpoint(from) => from.manifest().position.step,
        _ => 0,
    };
    add("the step after which the run goes on", Some(step.to_string()), Vec::new());
    // A process without a rank of the teacher may not see its weights, and need not.
    let teacher = teacher.map(|teacher| teacher.weights().checksum.clone().unwrap_or_default());
    add("the weights of the teacher", teacher, Vec::new());
    let paths = [batches.token_files.clone(), weights_files].concat();
    Ok((inputs, LargeFiles { paths, are_verified: data.verify }))
}

/// The repair if run files differ.
const OF_RUN_FILE: &str = "start all processes with the same run file and arguments; `resume` reads the run file in the run directory of its host, so copy that of \
     rank 0's host there";

/// The longest value of a section of a run file that errors show; of others they show a checksum.
const SHOWN_BYTES_MAX: usize = 80;

/// The sections of a run, without what belongs to a host: how many threads its ranks have, and where its data lies.
fn sections(run: &Run) -> Vec<Input> {
    let run = serde_json::to_value(run.on_any_host()).expect("a run has string keys and finite depth");
    let Value::Object(sections) = run else { return Vec::new() };
    let input = |(name, value): (&String, &Value)| {
        let text = value.to_string();
        let shown = if text.len() <= SHOWN_BYTES_MAX {
            text
        } else {
            format!("{} of checksum {}", value_kind(value), digits(xxh3_64(text.as_bytes())))
        };
        Input {
            what: format!("`{name}` of the run file"),
            digest: shown,
            files: Vec::new(),
            repair: OF_RUN_FILE,
        }
    };
    sections.iter().map(input).collect()
}

fn value_kind(value: &Value) -> &'static str {
    if value.is_object() { "a section" } else { "a value" }
}
