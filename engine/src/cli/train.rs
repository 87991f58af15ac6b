//! `pipezero train`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pipezero_models::queue::Cuda;

use super::agreement::{agreed, connected, place_in_job, said_once};
use super::describe;
use super::failure::Failure;
use super::figures::{bytes, count, counted};
use super::log;
use super::nccl_variable::set_variable;
use super::notices::Notices;
use super::output::{complain, keep, keep_in, note, print};
use super::progress::Progress;
use super::run_args::{PlannedData, plan_with_data};
use super::signals::end_after_the_step;
use super::terminal;
use super::train_args::TrainArgs;
use super::train_ready::{Ready, check_room, is_finished};
use super::train_report::report;
use super::unread_weights::unread_weights;
use crate::config::{DeviceName, RunFile};
use crate::host::{self, Launched};
use crate::measure::trace::TracedSteps;
use crate::plan::Plan;
use crate::run::data::first_words;
use crate::run::world::World;
use crate::train::{
    ChangedKey, CopiedTokenizer, RankLog, Resumed, RunDir, RunDirError, Start, Summary, Training,
    TrainingError,
};

pub(super) fn run(args: &TrainArgs) -> Result<(), Failure> {
    let (launched, is_first) = place_in_job()?;
    if launched.is_some() {
        log::hold();
        keep(&this_start());
    }
    let file = args.run.load()?;
    let (plan, notices) = args.planned(&file)?;
    let out = args.out.clone().unwrap_or_else(|| RunDir::default_path(&args.run.run));
    let ready = args.ready(&plan, &out, is_first);
    if let Ok(Ready { is_finished: false, .. }) = ready {
        say_what_runs(&plan);
        // Before the steps, which may take days.
        drop(notices);
    }
    let (world, ready) = connected(&plan, launched.as_ref(), ready)?;
    if is_finished(&*world, &ready)? {
        return Ok(());
    }
    let room = check_room(&plan, &*world, &out);
    let disk_warning = agreed(&*world, launched.as_ref(), room)?;
    let can_be_continued = plan.run().data.knows_text();
    let prompt = first_words(&plan.run().data.text).unwrap_or_else(|| "The".to_owned());
    let training = args.start(plan, world, &out, ready.traced.clone());
    let mut training = training.map_err(|error| said_once(error, launched.as_ref()))?;
    note(terminal::fitted(&format!("computing on: {}", device_of(&training, &file))));
    if let Some(warning) = disk_warning {
        note(terminal::fitted(&warning));
    }
    // A directory is made or replaced only after everything else worked.
    let recorded = args.recorded(&out, ready.earlier, &file, training.plan(), is_first);
    // The others open their logs in it.
    let recorded = training.together(recorded.map_err(TrainingError::from));
    let (directory, changed) = recorded.map_err(|error| said_once(error, launched.as_ref()))?;
    if let Some(launched) = &launched {
        keep_in(RankLog::open(&out, launched.rank, args.resume));
        keep(&place_of(training.plan(), launched));
    }
    if training.resumed().is_some() {
        say_what_changed(&changed);
    }
    let learns = training.plan().run().model.learns();
    let ended = steps(training, &directory, learns)?;
    let summary = ended.map_err(|error| {
        let failure = said_once(error, launched.as_ref());
        if launched.is_some() && !matches!(failure, Failure::SaidElsewhere) {
            complain(where_logs_are(directory.path()));
        }
        failure
    })?;
    if let Some(warning) = skipped_too_many(&summary) {
        note(terminal::fitted(&warning));
    }
    let path = directory.path().display();
    note(format_args!("\nrun directory: {path}"));
    if launched.is_some() {
        note(where_logs_are(directory.path()));
    }
    if let Some(steps) = ready.traced {
        note(format_args!("traced: steps {steps}; try: pipezero compare {path}"));
    }
    if learns && can_be_continued {
        note(format_args!("try: pipezero generate {path} --prompt '{prompt}'"));
    }
    Ok(())
}

/// Trains until the last step or a signal, and prints the final tables; why the run failed, if it did.
fn steps(
    training: Training,
    directory: &RunDir,
    learns: bool,
) -> Result<Result<Summary, TrainingError>, Failure> {
    let signalled = end_after_the_step(training.plan().run().checkpoint.signal);
    let num_steps = training.plan().run().steps;
    let mut progress = Progress::new(num_steps, learns);
    let start = Instant::now();
    let ended = training.run(directory, &signalled.interrupted, &mut progress);
    signalled.end();
    let Ok(summary) = ended else { return Ok(ended) };
    progress.finish();
    if summary.interrupted {
        note(format_args!(
            "ended after step {} of {num_steps}; the same command with --resume goes on",
            summary.steps
        ));
    }
    print(report(&summary, learns, start.elapsed().as_secs_f64(), terminal::width()))?;
    Ok(Ok(summary))
}

