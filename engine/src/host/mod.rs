//! The name, the processor, the cores and the memory of this host, all of it and what is left, and what of it this process occupies; what is left on
//! its disks;
//! what a launcher says of the process, and what the process says to `pipezero launch`.

pub(crate) mod cores;
mod disk;
pub(crate) mod job_files;
mod launcher;
mod machine;
mod memory;
mod name;

pub(crate) use disk::free_bytes;
pub use launcher::LaunchError;
pub(crate) use launcher::Master;
pub(crate) use launcher::{Launched, Launcher, Local, variables_in_force};
pub(crate) use machine::{cpu_model, host_cores, system};
pub(crate) use memory::{available_bytes, memory_bytes, resident_bytes};
pub(crate) use name::name;
