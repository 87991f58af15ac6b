//! What does an operation between processes cost, next to the MPI library's own all-gather and reduce-scatter?
//!
//! ```text
//! cargo bench -p benches --features mpi --bench mpi_collectives
//! ```
//!
//! Starts itself with `mpirun` on two processes, once with pipezero's communicator and once with the library's collectives, in turn, and
//! prints for each size the median of the rounds, and the library's time over pipezero's. Both keep every process busy with nothing else.
//! The library adds in an order of its own; pipezero adds in ascending rank order.

mod job;

use std::error::Error;
use std::process::{Command, ExitCode};

use benches::Samples;
use job::{OPERATIONS, SIZES};
use pipezero_plan::Bytes;

const NUM_ROUNDS: usize = 5;

fn main() -> ExitCode {
    let arguments = benches::arguments();
    match arguments.first().map(String::as_str) {
        Some(job::PIPEZERO) => job::measure_pipezero(),
        Some(job::LIBRARY) => job::measure_library(),
        _ => return benches::exit_code(compare()),
    }
    ExitCode::SUCCESS
}

/// Microseconds of each operation and size, by the order of [`OPERATIONS`] and [`SIZES`].
fn round(of: &str) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut mpirun = Command::new("mpirun");
    mpirun.args(["-n", "2", "--oversubscribe"]).arg(std::env::current_exe()?).arg(of);
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = mpirun.output()?;
    let printed = String::from_utf8(output.stdout)?;
    let times: Vec<f64> = printed.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    if times.len() != OPERATIONS.len() * SIZES.len() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(times)
}

fn compare() -> Result<bool, Box<dyn Error>> {
    let (mut own, mut library) = (Vec::new(), Vec::new());
    for _ in 0..NUM_ROUNDS {
        own.push(round(job::PIPEZERO)?);
        library.push(round(job::LIBRARY)?);
    }
    println!("{:<16}{:>12}{:>14}{:>14}{:>10}", "operation", "bytes", "pipezero, us", "library, us", "ratio");
    for (index, operation) in OPERATIONS.iter().enumerate() {
        for (place, &num_bytes) in SIZES.iter().enumerate() {
            let place = index * SIZES.len() + place;
            let median = |rounds: &[Vec<f64>]| {
                let times = rounds.iter().map(|times| std::time::Duration::from_secs_f64(times[place] / 1e6));
                Samples::new(times.collect()).median().as_secs_f64() * 1e6
            };
            let (own, library) = (median(&own), median(&library));
            let size = Bytes(num_bytes as u64).to_string();
            println!("{operation:<16}{size:>12}{own:>14.1}{library:>14.1}{:>10.2}", library / own);
        }
    }
    Ok(true)
}
