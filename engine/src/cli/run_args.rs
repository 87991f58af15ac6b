//! The arguments of every command that reads a run file.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::output::note;
use crate::config::{Launch, Notice, RunFile};
use crate::plan::Plan;

/// A run file and its overrides.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The run file, JSON.
    #[arg(value_name = "RUN.json")]
    pub(super) run: PathBuf,
    /// Change a key, as `--set parallel.pipeline=4`; the value is read as JSON, else as a string; `null` removes the key.
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    pub(super) set: Vec<String>,
}

impl RunArgs {
    /// The file with its overrides.
    pub(super) fn load(&self) -> Result<RunFile, Failure> {
        Ok(RunFile::load(&self.run)?.set(&self.set)?)
    }

    /// The plan; prints the notices on the file and the plan.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let (plan, notices) = Plan::from_file(&self.load()?, Launch::this_host())?;
        print_notices(&notices);
        Ok(plan)
    }
}

/// Prints hints and warnings.
pub(super) fn print_notices(notices: &[Notice]) {
    for notice in notices {
        note(notice);
    }
}
