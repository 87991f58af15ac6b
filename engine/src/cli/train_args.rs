//! The arguments of `pipezero train`.

use std::path::PathBuf;

use clap::Args;

use super::run_args::RunArgs;
use super::whole::whole;
use crate::measure::trace::TracedSteps;

/// What `--help` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  pipezero train engine/configs/quickstart.json
  pipezero train run.json --out runs/lr-3e-4 --set optimizer.params.lr=3e-4
  pipezero train run.json --set parallel.pipeline=4 --set parallel.data=1 \\
    --overwrite
  pipezero train run.json --set checkpoint.every=500
  pipezero train run.json --resume --set parallel.pipeline=8
  pipezero train run.json --resume --step 1500 --set optimizer.params.lr=1e-4
  pipezero train run.json --trace --out runs/traced   # for `compare`
  pipezero train run.json --set bf16.enabled=true \\
    --set activation_checkpointing.enabled=true

The run directory holds run.json (the run file with its overrides; schedule.csv beside it, if the schedule is a file), metrics.jsonl (a line per step: loss, rate, tokens, exposed communication, loss scale, ...), weights.safetensors and summary.json (measured beside planned); with --trace also trace/, a file per recorded step, and trace.json, one of them for ui.perfetto.dev or chrome://tracing. logs/ has what the process of each rank says, where ranks are processes. checkpoints/ has the whole state after some steps, from which --resume goes on. Ctrl-C, SIGTERM, SIGHUP and the signal of `checkpoint.signal` end the run after the current step, with a checkpoint and all of them.";

/// Arguments of `train`.
#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// The run directory [default: runs/NAME for a run file NAME.json]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Replace the run directory if it exists.
    #[arg(long)]
    pub(super) overwrite: bool,
    /// Go on from the run directory's newest checkpoint, on whichever grid the run file now says; start if there is none.
    #[arg(long, conflicts_with_all = ["overwrite", "trace"])]
    pub(super) resume: bool,
    /// Go on from the checkpoint after this step instead of the newest: later ones are removed once the run has written another.
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true, requires = "resume")]
    pub(super) step: Option<u64>,
    /// Start with the weights of another run: its directory, its weights.safetensors, or a checkpoint; or of a folder of Hugging Face's
    /// transformers. The optimizer starts anew.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(super) init: Option<PathBuf>,
    /// A new folder for the state of the run, should an error end it while the run directory cannot be written.
    #[arg(long, value_name = "DIR")]
    pub(super) rescue: Option<PathBuf>,
    /// Record when each instruction ran, for `pipezero compare`.
    #[arg(long)]
    pub(super) trace: bool,
    /// The first and last step to record [default: 2..4, as far as the run has them; or its only step]
    #[arg(long, value_name = "A..B", requires = "trace")]
    pub(super) trace_steps: Option<TracedSteps>,
}
