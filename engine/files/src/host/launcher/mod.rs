//! What a launcher has told this process in its environment: which rank it is, of how many, and where the process of rank 0 can be reached.
//!
//! Launchers start each other: SLURM's srun starts `mpirun`'s helpers, and `mpirun` or srun may start torchrun. Each adds variables to those
//! that it found, so the innermost one counts, and they are looked for in that order.

mod error;
mod in_force;
mod slurm;

use std::env;
use std::fmt;
use std::net::IpAddr;

pub use error::LauncherError;
pub use in_force::variables_in_force;

/// A process among those that a launcher has started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedProcess {
    /// The program that started it.
    pub launcher: Launcher,
    /// Its rank.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Its place on this host, if the launcher says.
    pub local: Option<Local>,
    /// Where the process of rank 0 can be reached, if the launcher says.
    pub master: Option<Master>,
}

/// A process's place among those of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Its number on the host, from 0.
    pub rank: usize,
    /// Number of processes on the host.
    pub size: usize,
}

/// Where the process of rank 0 can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    /// A name or an address.
    pub host: String,
    /// The port for pipezero, if the launcher names one.
    pub port: Option<u16>,
}

/// Programs that start processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// PyTorch's, and those that set its variables.
    Torchrun,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// One that speaks PMI: MPICH's and Intel MPI's `mpiexec`.
    Pmi,
    /// SLURM's `srun`.
    Slurm,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "mpirun",
            Self::Pmi => "mpiexec",
            Self::Slurm => "srun",
        })
    }
}

impl LaunchedProcess {
    /// This process; `None` if no launcher has started it.
    ///
    /// # Errors
    /// When the variables of a launcher contradict each other, or one is missing.
    pub fn this() -> Result<Option<Self>, LauncherError> {
        Self::among(&|name| env::var(name).ok().filter(|text| !text.is_empty()))
    }

    fn among(variables: &Variables<'_>) -> Result<Option<Self>, LauncherError> {
        let mut launchers = Launcher::ALL.into_iter();
        for launcher in launchers.by_ref() {
            if let Some(found) = launcher.find(variables)? {
                found.check_around(launchers, variables)?;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A launcher that another one has started has at least as many processes as that: else its variables are left from another job.
    fn check_around(
        &self,
        mut others: impl Iterator<Item = Launcher>,
        variables: &Variables<'_>,
    ) -> Result<(), LauncherError> {
        // What is wrong with the variables of those around does not matter.
        let around = others.find_map(|launcher| launcher.find(variables).ok().flatten());
        match around {
            Some(around) if self.launcher == Launcher::Torchrun && around.size > self.size => {
                let [rank_name, size_name, ..] = self.launcher.names();
                let (size, around_size_name) = (self.size, around.launcher.size_name(variables));
                Err(LauncherError::OtherJob {
                    rank_name,
                    size_name,
                    size,
                    around_size_name,
                    around_size: around.size,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether all processes run on this host; `false` where the launcher does not say.
    pub fn is_on_one_host(&self) -> bool {
        self.local.is_some_and(|local| local.size == self.size)
    }
}

/// The environment, or one that a test makes.
type Variables<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl Launcher {
    /// In the order in which they are looked for.
    const ALL: [Self; 4] = [Self::Torchrun, Self::OpenMpi, Self::Pmi, Self::Slurm];

    /// The variable by which it is known, then those of the number of processes, of the place on the host and of the number there.
    pub const fn names(self) -> [&'static str; 4] {
        match self {
            Self::Torchrun => ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"],
            Self::OpenMpi => [
                "OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
            ],
            Self::Pmi => ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
            Self::Slurm => {
                ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"]
            }
        }
    }

    /// The variable of the number of processes.
    fn size_name(self, variables: &Variables<'_>) -> &'static str {
        let [_, size_name, ..] = self.names();
        if self == Self::Slurm { slurm::size_name(size_name, variables) } else { size_name }
    }

    /// The variables by which processes of other launchers than this one know their ranks.
    pub fn variables_beside(own: Self) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |&launcher| launcher != own).flat_map(Self::names)
    }

    fn find(self, variables: &Variables<'_>) -> Result<Option<LaunchedProcess>, LauncherError> {
        let [rank_name, _, local_rank_name, local_size_name] = self.names();
        let size_name = self.size_name(variables);
        let is_of_launcher = match self {
            // Other programs have a RANK too, and a pod of Kubernetes is told RANK and WORLD_SIZE before torchrun starts.
            Self::Torchrun => [rank_name, local_rank_name].iter().all(|name| variables(name).is_some()),
            Self::Slurm => slurm::is_step(variables),
            Self::OpenMpi | Self::Pmi => variables(rank_name).is_some(),
        };
        if !is_of_launcher {
            return Ok(None);
        }
        let rank = needed(variables, rank_name, self)?;
        let size = needed(variables, size_name, self)?;
        if rank >= size {
            return Err(LauncherError::RankTooLarge { rank_name, rank, size_name, size });
        }
        // srun speaks PMI with some MPI libraries, and then says the rest as it always does.
        let is_by_srun = matches!(self, Self::Slurm | Self::Pmi) && variables("SLURM_STEP_ID").is_some();
        let (local_rank, local_size) = if is_by_srun {
            (optional(variables, "SLURM_LOCALID")?, slurm::tasks_on_node(variables))
        } else {
            (optional(variables, local_rank_name)?, optional(variables, local_size_name)?)
        };
        let local = local_rank.zip(local_size).map(|(rank, size)| Local { rank, size });
        if let Some(Local { rank, size }) = local.filter(|local| local.rank >= local.size) {
            return Err(LauncherError::RankTooLarge {
                rank_name: local_rank_name,
                rank,
                size_name: local_size_name,
                size,
            });
        }
        let master = self.master(variables, size, is_by_srun)?;
        Ok(Some(LaunchedProcess { launcher: self, rank, size, local, master }))
    }

    /// What MASTER_ADDR and MASTER_PORT say, or the first host of SLURM's list and a port that follows from the job's number.
    fn master(
        self,
        variables: &Variables<'_>,
        size: usize,
        is_by_srun: bool,
    ) -> Result<Option<Master>, LauncherError> {
        // torchrun keeps MASTER_PORT itself.
        let port = match optional(variables, "MASTER_PORT")? {
            None => None,
            Some(port) => Some(u16::try_from(port + 1).map_err(|_| LauncherError::Port { port })?),
        };
        if let Some(host) = variables("MASTER_ADDR") {
            let is_listed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if host.parse::<IpAddr>().is_err() && !host.bytes().all(is_listed) {
                return Err(LauncherError::Address { host });
            }
            return Ok(Some(Master { host, port }));
        }
        if self == Self::Torchrun && size > 1 {
            return Err(LauncherError::NoAddress);
        }
        let first = if is_by_srun { slurm::first_host(variables) } else { None };
        Ok(first.map(|host| Master { host, port: slurm::port(variables) }))
    }
}

fn needed(variables: &Variables<'_>, name: &'static str, launcher: Launcher) -> Result<usize, LauncherError> {
    optional(variables, name)?.ok_or(LauncherError::Missing { name, launcher: launcher.to_string() })
}

fn optional(variables: &Variables<'_>, name: &'static str) -> Result<Option<usize>, LauncherError> {
    let Some(text) = variables(name) else { return Ok(None) };
    // A sum with 1 is a number, too.
    let number = text.trim().parse::<usize>().ok().filter(|&number| number < usize::MAX);
    number.map(Some).ok_or(LauncherError::NoNumber { name, text })
}

#[cfg(test)]
mod tests;
