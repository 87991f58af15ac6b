//! `pipezero eval`.

use std::path::PathBuf;

use clap::Args;
use pipezero_files::records::begins_as_json;
use pipezero_train::Scored;

use super::failure::Failure;
use super::loaded_weights;
use super::output::{ProcessOutput, note, print};
use super::run_args::json_as_text;
use super::table::Table;
use super::terminal;
use super::trained_run::TrainedRunArgs;
use super::whole::at_least_one;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero eval runs/quickstart                       # of what is held out
  pipezero eval runs/quickstart --all                 # all of it, once
  pipezero eval runs/quickstart --step 500            # a checkpoint's weights
  pipezero eval runs/quickstart --data 'books/*.txt'  # other text";

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    run: TrainedRunArgs,
    /// Other text: files, folders or globs, or files of tokens, instead of the run's validation data. Batches are drawn from all of it.
    #[arg(long, value_name = "TEXT", num_args = 1..)]
    data: Vec<PathBuf>,
    /// Batches of `train_batch_size` sequences to score, drawn at random but the same at every call [default: the run's `evaluation.batches`]
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>, allow_negative_numbers = true)]
    batches: Option<u64>,
    /// Score every sequence once, in order.
    #[arg(long, conflicts_with = "batches")]
    all: bool,
}

pub(super) fn run(args: &EvalArgs) -> Result<(), Failure> {
    if let Some(path) = args.data.iter().find(|path| begins_as_json(path)) {
        note(format_args!("warning: {}", json_as_text(path)));
    }
    let score = args
        .run
        .open()?
        .score(&args.data, if args.all { Scored::All } else { Scored::Batches(args.batches) })?;
    note(format_args!("computed in {}", score.computed_in));
    loaded_weights::say(ProcessOutput::of_this(), score.loaded_weights.as_ref());
    let mut table = Table::new(["tokens", "loss", "perplexity", "bits per byte"]);
    let cells = [
        format!("{:.4}", score.loss),
        format!("{:.3}", score.perplexity()),
        score.bits_per_byte().map_or_else(|| "-".to_owned(), |bits| format!("{bits:.4}")),
    ];
    table.row(score.num_tokens.to_string(), cells);
    print(format_args!("{table:width$}", width = terminal::width()))?;
    Ok(())
}
