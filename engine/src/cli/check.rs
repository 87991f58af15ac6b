//! `pipezero check`.

use clap::Args;

use super::failure::Failure;
use super::run_args::{RunArgs, print_notices};
use crate::plan::Plan;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    run: RunArgs,
}

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let (run, notices) = args.run.resolve()?;
    print_notices(&notices);
    println!("{run:#?}");
    // What the file's own rules cannot see: that the schedule can be generated, lowered and proved.
    Plan::new(run)?;
    Ok(())
}
