//! `pipezero resume DIR`: `train --resume` of a run directory's own run file.
//!
//! The run directory keeps the run file as it ran, every `--set` applied and the paths of its data absolute, so nothing else has to be kept of how a run was
//! started.

use std::path::{Path, PathBuf};

use clap::Args;
use pipezero_files::host::{self, LaunchedProcess};
use pipezero_run::checkpoint::Checkpoints;
use pipezero_train::{Claim, RunDir};

use super::TrainArgs;
use crate::failure::Failure;
use crate::run_args::RunArgs;
use crate::whole::whole;

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "\
Examples:
  pipezero resume runs/first
  pipezero resume runs/first --set steps=2000
  pipezero resume runs/first --set parallel.data=4   # steps stay as large
  pipezero resume runs/first --step 1500 --set optimizer.params.lr=1e-4
  pipezero launch -n 4 --max-restarts 3 -- resume runs/first

It is `train DIR/run.json --out DIR --resume`: DIR/run.json is the run file as the run was started last, with what --set said then. What a change means for what is learned is said before the first step. Of several processes each reads DIR/run.json: on hosts that do not share DIR, copy it from that of rank 0, which writes it. A task of a master file goes on with `train MASTER.json --out DIR --resume`.";

/// Arguments of `resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Change a key from here on, as `--set steps=2000`; the value is read as JSON, else as a string; `null` removes the key.
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    set: Vec<String>,
    /// Go on from the checkpoint after this step instead of the newest: later ones are removed once the run has written another.
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    step: Option<u64>,
    /// A new folder for the state of the run, should an error end it while the run directory cannot be written.
    #[arg(long, value_name = "DIR")]
    rescue: Option<PathBuf>,
    /// Is meant in any case: what a run says at its end is to add it.
    #[arg(long, hide = true)]
    resume: bool,
}

impl ResumeArgs {
    /// The same as arguments of `train`.
    ///
    /// # Errors
    /// When there is no run file in the folder.
    pub(crate) fn of_train(self) -> Result<TrainArgs, Failure> {
        let run = self.directory.join(RunDir::RUN_FILE);
        if !run.is_file() {
            let several = LaunchedProcess::this().ok().flatten().is_some_and(|launched| launched.size > 1);
            return Err(Failure::Input(nothing_to_resume(&self.directory, several).into()));
        }
        // Its run file may be that of a run which is being removed.
        RunDir::of_run_file(&self.directory)?;
        Ok(TrainArgs {
            run: RunArgs { run, set: self.set },
            task: None,
            out: Some(self.directory),
            overwrite: false,
            resume: true,
            step: self.step,
            init: Vec::new(),
            rescue: self.rescue,
            trace: false,
            trace_steps: None,
        })
    }
}

/// Why there is no run to go on with.
fn nothing_to_resume(directory: &Path, several: bool) -> String {
    let shown = directory.display();
    let is_engine = |path: &Path| path.join(RunDir::RUN_FILE).is_file();
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    if entries.into_iter().any(|entry| is_engine(&entry.path())) {
        return format!(
            "{shown} is the folder of several engines: go on with all of them with pipezero train MASTER.json --out {shown} --resume, or with one \
             with pipezero resume {shown}/ENGINE"
        );
    }
    if let Some(run) = run_around(directory) {
        let run = run.display();
        return format!(
            "{shown} holds checkpoints of the run in {run}: write pipezero resume {run}, with --step N for another one than the newest"
        );
    }
    let file = RunDir::RUN_FILE;
    if directory.is_file() {
        return format!(
            "{shown} is a file, and a run directory is a folder: name the one that `train` wrote, or write pipezero train RUN.json --out DIR --resume"
        );
    }
    // Where `train` would refuse the folder, it is no help.
    let or_train = match RunDir::check(directory, Claim::GoOn) {
        Ok(_) => format!(", or write pipezero train RUN.json --out {shown} --resume"),
        Err(_) => String::new(),
    };
    match several {
        true => format!(
            "{shown} has no {file} on host {}, and every process of the job reads it: copy it from the host of rank 0, which wrote it{or_train}",
            host::name()
        ),
        false => format!(
            "{shown} has no {file}, so it is no run directory: name the folder that `train` wrote{or_train}"
        ),
    }
}

/// The run directory among whose checkpoints a folder is.
fn run_around(directory: &Path) -> Option<PathBuf> {
    let is_run = |path: &&Path| path.join(RunDir::RUN_FILE).is_file();
    let checkpoints = directory.ancestors().take(2).find(|path| path.ends_with(Checkpoints::NAME))?;
    checkpoints.parent().filter(is_run).map(Path::to_owned)
}
