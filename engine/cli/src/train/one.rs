//! The run of a run file: from its plan to its last table, in this process or in one of a job.

use std::time::Instant;

use pipezero_config::{Resources, RunFile};
use pipezero_files::host::LaunchedProcess;
use pipezero_measure::trace::TracedSteps;
use pipezero_run::data::first_words;
use pipezero_train::{RankLog, RunDir, Summary, Training, TrainingError};

use super::args::TrainArgs;
use super::ready::{Ready, check_room, is_finished};
use super::report::report;
use super::words::{device_of, place_of, say_what_runs, skipped_too_many, this_start, where_logs_are};
use crate::agreement::{agreed, connected, rank_of, said_once};
use crate::failure::Failure;
use crate::log;
use crate::nccl_variable::set_variable;
use crate::notices::Notices;
use crate::output::{ProcessOutput, keep, keep_in, note, print, show_error};
use crate::progress::Progress;
use crate::signals::end_after_the_step;
use crate::terminal;

pub(super) fn run(
    args: &TrainArgs,
    file: &RunFile,
    launched: Option<&LaunchedProcess>,
    is_first: bool,
) -> Result<(), Failure> {
    if launched.is_some() {
        log::hold();
        keep(&this_start());
    }
    let options = args.of_one()?.or_weights_of(file);
    let file = &options.keeping_batch(file);
    let (plan, notices) = options.planned(file, Resources::this_host(), None)?;
    set_variable(plan.run().comm.backend, &args.run.run)?;
    let notices = Notices::new(args.run.name(), notices);
    let out = options.out.as_path();
    let ready = options.ready(&plan, is_first);
    if let Ok(Ready { is_finished: false, .. }) = ready {
        say_what_runs(ProcessOutput::of_this(), &plan);
        // Before the steps, which may take days.
        drop(notices);
    }
    let (world, ready) = connected(&plan, launched, ready)?;
    if is_finished(&*world, &ready)? {
        return Ok(());
    }
    let room = check_room(&plan, &*world, out);
    let disk_warning = agreed(&*world, launched, room)?;
    // Of a text that can be continued.
    let data = &plan.run().data;
    let prompt = data.knows_text().then(|| first_words(&data.text).unwrap_or_else(|| "The".to_owned()));
    let training = options.start(plan, world, ready.traced.clone(), None, ProcessOutput::of_this());
    let mut training = training.map_err(|error| said_once(error, rank_of(launched)))?;
    note(terminal::fitted(&format!("computing on: {}", device_of(&training, file))));
    if let Some(warning) = disk_warning {
        note(terminal::fitted(&warning));
    }
    // A directory is made or replaced only after everything else worked.
    let recorded = options.recorded(ready.earlier, file, training.plan(), is_first);
    // The others open their logs in it.
    let directory = options.directory(&mut training, recorded, ProcessOutput::of_this());
    let directory = directory.map_err(|error| said_once(error, rank_of(launched)))?;
    if let Some(launched) = launched {
        keep_in(RankLog::open(out, launched.rank, args.resume));
        keep(&place_of(training.plan(), launched.rank));
    }
    let learns = training.plan().run().model.learns();
    let ended = steps(training, &directory, learns)?;
    let summary = ended.map_err(|error| {
        let failure = said_once(error, rank_of(launched));
        if launched.is_some() && !matches!(failure, Failure::SaidElsewhere) {
            show_error(where_logs_are(directory.path()));
        }
        failure
    })?;
    if let Some(warning) = skipped_too_many(&summary) {
        note(terminal::fitted(&format!("\nwarning: {warning}")));
    }
    note(format_args!("\nrun directory: {}", directory.path().display()));
    if launched.is_some() {
        note(where_logs_are(directory.path()));
    }
    say_what_to_try(&directory, ready.traced.as_ref(), prompt.filter(|_| learns).as_deref());
    Ok(())
}

/// Commands that go on from here.
fn say_what_to_try(directory: &RunDir, traced: Option<&TracedSteps>, prompt: Option<&str>) {
    let path = directory.path().display();
    if let Some(steps) = traced {
        note(format_args!("traced: steps {steps}; try: pipezero compare {path}"));
    }
    if let Some(prompt) = prompt {
        note(format_args!("try: pipezero generate {path} --prompt '{prompt}'"));
    }
}

/// Trains until the last step or a signal, and prints the final tables; why the run failed, if it did.
fn steps(
    training: Training,
    directory: &RunDir,
    learns: bool,
) -> Result<Result<Summary, TrainingError>, Failure> {
    let signalled = end_after_the_step([training.plan().run().checkpoint.signal]);
    let num_steps = training.plan().run().steps;
    let num_done = training.resumed().map_or(0, |resumed| resumed.step);
    let mut progress = Progress::new(num_done, num_steps, learns);
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
