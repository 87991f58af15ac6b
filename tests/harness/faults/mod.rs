//! A job of six processes with a rank each, one of which fails: how, and what the others write about it.

mod failing;
mod fault;
mod written;

use std::env;
use std::path::PathBuf;
use std::time::Duration;

pub use failing::error_of;
pub use fault::{Fault, Kind};
pub use written::{
    FAILED_AT, Written, check_report, note_failure, now_ns, ranks_in, reports_in, since_failure, write_report,
};

/// In the environment of the processes: the fault.
pub const FAULT: &str = "PIPEZERO_TEST_FAULT";
/// The folder in which they write what they see.
pub const FOLDER: &str = "PIPEZERO_TEST_FOLDER";
/// In it: the weights, if all ranks were there to save them.
pub const WEIGHTS: &str = "weights.safetensors";
/// Ranks of the job: pipeline 3 x data 2.
pub const NUM_RANKS: usize = 6;
/// A rank of the first, the middle and the last stage.
pub const RANKS: [usize; 3] = [0, 3, 4];
/// No wait of the run is longer.
pub const TIMEOUT_S: u64 = 3;
/// Ranks may take so long beside that to have their report.
pub const TIME_FOR_REPORT: Duration = Duration::from_secs(2);

/// In a process of the job: the fault, and the folder.
///
/// # Panics
/// In any other process.
pub fn fault_and_folder() -> (Fault, PathBuf) {
    let fault = env::var(FAULT).expect("a fault").parse().expect("a fault");
    (fault, PathBuf::from(env::var_os(FOLDER).expect("a folder")))
}
