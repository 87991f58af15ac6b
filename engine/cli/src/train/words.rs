//! What `train` says of a run before its steps and after them.

use std::ops::RangeInclusive;
use std::path::Path;

use pipezero_config::{DeviceName, RunFile};
use pipezero_files::host;
use pipezero_models::queue::Cuda;
use pipezero_plan::Plan;
use pipezero_train::{Compared, LineFaults, RankLog, Resumed, RunDir, Start, Summary, Training};

use crate::describe;
use crate::figures::{bytes, count, counted};
use crate::output::ProcessOutput;
use crate::progress::Pace;
use crate::terminal;

/// With what a start of the run begins in a log.
pub(super) fn this_start() -> String {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    format!("pipezero {} {}", env!("CARGO_PKG_VERSION"), arguments.join(" "))
}

pub(super) fn where_logs_are(directory: &Path) -> String {
    format!("logs of all ranks: {}", RankLog::folder(directory).display())
}

/// Where in the grid and on which host the process of a rank is.
pub(super) fn place_of(plan: &Plan, rank: usize) -> String {
    let grid = plan.grid();
    format!(
        "rank {rank} of {}: pipeline rank {}, data rank {}; host {}, process {}, {}",
        grid.world_size(),
        grid.pipeline_rank(rank),
        grid.data_rank(rank),
        host::name(),
        std::process::id(),
        counted(plan.run().threads, "thread"),
    )
}

/// The line about what a run does before its first step, if there is one.
pub(super) fn where_it_starts(plan: &Plan) -> impl FnMut(Start) -> Option<String> + use<> {
    let ranks = format!(
        "starting {} and {} of memory in all",
        counted(plan.grid().world_size(), "rank"),
        bytes(plan.needs().world_bytes)
    );
    let reads_text = plan.run().model.learns();
    let new = new_parameters(plan);
    let mut pace = Pace::later();
    move |begins| match begins {
        Start::Text => reads_text.then(|| "reading the text".to_owned()),
        Start::Comparing { num_read_bytes, num_bytes } => pace.is_line_due().then(|| {
            let (read, all) = (bytes(num_read_bytes), bytes(num_bytes));
            format!("comparing files of tokens and weights between the processes: {read} of {all} read here")
        }),
        Start::Compared(Compared { whole_bytes, sampled_bytes: 0 }) => Some(format!(
            "files of tokens and weights were compared between the processes: all {}",
            bytes(whole_bytes)
        )),
        Start::Compared(Compared { whole_bytes, sampled_bytes }) => Some(format!(
            "files of tokens and weights were compared between the processes: {} whole, of {} more their sizes and some blocks; `data.verify` true compares all of them",
            bytes(whole_bytes),
            bytes(sampled_bytes)
        )),
        Start::Drawn => Some(format!("{ranks}; initial weights are drawn")),
        Start::Loaded => Some(format!("{ranks}; weights are read{new}")),
        Start::Resumed { step } => Some(format!("{ranks}; the checkpoint of step {step} is read")),
    }
}

/// The names of those that are drawn although others are read.
fn new_parameters(plan: &Plan) -> String {
    const SHOWN: usize = 4;
    let names: Vec<&str> = plan.new_parameters().iter().map(String::as_str).collect();
    match names.len() {
        0 => String::new(),
        num if num <= SHOWN => format!(", but for new parameters, which are drawn: {}", names.join(", ")),
        num => {
            format!(", but for {num} new parameters, which are drawn: {}, ...", names[..SHOWN].join(", "))
        }
    }
}

pub(super) fn say_where_it_goes_on(output: ProcessOutput, resumed: Option<&Resumed>, out: &Path) {
    let Some(Resumed { step, last_done, changes, refused, left, line_faults, .. }) = resumed else {
        return output
            .note(format_args!("{} has no checkpoint yet: the run starts at step 1", out.display()));
    };
    for error in refused {
        output.note(terminal::fitted(&format!("warning: not resumed from the newest checkpoint: {error}")));
    }
    output.note(format_args!("the run goes on after step {step}"));
    let first = step + 1;
    match last_done.saturating_sub(*step) {
        0 => {}
        1 => output.note(format_args!("step {first} was done before, and is done again")),
        _ => output.note(format_args!("steps {first} to {last_done} were done before, and are done again")),
    }
    if let Some(newest) = left.last() {
        output.note(terminal::fitted(&format!(
            "the last start of this run went on after step {step}: the checkpoint of step {newest} is of the branch that was left then, and --step {newest} goes on \
             with that; it is removed once this one has written another"
        )));
    }
    if let Some(faults) = faults_in_words(line_faults) {
        let metrics = out.join(RunDir::METRICS);
        output.note(terminal::fitted(&format!("warning: {} {faults}", metrics.display())));
    }
    for warning in changes.warnings() {
        output.note(terminal::fitted(&format!("warning: {warning}")));
    }
    if let Some(line) = changes.note() {
        output.note(terminal::fitted(&line));
    }
}

