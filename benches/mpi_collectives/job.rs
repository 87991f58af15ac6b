//! What each of the processes measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::traits::{Communicator as _, CommunicatorCollectives};
use pipezero_comm::memory::{Allocator, Category};
use pipezero_comm::{CommError, Group};
use pipezero_run::world::{ProcessWorld, World};

pub(crate) const PIPEZERO: &str = "pipezero";
pub(crate) const LIBRARY: &str = "library";

pub(crate) const OPERATIONS: [&str; 2] = ["all-gather", "reduce-scatter"];
/// Bytes of the whole buffer.
pub(crate) const SIZES: [usize; 5] = [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26];

/// Bytes that are handled with each size, so that small operations are repeated often.
const ROUND_BYTES: usize = 1 << 28;
const NUM_REPEATS_MAX: usize = 500;

/// Times something as often as its size asks for, after once, and prints microseconds.
fn measure<E: std::fmt::Debug>(
    is_first: bool,
    num_bytes: usize,
    mut operation: impl FnMut() -> Result<(), E>,
) {
    operation().expect("processes that agree");
    let num_repeats = (ROUND_BYTES / num_bytes).clamp(1, NUM_REPEATS_MAX);
    let start = Instant::now();
    for _ in 0..num_repeats {
        operation().expect("processes that agree");
    }
    if is_first {
        println!("{:.3}", start.elapsed().as_secs_f64() * 1e6 / num_repeats as f64);
    }
}

pub(crate) fn measure_pipezero() {
    let world = ProcessWorld::of_mpi(Duration::from_secs(60), None).expect("a job");
    let rank = world.local_ranks().start;
    let mut comm = world.communicator(rank).expect("a queue of the host");
    let group = Group::new(0..comm.world_size());
    let allocator = Allocator::new(Arc::clone(comm.queue()), Arc::default());
    for operation in OPERATIONS {
        for num_bytes in SIZES {
            let mut buffer =
                allocator.zeros(num_bytes / 4, Category::Communication).expect("memory for a buffer");
            buffer.host_mut().fill(1.0);
            let mut buffer = Some(buffer);
            measure(rank == 0, num_bytes, || -> Result<(), CommError> {
                let own = buffer.take().expect("the last operation gave it back");
                let whole = 0..own.len();
                let pending = match operation {
                    "all-gather" => comm.start_all_gather(&group, own, whole)?,
                    _ => comm.start_reduce_scatter(&group, own, whole)?,
                };
                buffer = Some(pending.wait()?);
                Ok(())
            });
        }
    }
}

pub(crate) fn measure_library() {
    let universe = mpi::initialize().expect("a job");
    let world = universe.world();
    let (is_first, num_ranks) = (world.rank() == 0, world.size() as usize);
    for operation in OPERATIONS {
        for num_bytes in SIZES {
            let mut whole = vec![1.0_f32; num_bytes / 4];
            let mut part = vec![1.0_f32; num_bytes / 4 / num_ranks];
            measure(is_first, num_bytes, || -> Result<(), CommError> {
                match operation {
                    "all-gather" => world.all_gather_into(&part[..], &mut whole[..]),
                    _ => world.reduce_scatter_block_into(&whole[..], &mut part[..], SystemOperation::sum()),
                }
                Ok(())
            });
        }
    }
}
