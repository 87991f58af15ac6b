//! `pipezero train`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;

use super::describe;
use super::failure::Failure;
use super::figures::{bytes, count, counted};
use super::notices::Notices;
use super::output::{note, print};
use super::progress::Progress;
use super::run_args::{RunArgs, fault_of_text};
use super::terminal;
use super::train_report::report;
use crate::config::Launch;
use crate::measure::trace::{TracedSteps, TracedStepsError};
use crate::plan::Plan;
use crate::run::data::first_words;
use crate::train::{RunDir, Start, Summary, Training};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero train engine/configs/quickstart.json
  pipezero train run.json --out runs/lr-3e-4 --set optimizer.params.lr=3e-4
  pipezero train run.json --set parallel.pipeline=4 --set parallel.data=1 \\
    --overwrite
  pipezero train run.json --trace --out runs/traced   # for `compare`
  pipezero train run.json --set bf16.enabled=true \\
    --set activation_checkpointing.enabled=true

The run directory holds run.json (the run file with its overrides; schedule.csv beside it, if the schedule is a file), metrics.jsonl (a line per step: loss, rate, tokens, exposed communication, loss scale, ...), weights.safetensors and summary.json (measured beside planned); with --trace also trace/, a file per recorded step, and trace.json, one of them for ui.perfetto.dev or chrome://tracing. Ctrl-C ends the run after the current step and saves all of them.";

/// Arguments of `train`.
#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    #[command(flatten)]
    run: RunArgs,
    /// The run directory [default: runs/NAME for a run file NAME.json]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the run directory if it exists.
    #[arg(long)]
    overwrite: bool,
    /// Record when each instruction ran, for `pipezero compare`.
    #[arg(long)]
    trace: bool,
    /// The first and last step to record [default: 2..4, as far as the run has them; or its only step]
    #[arg(long, value_name = "A..B", requires = "trace")]
    trace_steps: Option<TracedSteps>,
}

pub(super) fn run(args: &TrainArgs) -> Result<(), Failure> {
    let file = args.run.load()?;
    let (plan, notices) = Plan::from_file_with(&file, Launch::this_host(), &fault_of_text)?;
    let notices = Notices::new(args.run.name(), notices);
    let traced = args.traced(plan.run().steps)?;
    let out = args.out.clone().unwrap_or_else(|| RunDir::default_path(&args.run.run));
    RunDir::check(&out, args.overwrite)?;
    note(terminal::wrapped(&headline(&plan), terminal::width()));
    for units in plan.units_that_stay() {
        note(units);
    }
    // Before the steps, which may take days.
    drop(notices);
    let ranks = format!(
        "{} and {} of memory in all; initial weights are drawn",
        counted(plan.grid().world_size(), "rank"),
        bytes(plan.needs().world_bytes)
    );
    let prompt = first_words(&plan.run().data.text).unwrap_or_else(|| "The".to_owned());
    let reads_text = !plan.run().data.text.is_empty();
    let training = Training::starting(plan, &mut |begins| match begins {
        Start::Text if reads_text => note("reading the text"),
        Start::Text => {}
        Start::Ranks => note(format_args!("starting {ranks}")),
    })?;
    let training = match traced.clone() {
        Some(steps) => training.traced(steps),
        None => training,
    };
    // A directory is made or replaced only after everything else worked.
    let directory = RunDir::create(&out, args.overwrite)?;
    directory.record(&file, training.plan())?;
    let interrupted = stop_after_the_step_on_ctrl_c();
    let num_steps = training.plan().run().steps;
    let learns = training.plan().run().model.learns();
    let mut progress = Progress::new(num_steps, learns);
    let start = Instant::now();
    let summary = training.run(&directory, &interrupted, &mut progress)?;
    progress.finish();
    if summary.interrupted {
        note(format_args!("ended after step {} of {num_steps}", summary.steps));
    }
    print(report(&summary, learns, start.elapsed().as_secs_f64(), terminal::width()))?;
    if let Some(warning) = skipped_too_many(&summary) {
        note(terminal::fitted(&warning));
    }
    let path = directory.path().display();
    note(format_args!("\nrun directory: {path}"));
    if let Some(steps) = traced {
        note(format_args!("traced: steps {steps}; try: pipezero compare {path}"));
    }
    if learns {
        note(format_args!("try: pipezero generate {path} --prompt '{prompt}'"));
    }
    Ok(())
}

impl TrainArgs {
    /// The steps to record, if --trace is given.
    fn traced(&self, num_steps: u64) -> Result<Option<TracedSteps>, TracedStepsError> {
        let Some(steps) = &self.trace_steps else {
            return Ok(self.trace.then(|| TracedSteps::of_run(num_steps)));
        };
        steps.check(num_steps)?;
        Ok(Some(steps.clone()))
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
        describe::precision(plan),
        counted(usize::try_from(run.steps).unwrap_or(usize::MAX), "step"),
        counted(run.batch.train_batch_size, "sequence"),
        plan.micro_batch_shape().seq_length,
    )
}

/// The first Ctrl-C ends the run after the step, with everything saved; the second ends the process.
fn stop_after_the_step_on_ctrl_c() -> Arc<AtomicBool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        note("\nending after this step; press Ctrl-C again to end at once");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        note(format_args!("warning: Ctrl-C will end the run at once: {error}"));
    }
    interrupted
}

/// The warning that fp16 skipped too many steps: each was reported, but a log is long.
fn skipped_too_many(summary: &Summary) -> Option<String> {
    let scale = summary.loss_scale.filter(|_| summary.skipped_too_many())?;
    let Summary { skipped_steps: skipped, skipped_steps_at_end: at_end, steps, .. } = summary;
    let trailing =
        if summary.skips_at_end() { format!(", the last {at_end} in a row") } else { String::new() };
    Some(format!(
        "\nwarning: fp16 skipped {skipped} of {steps} steps{trailing}; the loss scale ended at {scale}: lower \
         `fp16.initial_scale_power`, or `fp16.loss_scale` if that is set, or use bf16"
    ))
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
        let expected = "\nwarning: fp16 skipped 12 of 20 steps, the last 11 in a row; the loss scale ended at 8: lower \
                        `fp16.initial_scale_power`, or `fp16.loss_scale` if that is set, or use bf16";
        assert_eq!(text, expected);
    }
}
