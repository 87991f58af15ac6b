//! What does an operation between the ranks of one process cost, next to a plain copy of as many bytes?
//!
//! ```text
//! cargo bench -p benches --bench collectives [-- OPERATION...]      all-gather, reduce-scatter, all-reduce, send; all if none is named
//! ```
//!
//! Operations follow one another, and the last rank to join carries each of them out, so at most one core works at a time.
//! `time` is that of one operation, from start to the end of the wait, as rank 0 sees it; `rate` is bytes that all ranks send
//! in it, per second; `copy` is the rate of copying a buffer of this size on one thread. Medians of five rounds. A send
//! exchanges the storage of two buffers, so its time is that of a meeting, whatever the size.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use benches::Samples;
use pipezero::comm::{Channel, CommError, Communicator, Group, Pending, ThreadCommunicator, ThreadWorld};
use pipezero::memory::{Bytes, Category, Ledger, Tagged};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const SIZES: [usize; 5] = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB];
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

    /// Bytes that all ranks send together.
    fn sent_bytes(self, num_ranks: usize, num_bytes: usize) -> usize {
        match self {
            Self::AllGather | Self::ReduceScatter => (num_ranks - 1) * num_bytes,
            Self::AllReduce => 2 * (num_ranks - 1) * num_bytes,
            Self::Send => num_bytes,
        }
    }

    fn run(self, comm: &mut ThreadCommunicator, group: &Group, buffer: Tagged) -> Result<Tagged, CommError> {
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
    // Cargo adds `--bench`.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let is_known = |name: &String| OPERATIONS.iter().any(|&(known, _)| known == name);
    if let Some(unknown) = wanted.iter().find(|name| !is_known(name)) {
        eprintln!(
            "`{unknown}` is not an operation; there are {}",
            OPERATIONS.map(|(name, _)| name).join(", ")
        );
        return ExitCode::FAILURE;
    }
    println!("{:<16}{:>6}{:>12}{:>14}{:>12}{:>12}", "operation", "ranks", "size", "time", "rate", "copy");
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|other| other == name);
    for (name, operation) in OPERATIONS.into_iter().filter(|&(name, _)| is_wanted(name)) {
        for &num_ranks in operation.group_sizes() {
            for num_bytes in SIZES {
                let time = time_of(operation, num_ranks, num_bytes);
                let rate = rate(operation.sent_bytes(num_ranks, num_bytes), time);
                let copy = rate_of_copy(num_bytes);
                let (size, time_us) = (Bytes(num_bytes as u64).to_string(), 1e6 * time.as_secs_f64());
                println!(
                    "{name:<16}{num_ranks:>6}{size:>12}{time_us:>11.1} us{rate:>7.1} GB/s{copy:>7.1} GB/s"
                );
            }
        }
    }
    ExitCode::SUCCESS
}

fn num_repeats(num_bytes: usize) -> usize {
    (ROUND_BYTES / num_bytes).clamp(1, NUM_REPEATS_MAX)
}

/// Time of one operation on buffers of `num_bytes`.
fn time_of(operation: Operation, num_ranks: usize, num_bytes: usize) -> Duration {
    let world = ThreadWorld::new(num_ranks, Duration::from_secs(60));
    let measured = OnceLock::new();
    std::thread::scope(|scope| {
        for rank in 0..num_ranks {
            let (world, measured) = (&world, &measured);
            scope.spawn(move || {
                let time = time_on_rank(operation, world.communicator(rank), num_bytes);
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
    mut comm: ThreadCommunicator,
    num_bytes: usize,
) -> Result<Duration, CommError> {
    let group = Group::new(0..comm.world_size());
    let mut buffer = Tagged::zeros(num_bytes / 4, Category::Communication, &Arc::<Ledger>::default())
        .expect("memory for a buffer");
    // Pages are there only once they are written.
    buffer.write(|values| values.fill(0.0));
    buffer = operation.run(&mut comm, &group, buffer)?;
    let mut rounds = Vec::with_capacity(NUM_ROUNDS);
    for _ in 0..NUM_ROUNDS {
        comm.all_reduce_words(&group, &mut [])?;
        let start = Instant::now();
        for _ in 0..num_repeats(num_bytes) {
            buffer = operation.run(&mut comm, &group, buffer)?;
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
