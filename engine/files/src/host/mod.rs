//! The name, the processor, the cores and the memory of this host, all of it and what is left, and what of it this process occupies; what is left on
//! its disks, and what limits the system sets to this process;
//! what a launcher says of the process, what the process says to `pipezero launch`, and the secret of its job.

mod control_groups;
pub mod cores;
mod disk;
pub mod job_files;
mod job_secret;
mod launcher;
mod limits;
mod machine;
mod memory;
pub mod name;
mod own_folder;

pub use disk::{free_bytes, free_files, may_be_shared};
pub use job_secret::{JobSecret, random};
pub use launcher::LauncherError;
pub use launcher::Master;
pub use launcher::{LaunchedProcess, Launcher, Local, variables_in_force};
pub use limits::{Limit, LimitError, signal_before_processor_time_ends};
pub use machine::{cpu_model, host_cores, system};
pub use memory::{MemoryLeft, available_bytes, memories_left, memory_bytes, resident_bytes};
pub use name::{name, unique_sign};
pub use own_folder::OwnFolder;
