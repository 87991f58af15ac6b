//! Starts a command as several processes of this host, ends what is left of them when a rank has failed, and starts them again.
//!
//! Processes that Open MPI connects are started by `mpirun`, under the options that let the others live when one dies: pipezero's own ranks
//! notice, report and end. But then `mpirun` neither ends a process that is frozen nor says how one ended. So each process leaves a file
//! that says how it ends (`statuses.rs`), and once one has failed, those that are left a while later are ended (`attempt.rs`). Processes that NCCL
//! connects are started here (`started.rs`). All of them end if this process is lost (`parent.rs`).

mod attempt;
mod end;
mod error;
mod idle_mpirun;
mod job;
mod mpirun;
mod parent;
mod processes;
mod seen_processes;
mod started;
mod statuses;

pub use attempt::Event;
pub use end::{End, Lost};
pub use error::JobError;
pub use job::Job;
pub use parent::end_with_parent;
pub use started::ConnectedBy;
