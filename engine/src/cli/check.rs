//! `pipezero check`.

use std::path::Path;

use clap::Args;

use super::failure::Failure;
use super::output::print;
use super::run_args::{RunArgs, print_notices};
use crate::config::Launch;
use crate::plan::Plan;
use crate::run::data::find_text;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero check run.json
  pipezero check run.json --set zero_optimization.stage=2
  pipezero check run.json --set memory=80GiB      # does every rank fit?

It prints the run as the engine sees it, every default filled in, under the engine's own names: it is meant to be read, and `train` does not accept it. Texts must exist; they are not read.

Exit status: 0 for a valid file; 2 for a file with mistakes, which are all printed with line and column; 1 for a valid file that cannot be planned, for example if a rank does not fit `memory`.";

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let missing = |path: &Path| find_text(path).err().map(|error| error.to_string());
    let (plan, notices) = Plan::from_file_with(&args.run.load()?, Launch::this_host(), &missing)?;
    print_notices(&notices);
    let json = serde_json::to_string_pretty(plan.run()).expect("a run has string keys and finite depth");
    print(format_args!("{json}\n"))?;
    Ok(())
}
