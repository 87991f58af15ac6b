//! `pipezero eval`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::failure::{Failure, NothingLearnt};
use super::output::print;
use super::table::Table;
use crate::config::{Launch, RunFile};
use crate::plan::Plan;
use crate::run::data::{BatchSource, Corpus, DataError};
use crate::run::engine::Engine;
use crate::train::{RunDir, TrainingError, batch_layout, evaluate};

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero eval runs/quickstart                       # its validation text
  pipezero eval runs/quickstart --data 'books/*.txt'  # other text";

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// The run directory that `train` wrote.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
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
    let directory = RunDir::open(&args.directory)?;
    let file = RunFile::load(&directory.file(RunDir::RUN_FILE))?;
    let (run, _) = file.resolve(Launch::this_host())?;
    if !run.model.learns() {
        return Err(NothingLearnt("score").into());
    }
    let plan = Plan::new(run)?;
    let run = plan.run();
    let seq_length = plan.micro_batch_shape().seq_length;
    let source: Arc<dyn BatchSource> = if args.data.is_empty() {
        let corpus = Corpus::load(&run.data, seq_length).map_err(TrainingError::Data)?;
        corpus.check_vocabulary(plan.vocab_size())?;
        let batches = corpus.validation_batches(batch_layout(&plan), run.seed)?;
        Arc::new(batches.ok_or(DataError::NoValidation)?)
    } else {
        let corpus = Corpus::unsplit(&args.data, seq_length)?;
        corpus.check_vocabulary(plan.vocab_size())?;
        Arc::new(corpus.training_batches(batch_layout(&plan), run.seed)?)
    };
    let num_batches = args.batches.unwrap_or(run.evaluation.batches);
    let mut engine = Engine::for_inference(plan, Arc::clone(&source))?;
    engine.load(&directory.file(RunDir::WEIGHTS))?;
    let report = evaluate(&mut engine, &source, num_batches)?;
    let loss = report.loss.expect("every token of a text carries loss, and there is at least one batch");
    let mut table = Table::new(["tokens", "loss", "perplexity", "bits per byte"]);
    table.row([
        report.num_targets.to_string(),
        format!("{loss:.4}"),
        format!("{:.3}", loss.exp()),
        // A token is a byte.
        format!("{:.4}", loss / std::f64::consts::LN_2),
    ]);
    print(table)?;
    Ok(())
}