/// The faults of the lines of finished steps, in words that follow the name of their file.
fn faults_in_words(LineFaults { missing, doubled, num_damaged }: &LineFaults) -> Option<String> {
    let steps = |ranges: &[RangeInclusive<u64>]| {
        let first = ranges.first()?;
        let first = match first.end() - first.start() {
            0 => format!("step {}", first.start()),
            _ => format!("steps {} to {}", first.start(), first.end()),
        };
        Some(if ranges.len() == 1 { first } else { format!("{first}, and of others") })
    };
    let missing = steps(missing).map(|steps| format!("has no line of {steps}, which the run has done"));
    let doubled = steps(doubled).map(|steps| format!("has more than one line of {steps}"));
    let damaged =
        (*num_damaged > 0).then(|| format!("has {} that cannot be read", counted(*num_damaged, "line")));
    let faults: Vec<String> = missing.into_iter().chain(doubled).chain(damaged).collect();
    (!faults.is_empty()).then(|| faults.join("; it "))
}

pub(super) fn say_what_runs(output: ProcessOutput, plan: &Plan) {
    output.note(terminal::wrapped(&headline(plan), terminal::width()));
    if plan.run().model.learns() {
        output.note(terminal::wrapped(&plan.element_types().to_string(), terminal::width()));
    }
    for line in describe::trained(plan).into_iter().chain(plan.parameters_that_stay()) {
        output.note(line);
    }
}

fn headline(plan: &Plan) -> String {
    let (run, grid) = (plan.run(), plan.grid());
    format!(
        "{} parameters on pipeline {} x data {} ({}, {} each), {}, {}, {} of {} of {} tokens",
        count(plan.num_parameters()),
        grid.pipeline_degree,
        grid.data_degree,
        counted(grid.world_size(), "rank"),
        counted(run.threads, "thread"),
        describe::schedule(plan),
        plan.run().precision.name(),
        counted(usize::try_from(run.steps).unwrap_or(usize::MAX), "step"),
        counted(run.batch.train_batch_size, "sequence"),
        plan.micro_batch_shape().seq_length,
    )
}

/// The warning that fp16 skipped too many steps: each was reported, but a log is long.
pub(super) fn skipped_too_many(summary: &Summary) -> Option<String> {
    let scale = summary.loss_scale.filter(|_| summary.skipped_too_many())?;
    let Summary { skipped_steps: skipped, skipped_steps_at_end: at_end, steps, .. } = summary;
    let trailing =
        if summary.skips_at_end() { format!(", the last {at_end} in a row") } else { String::new() };
    Some(format!(
        "fp16 skipped {skipped} of {steps} steps{trailing}; the loss scale ended at {scale}: lower \
         `fp16.initial_scale_power`, or `fp16.loss_scale` if that is set, or use bf16"
    ))
}

/// What computes, and why it is no GPU where the file leaves that to the host.
pub(super) fn device_of(training: &Training, file: &RunFile) -> String {
    let name = training.device_name();
    if !file.leaves_device_open() {
        return name;
    }
    match Cuda::num_devices() {
        Err(error) if error.is_absence() => format!("{name}; no GPU: {}", error.in_short()),
        Err(error) => format!("{name}\nwarning: this host seems to have a GPU, which is not used: {error}"),
        Ok(_) if training.plan().run().device == DeviceName::Cpu => {
            format!(
                "{name}\nwarning: this host has a GPU, which is not used: the driver did not answer when the run file was read"
            )
        }
        Ok(_) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_skipped_most_or_its_last_ten_steps_ends_with_advice() {
        let warning = |steps, skipped_steps, skipped_steps_at_end, loss_scale| {
            let counts = Summary { steps, skipped_steps, skipped_steps_at_end, ..Summary::default() };
            skipped_too_many(&Summary { loss_scale, ..counts })
        };
        let warned = |steps, skipped, at_end| warning(steps, skipped, at_end, Some(8.0)).is_some();
        assert!(!warned(100, 50, 9) && !warned(100, 0, 0));
        assert!(warned(100, 51, 0) && warned(100, 10, 10) && warned(1, 1, 1));
        // Without fp16 no token carried loss, and no scale would help.
        assert_eq!(warning(4, 4, 4, None), None);
        let text = warning(20, 12, 11, Some(8.0)).expect("a warning");
        let expected = "fp16 skipped 12 of 20 steps, the last 11 in a row; the loss scale ended at 8: lower \
                        `fp16.initial_scale_power`, or `fp16.loss_scale` if that is set, or use bf16";
        assert_eq!(text, expected);
    }
}
