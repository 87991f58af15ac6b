//! The arguments of `pipezero train`.

use std::path::PathBuf;

use clap::Args;
use pipezero_measure::trace::TracedSteps;

use crate::run_args::RunArgs;
use crate::whole::whole;

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "\
Examples:
  pipezero train engine/configs/quickstart.json
  pipezero train run.json --out runs/lr-3e-4 --set optimizer.params.lr=3e-4
  pipezero train run.json --set parallel.pipeline=4 --set parallel.data=1 \\
    --overwrite
  pipezero train run.json --set checkpoint.every=500
  pipezero train run.json --resume --set parallel.pipeline=8
  pipezero resume runs/run                   # as it was started
  pipezero train run.json --resume --step 1500 --set optimizer.params.lr=1e-4
  pipezero train run.json --trace --out runs/traced   # for `compare`
  pipezero train run.json --set bf16.enabled=true \\
    --set activation_checkpointing.enabled=true
  pipezero train engine/configs/pair.json --task pair   # two engines
  pipezero train pair.json --set engines.deep.checkpoint.every=100 \\
    --set engines.wide.checkpoint.every=100
  pipezero train pair.json --resume --set engines.deep.steps=500

A master file trains several models in this process, each with an engine of its own, whose steps alternate, or which train at the same time on ranks of their own (\"ranks\": {\"other\": \"4-5\"} in a task):
  {\"engines\": {\"student\": \"student.json\", \"other\": {...a run file...}},
   \"tasks\": {\"pair\": {\"train\": [\"student\", \"other\"]}}}

The run directory holds run.json (the run file with its overrides; schedule.csv beside it, if the schedule is a file), metrics.jsonl (a line per step: loss, rate, tokens, exposed communication, loss scale, ...), weights.safetensors and summary.json (measured beside planned); with --trace also trace/, a file per recorded step, and trace.json, one of them for ui.perfetto.dev or chrome://tracing. logs/ has what the process of each rank says, where ranks are processes. checkpoints/ has the whole state after some steps, from which --resume goes on: it names every key that has changed since, warns where what is learned changes, and keeps the sequences of a step on another grid unless --set changes a batch key. Ctrl-C, SIGTERM, SIGHUP and the signal of `checkpoint.signal` end the run after the current step, with a checkpoint and all of them.";

/// Arguments of `train`.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// The task of a master file whose engines are trained, each in a run directory DIR/ENGINE [default: the only task].
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,
    /// The run directory, or the folder of the run directories of engines [default: runs/NAME for a file NAME.json]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the run directory if it exists.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Go on from the run directory's newest checkpoint, on whichever grid the run file now says; start if there is none.
    #[arg(long, conflicts_with_all = ["overwrite", "trace"])]
    pub(crate) resume: bool,
    /// Go on from the checkpoint after this step instead of the newest: later ones are removed once the run has written another.
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true, requires = "resume")]
    pub(crate) step: Option<u64>,
    /// Start with the weights of another run: its directory, its weights.safetensors, or a checkpoint; or of a folder of Hugging Face's
    /// transformers. The optimizer starts anew. Of a master file: ENGINE=DIR, for as many engines as begin so.
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) init: Vec<PathBuf>,
    /// A new folder for the state of the run, should an error end it while the run directory cannot be written.
    #[arg(long, value_name = "DIR")]
    pub(crate) rescue: Option<PathBuf>,
    /// Record when each instruction ran, for `pipezero compare`.
    #[arg(long)]
    pub(crate) trace: bool,
    /// The first and last step to record [default: 2..4, as far as the run has them; or its only step]
    #[arg(long, value_name = "A..B", requires = "trace")]
    pub(crate) trace_steps: Option<TracedSteps>,
}