/// With what a start of the run begins in a log.
fn this_start() -> String {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    format!("pipezero {} {}", env!("CARGO_PKG_VERSION"), arguments.join(" "))
}

fn where_logs_are(directory: &Path) -> String {
    format!("logs of all ranks: {}", RankLog::folder(directory).display())
}

/// Where in the grid and on which host a process is.
fn place_of(plan: &Plan, launched: &Launched) -> String {
    let (grid, rank) = (plan.grid(), launched.rank);
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

impl TrainArgs {
    /// The plan of the run, in a process that can carry it out, and what is to be said of the file.
    fn planned(&self, file: &RunFile) -> Result<(Plan, Notices), Failure> {
        let PlannedData { plan, mut notices, .. } = plan_with_data(file)?;
        // The weights of a run that goes on are those of its checkpoint.
        if self.init.is_none() && !self.resume {
            notices.extend(unread_weights(file));
        }
        set_variable(plan.run().comm.backend, &self.run.run)?;
        Ok((plan, Notices::new(self.run.name(), notices)))
    }

    /// Starts the ranks, with the state that the run begins with.
    fn start(
        &self,
        plan: Plan,
        world: Arc<dyn World>,
        out: &Path,
        traced: Option<TracedSteps>,
    ) -> Result<Training, TrainingError> {
        let ranks = format!(
            "starting {} and {} of memory in all",
            counted(plan.grid().world_size(), "rank"),
            bytes(plan.needs().world_bytes)
        );
        let reads_text = plan.run().model.learns();
        let begins = &mut |begins| match begins {
            Start::Text if reads_text => note("reading the text"),
            Start::Text => {}
            Start::Drawn => note(format_args!("{ranks}; initial weights are drawn")),
            Start::Loaded => note(format_args!("{ranks}; weights are read")),
            Start::Resumed { step } => note(format_args!("{ranks}; the checkpoint of step {step} is read")),
        };
        let mut training = match &self.init {
            Some(path) => Training::initialised_from(plan, world, path, begins)?,
            None if self.resume => Training::resuming(plan, world, out, self.step, begins)?,
            None => Training::starting(plan, world, begins)?,
        };
        if self.resume {
            say_where_it_goes_on(training.resumed(), out);
        }
        if let Some(steps) = traced {
            training = training.traced(steps);
        }
        if let Some(folder) = self.rescue.clone() {
            training = training.rescued_to(folder);
        }
        Ok(training)
    }

    /// The run directory with the run file in it, made by the process that writes it, and what the run file says otherwise than before.
    fn recorded(
        &self,
        out: &Path,
        earlier: Option<RunDir>,
        file: &RunFile,
        plan: &Plan,
        is_first: bool,
    ) -> Result<(RunDir, Vec<ChangedKey>), RunDirError> {
        if !is_first {
            return Ok((RunDir::written_elsewhere(out), Vec::new()));
        }
        // Read before the directory is replaced that may hold it.
        let tokenizer = CopiedTokenizer::of(&plan.run().data)?;
        let directory = earlier.map_or_else(|| RunDir::create(out, self.overwrite), Ok)?;
        let changed = directory.record(file, plan, tokenizer.as_ref())?;
        Ok((directory, changed))
    }
}

fn say_where_it_goes_on(resumed: Option<&Resumed>, out: &Path) {
    let Some(Resumed { step, has_other_text, refused }) = resumed else {
        return note(format_args!("{} has no checkpoint yet: the run starts at step 1", out.display()));
    };
    for error in refused {
        note(terminal::fitted(&format!("warning: not resumed from the newest checkpoint: {error}")));
    }
    note(format_args!("the run goes on after step {step}"));
    if *has_other_text {
        note(terminal::fitted(
            "warning: the training text is not the one that the checkpoint's run read: its order of samples is another one from here on",
        ));
    }
}

fn say_what_changed(changed: &[ChangedKey]) {
    if !changed.is_empty() {
        let changed: Vec<String> = changed.iter().map(ChangedKey::to_string).collect();
        note(terminal::fitted(&format!("since the last start of the run: {}", changed.join(", "))));
    }
}

fn say_what_runs(plan: &Plan) {
    note(terminal::wrapped(&headline(plan), terminal::width()));
    if plan.run().model.learns() {
        note(terminal::wrapped(&plan.element_types().to_string(), terminal::width()));
    }
    for line in describe::trained(plan).into_iter().chain(plan.units_that_stay()) {
        note(line);
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

/// What computes, and why it is no GPU where the file leaves that to the host.
fn device_of(training: &Training, file: &RunFile) -> String {
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
        let expected = "\nwarning: fp16 skipped 12 of 20 steps, the last 11 in a row; the loss scale ended at 8: lower \
                        `fp16.initial_scale_power`, or `fp16.loss_scale` if that is set, or use bf16";
        assert_eq!(text, expected);
    }
}
