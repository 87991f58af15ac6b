//! A command on several processes, started again when ranks are lost.

use std::ffi::OsString;
use std::path::PathBuf;

use pipezero_files::host::LaunchedProcess;

use super::attempt::{self, Event};
use super::end::End;
use super::error::JobError;
use super::started::ConnectedBy;

/// A command of pipezero's as several processes of this host.
#[derive(Clone, Debug)]
pub struct Job {
    /// How many, at least one.
    pub num_processes: usize,
    /// What connects them.
    pub connected_by: ConnectedBy,
    /// How often they are started again after ranks were lost.
    pub max_restarts: u32,
    /// The program of each process.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Job {
    /// Runs it to its end. `num_signals` counts the signals that ask this process to end: the first ends the run after its step, the second
    /// at once. `tell` is told what happens.
    ///
    /// # Errors
    /// When the processes cannot be started, or the job makes no sense.
    pub fn run(&self, num_signals: &dyn Fn() -> usize, tell: &mut dyn FnMut(Event)) -> Result<End, JobError> {
        self.check(LaunchedProcess::this()?)?;
        for restart in 1.. {
            let command = (&*self.program, &*self.arguments);
            match attempt::run((self.connected_by, self.num_processes), command, num_signals, tell)? {
                End::Lost(lost) if restart <= self.max_restarts && num_signals() == 0 => {
                    tell(Event::Restarting { restart, max_restarts: self.max_restarts, lost });
                }
                end => return Ok(end),
            }
        }
        unreachable!("the last attempt ends the job")
    }

    fn check(&self, launched: Option<LaunchedProcess>) -> Result<(), JobError> {
        let max_restarts = self.max_restarts;
        if let Some(LaunchedProcess { launcher, .. }) = launched.filter(|launched| launched.size > 1) {
            return Err(JobError::Launched { launcher: launcher.to_string() });
        }
        if self.num_processes == 0 {
            return Err(JobError::NoProcess);
        }
        let is_resumed = self.arguments.iter().any(|argument| argument == "--resume")
            || self.arguments.first().is_some_and(|command| command == "resume");
        if max_restarts > 0 && !is_resumed {
            return Err(JobError::NotResumed { max_restarts });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_is_started() {
        let job = |num_processes, max_restarts, arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from).collect();
            let connected_by = ConnectedBy::Mpi;
            Job { num_processes, connected_by, max_restarts, program: "/nowhere/pipezero".into(), arguments }
        };
        assert!(matches!(job(0, 0, &["train"]).check(None), Err(JobError::NoProcess)));
        assert!(matches!(
            job(2, 3, &["train", "run.json"]).check(None),
            Err(JobError::NotResumed { max_restarts: 3 })
        ));
        assert!(job(2, 3, &["train", "run.json", "--resume"]).check(None).is_ok());
        assert!(job(2, 3, &["resume", "runs/run"]).check(None).is_ok());
        assert!(job(2, 0, &["train", "run.json"]).check(None).is_ok());
    }
}
