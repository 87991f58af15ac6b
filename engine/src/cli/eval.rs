//! `pipezero eval`.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::output::{note, print};
use super::table::Table;
use super::terminal;
use super::trained_run::TrainedRunArgs;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero eval runs/quickstart                       # its validation text
  pipezero eval runs/quickstart --step 500            # a checkpoint's weights
  pipezero eval runs/quickstart --data 'books/*.txt'  # other text";

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    run: TrainedRunArgs,
    /// Other text: files, folders or globs, instead of the run's validation text. Batches are drawn from all of it.
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    data: Vec<PathBuf>,
    /// Batches of `train_batch_size` sequences to score, drawn at random but the same at every call [default: the run's `evaluation.batches`]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    batches: Option<u64>,
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("write a whole number from 1".to_owned()),
    }
}

pub(super) fn run(args: &EvalArgs) -> Result<(), Failure> {
    let score = args.run.open()?.score(&args.data, args.batches)?;
    note(format_args!("computed in {}", score.computed_in));
    let mut table = Table::new(["tokens", "loss", "perplexity", "bits per byte"]);
    let cells = [
        format!("{:.4}", score.loss),
        format!("{:.3}", score.perplexity()),
        format!("{:.4}", score.bits_per_byte()),
    ];
    table.row(score.num_tokens.to_string(), cells);
    print(format_args!("{table:width$}", width = terminal::width()))?;
    Ok(())
}
