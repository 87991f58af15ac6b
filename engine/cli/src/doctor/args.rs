//! The arguments of `doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::run_args::RunArgs;

/// What `--help` ends with.
pub(crate) const EXAMPLES: &str = "\
Examples:
  pipezero doctor run.json
  pipezero doctor run.json --set parallel.pipeline=4 --out four.txt
  mpirun -n 4 pipezero doctor run.json --set comm.backend=mpi
  pipezero doctor run.json --json | jq '.checks[] | select(.verdict != \"ok\")'

In less than two minutes: what each process runs on; every group and lane of the run, with known contents, timed; small models beside one pipeline rank, to the bit; some steps of the run itself with tokens drawn at random, its memory and traffic beside the plan; clocks; the disk. Nothing of the run is kept. The file has all of it, the run file too: it is what to look at, or to send.

Exit status: 0 if no check failed, warnings or not; 1 if one failed; 2 for a mistake in the input.";

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Where the report goes; an earlier report there is replaced [default: doctor-NAME.txt for a run file NAME.json]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// The run directory whose disk is tried [default: runs/NAME]
    #[arg(long, value_name = "DIR")]
    pub(super) run_dir: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    pub(super) json: bool,
}
