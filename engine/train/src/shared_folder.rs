//! Whether processes see one run directory, or each host has its own.
//!
//! The process of rank 0 makes the directory. Other processes look under the same path for what it has written into the lock. Those that do not find it keep a
//! directory of their own, on a disk of their host; the first of them makes that, and the next look for it there, until each has one.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use pipezero_files::host::{self, may_be_shared};
use serde::{Deserialize, Serialize};

use super::error::TrainingError;
use super::run_dir::RunDir;
use super::run_dir_claim::Claim;
use super::run_dir_error::RunDirError;
use super::run_lock::RunLock;
use super::training::Training;

/// For how long a process looks for a folder on a disk that other hosts may see: such disks show new names late.
const LOOK_FOR: Duration = Duration::from_secs(60);
/// How long it waits before it looks again.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The run directory of a process.
#[derive(Debug)]
pub struct FoundDirectory {
    /// The directory.
    pub directory: RunDir,
    /// Hosts that have run directories of their own; none where all see that of rank 0.
    pub apart: Vec<String>,
}

/// A process, and whether it has found the folder that is looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Look {
    host: String,
    has_found: bool,
}

/// Which hosts have folders of their own.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Hosts {
    /// None, or all but that of rank 0.
    Apart(Vec<String>),
    /// Some do not see what others see.
    Mixed { seeing: Vec<String>, blind: Vec<String> },
}

impl Training {
    /// The run directory of each process, once that of rank 0 has made its own. A process that does not see it makes, and locks, a part of the run directory on its own
    /// host, with what is left there of an earlier run treated as `claim` says.
    ///
    /// # Errors
    /// When some other hosts see the directory and some do not, unless `checkpoint.per_host` allows it; when a folder cannot be made.
    pub fn find_directory(
        &mut self,
        own: Result<Option<RunDir>, TrainingError>,
        path: &Path,
        claim: Claim,
    ) -> Result<FoundDirectory, TrainingError> {
        let mut directory = self.engine.agree(own)?;
        if self.engine.has_all_ranks() {
            let directory = directory.unwrap_or_else(|| RunDir::written_elsewhere(path));
            return Ok(FoundDirectory { directory, apart: Vec::new() });
        }
        let mut apart = None;
        // The folder of rank 0 first.
        let mut maker = Some(0);
        while let Some(rank) = maker {
            let is_maker = self.engine.first_rank() == rank;
            if rank != 0 {
                let part = if is_maker { RunDir::part(path, claim).map(Some) } else { Ok(None) };
                directory = self.engine.agree(part.map_err(TrainingError::from))?.or(directory);
            }
            let own_sign = if is_maker { RunLock::sign_in(path) } else { None };
            let sign =
                self.engine.judged(&own_sign, |all| all.into_iter().flatten().next())?.unwrap_or_default();
            if directory.is_none() && finds_within_time(path, &sign) {
                directory = Some(RunDir::written_elsewhere(path));
            }
            let look = Look { host: host::name(), has_found: directory.is_some() };
            // This is decided by the first folder, that of rank 0.
            if apart.is_none() {
                let hosts = self.engine.judged(&look, |looks| hosts_apart(&looks))?;
                apart = Some(self.allowed(hosts, path)?);
            }
            maker = self.engine.first_process(directory.is_none())?;
        }
        let directory = directory.expect("the loop ends when every process has a folder");
        Ok(FoundDirectory { directory, apart: apart.unwrap_or_default() })
    }

    fn allowed(&self, hosts: Hosts, path: &Path) -> Result<Vec<String>, TrainingError> {
        match hosts {
            Hosts::Apart(hosts) => Ok(hosts),
            Hosts::Mixed { blind, .. } if self.plan().run().checkpoint.per_host => Ok(blind),
            Hosts::Mixed { seeing, blind } => {
                Err(RunDirError::NotOnAll { path: path.to_owned(), seeing, blind }.into())
            }
        }
    }
}

/// Whether a folder with what another process has written into its lock is found in time.
fn finds_within_time(path: &Path, sign: &str) -> bool {
    let begin = Instant::now();
    loop {
        if RunLock::sign_in(path).is_some_and(|found| found == sign) {
            return true;
        }
        if !may_be_shared(path) || begin.elapsed() > LOOK_FOR {
            return false;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Which hosts have folders of their own, as all processes have looked for that of the first.
fn hosts_apart(looks: &[Look]) -> Hosts {
    let first = looks.first().map(|look| look.host.clone()).unwrap_or_default();
    // Another process of the first host says nothing of other hosts' disks, unless it does not see the folder, as in a container.
    let others = || looks.iter().filter(|look| look.host != first || !look.has_found);
    let hosts = |has_found: bool| {
        let hosts = others().filter(|look| look.has_found == has_found).map(|look| look.host.clone());
        hosts.collect::<BTreeSet<String>>().into_iter().collect::<Vec<String>>()
    };
    let (seeing, blind) = (hosts(true), hosts(false));
    if seeing.is_empty() || blind.is_empty() { Hosts::Apart(blind) } else { Hosts::Mixed { seeing, blind } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_a_folder_or_all_have_their_own() {
        // A capital letter has found the folder.
        let judged = |looks: &str| {
            let look = |letter: char| Look {
                host: letter.to_ascii_lowercase().to_string(),
                has_found: letter.is_ascii_uppercase(),
            };
            hosts_apart(&looks.chars().map(look).collect::<Vec<_>>())
        };
        let names = |names: &str| -> Vec<String> { names.chars().map(|name| name.to_string()).collect() };
        for (looks, apart) in [
            ("AABB", ""),
            ("AAbb", "b"),
            ("AAbbcc", "bc"),
            ("Aabb", "ab"),
            ("Aa", "a"),
            ("AA", ""),
            ("AAbcbc", "bc"),
        ] {
            assert_eq!(judged(looks), Hosts::Apart(names(apart)), "{looks}");
        }
        for (looks, seeing, blind) in [("AABBcc", "b", "c"), ("AaBB", "b", "a"), ("ABb", "b", "b")] {
            assert_eq!(judged(looks), Hosts::Mixed { seeing: names(seeing), blind: names(blind) }, "{looks}");
        }
    }
}
