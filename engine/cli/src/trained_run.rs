//! The run whose weights `eval` and `generate` use.

use std::path::PathBuf;

use clap::Args;
use pipezero_comm::world::WorldError;
use pipezero_files::host::LaunchedProcess;
use pipezero_train::TrainedRun;

use super::failure::Failure;
use super::nccl_variable::set_variable;
use super::whole::whole;

/// Which run, and how it computes.
#[derive(Debug, Args)]
pub(super) struct TrainedRunArgs {
    /// The run directory that `train` wrote.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Take the weights of the checkpoint after this step [default: those of the run's end]
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true)]
    step: Option<u64>,
    /// Compute on this device: cpu, cuda, or auto (a GPU where there is one) [default: the run's]
    #[arg(long, value_name = "DEVICE", value_parser = ["cpu", "cuda", "auto"], hide_possible_values = true)]
    device: Option<String>,
}

impl TrainedRunArgs {
    /// Opens the run directory.
    ///
    /// # Errors
    /// When it cannot be read, and in a job of several processes: each would do all of it.
    pub(super) fn open(&self) -> Result<TrainedRun, Failure> {
        let launched = LaunchedProcess::this().map_err(WorldError::from)?;
        if let Some(LaunchedProcess { launcher, rank, size, .. }) =
            launched.filter(|launched| launched.size > 1)
        {
            let error =
                format!("this command runs in one process, and {launcher} has started {size}: start it once");
            return Err(if rank == 0 { Failure::Input(error.into()) } else { Failure::SaidElsewhere });
        }
        let run = self.found()?;
        set_variable(run.backend()?, &self.directory)?;
        Ok(run)
    }

    fn found(&self) -> Result<TrainedRun, Failure> {
        let run = match self.step {
            Some(step) => TrainedRun::open_at(&self.directory, step)?,
            None => TrainedRun::open(&self.directory)?,
        };
        match &self.device {
            Some(device) => Ok(run.on_device(device)?),
            None => Ok(run),
        }
    }
}
