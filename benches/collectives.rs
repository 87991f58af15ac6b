//! What does an operation between the ranks of one process cost, next to a plain copy of as many bytes?
//!
//! ```text
//! cargo bench -p benches --bench collectives [-- OPERATION...]      all-gather, reduce-scatter, all-reduce, send; all if none is named
//! ```
//!
//! Operations follow one another, and the last rank to join carries each of them out, so at most one core works at a time.
//! Medians of five rounds, as rank 0 sees them, from start to the end of the wait. A row is one of two kinds:
//! - a small operation, or a send, which exchanges the storage of two buffers: its time is that of a rendezvous, the `latency`;
//! - a large one: bytes that each rank sends, per second, beside the rate of copying a buffer of this size on one thread.

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use benches::Samples;
use pipezero_comm::memory::{Allocator, Category, TrackedBuffer};
use pipezero_comm::{Channel, CommError, Communicator, Group};
use pipezero_plan::Bytes;
use pipezero_run::world::{ThreadWorld, World};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const SIZES: [usize; 5] = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB];

/// Up to here an operation is small: copying takes a part of its time that does not matter.
const SMALL_BYTES: usize = 4 * KIB;
const NUM_ROUNDS: usize = 5;

/// Bytes that a round handles, so that small operations are repeated until the clock's steps do not matter.
const ROUND_BYTES: usize = 32 * MIB;
const NUM_REPEATS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    AllGather,
    ReduceScatter,
    AllReduce,
    Send,
}

const OPERATIONS: [(&str, Operation); 4] = [
    ("all-gather", Operation::AllGather),
    ("reduce-scatter", Operation::ReduceScatter),
    ("all-reduce", Operation::AllReduce),
    ("send", Operation::Send),
];

impl Operation {
    fn group_sizes(self) -> &'static [usize] {
        match self {
            Self::Send => &[2],
            Self::AllGather | Self::ReduceScatter | Self::AllReduce => &[2, 4],
        }
    }

    /// Bytes that each rank sends: a shard to every peer, or one way after the other in an all-reduce. None if nothing is
    /// copied, or too little to tell.
    fn sent_bytes(self, num_ranks: usize, num_bytes: usize) -> Option<usize> {
        let one_way = (num_ranks - 1) * num_bytes / num_ranks;
        let sent_bytes = match self {
            Self::AllGather | Self::ReduceScatter => Some(one_way),
            Self::AllReduce => Some(2 * one_way),
            Self::Send => None,
        };
        sent_bytes.filter(|_| num_bytes > SMALL_BYTES)
    }

    fn run(
        self,
        comm: &mut dyn Communicator,
        group: &Group,
        buffer: TrackedBuffer,
    ) -> Result<TrackedBuffer, CommError> {
        let whole = 0..buffer.len();
        match self {
            Self::AllGather => comm.start_all_gather(group, buffer, whole)?.wait(),
            Self::ReduceScatter => comm.start_reduce_scatter(group, buffer, whole)?.wait(),
            Self::AllReduce => comm.start_all_reduce(group, Channel::Reduce, buffer, whole)?.wait(),
            Self::Send if comm.rank() == 0 => comm.start_send(1, 0, buffer)?.wait(),
            Self::Send => comm.start_receive(0, 0, buffer)?.wait(),
        }
    }
}

fn main() -> ExitCode {
    benches::exit_code(measure_all())
}

fn measure_all() -> Result<bool, Box<dyn Error>> {
    let chosen = benches::chosen(&OPERATIONS.map(|(name, _)| name))?;
    println!(
        "{:<16}{:>6}{:>12}{:>12}{:>15}{:>12}",
        "operation", "ranks", "bytes", "latency", "GB/s per rank", "copy, GB/s"
    );
    for (name, operation) in OPERATIONS.into_iter().filter(|(name, _)| chosen.contains(name)) {
        for &num_ranks in operation.group_sizes() {
            SIZES.iter().for_each(|&num_bytes| print_row(name, operation, num_ranks, num_bytes));
        }
    }
    Ok(true)
}

fn print_row(name: &str, operation: Operation, num_ranks: usize, num_bytes: usize) {
    let time = time_of(operation, num_ranks, num_bytes);
    let (latency, per_rank, copy) = match operation.sent_bytes(num_ranks, num_bytes) {
        Some(sent_bytes) => {
            let rates = [rate(sent_bytes, time), rate_of_copy(num_bytes)];
            let [sent, copied] = rates.map(|rate| format!("{rate:.1}"));
            ("-".to_owned(), sent, copied)
        }
        None => (format!("{:.1} us", 1e6 * time.as_secs_f64()), "-".to_owned(), "-".to_owned()),
    };
    let size = Bytes(num_bytes as u64).to_string();
    println!("{name:<16}{num_ranks:>6}{size:>12}{latency:>12}{per_rank:>15}{copy:>12}");
}

fn num_repeats(num_bytes: usize) -> usize {
    (ROUND_BYTES / num_bytes).clamp(1, NUM_REPEATS_MAX)
}

/// Time of one operation on buffers of `num_bytes`.
fn time_of(operation: Operation, num_ranks: usize, num_bytes: usize) -> Duration {
    let world = ThreadWorld::new(num_ranks, Duration::from_secs(60), None);
    let measured = OnceLock::new();
    std::thread::scope(|scope| {
        for rank in 0..num_ranks {
            let (world, measured) = (&world, &measured);
            scope.spawn(move || {
                let comm = world.communicator(rank).expect("a queue of the host");
                let time = time_on_rank(operation, comm, num_bytes);
                if rank == 0 {
                    measured.get_or_init(|| time.expect("nothing goes wrong between ranks that agree"));
                }
            });
        }
    });
    measured.into_inner().expect("rank 0 has measured")
}

fn time_on_rank(
    operation: Operation,
    mut comm: Box<dyn Communicator>,
    num_bytes: usize,
) -> Result<Duration, CommError> {
    let group = Group::new(0..comm.world_size());
    let mut buffer = Allocator::new(Arc::clone(comm.queue()), Arc::default())
        .zeros(num_bytes / 4, Category::Communication)
        .expect("memory for a buffer");
    // Pages are there only once they are written.
    buffer.host_mut().fill(0.0);
    buffer = operation.run(&mut *comm, &group, buffer)?;
    let mut rounds = Vec::with_capacity(NUM_ROUNDS);
    for _ in 0..NUM_ROUNDS {
        comm.all_reduce_words(&group, &mut [])?;
        let start = Instant::now();
        for _ in 0..num_repeats(num_bytes) {
            buffer = operation.run(&mut *comm, &group, buffer)?;
        }
        rounds.push(start.elapsed() / num_repeats(num_bytes) as u32);
    }
    Ok(Samples::new(rounds).median())
}

/// The yardstick, in GB/s.
fn rate_of_copy(num_bytes: usize) -> f64 {
    let from = vec![1_u8; num_bytes];
    // Half a page further, since some cores copy ten times slower to a place that is a little behind in its page.
    let shift = 2 * KIB;
    let mut to = vec![1_u8; num_bytes + shift];
    let rounds = (0..NUM_ROUNDS).map(|_| {
        let start = Instant::now();
        for _ in 0..num_repeats(num_bytes) {
            black_box(&mut to[shift..]).copy_from_slice(black_box(&from));
        }
        start.elapsed() / num_repeats(num_bytes) as u32
    });
    rate(num_bytes, Samples::new(rounds.collect()).median())
}

/// GB/s.
fn rate(num_bytes: usize, time: Duration) -> f64 {
    num_bytes as f64 / 1e9 / time.as_secs_f64()
}
