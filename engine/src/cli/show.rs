//! `pipezero show`.

use clap::{Args, ValueEnum};

use super::failure::Failure;
use super::run_args::{RunArgs, print_notices};
use crate::plan::Plan;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    run: RunArgs,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// The order of compute as a grid, then every rank's instructions.
    Text,
    /// PyTorch's pipelining CSV: compute only, a row per rank.
    Csv,
    /// The program in its versioned text form, which can be read back.
    Program,
}

pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let (run, notices) = args.run.resolve()?;
    print_notices(&notices);
    let plan = Plan::new(run)?;
    match args.format {
        Format::Text => print!("{}", plan.order().to_csv()),
        Format::Csv => print!("{}", plan.order().to_csv()),
        Format::Program => print!("{:?}", plan.training().program()),
    }
    Ok(())
}
