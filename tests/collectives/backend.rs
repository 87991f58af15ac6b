//! What the conformance suite needs of a backend, and the backends that it is run on.

use std::sync::Arc;
use std::time::Duration;

use pipezero_comm::memory::{Allocator, Category, Ledger, TrackedBuffer};
use pipezero_comm::{Communicator, Group};
use pipezero_config::{Link, Links};
use pipezero_models::{ElementType, Host, Queue};
use pipezero_run::world::{ThreadWorld, World};

/// A backend under test.
pub(super) trait Backend {
    /// Runs `body` on every rank of a world of `world_size` ranks in which no wait is longer than `timeout`. The second
    /// argument of `body` stops the world, as the engine does when a rank fails.
    fn run(world_size: usize, timeout: Duration, body: impl Fn(Box<dyn Communicator>, &dyn Fn()) + Sync);
}

/// Ranks are threads of this process; on shaped links every message is a little late.
#[derive(Debug)]
pub(super) struct OnThreads<const SHAPED: bool>;
pub(super) type Threads = OnThreads<false>;
pub(super) type Shaped = OnThreads<true>;

impl<const SHAPED: bool> Backend for OnThreads<SHAPED> {
    fn run(world_size: usize, timeout: Duration, body: impl Fn(Box<dyn Communicator>, &dyn Fn()) + Sync) {
        let links = Links {
            ranks_per_node: 2,
            near: Link { latency: Duration::from_micros(3), bytes_per_s: 1e9 },
            far: Link { latency: Duration::from_micros(30), bytes_per_s: 1e8 },
            shared: true,
        };
        run(&ThreadWorld::new(world_size, timeout, SHAPED.then_some(links)), world_size, body);
    }
}

/// Each rank is a process of the job that runs the suite, of which smaller worlds use the first ones.
#[cfg(feature = "mpi")]
#[derive(Debug)]
pub(super) struct Mpi;

#[cfg(feature = "mpi")]
impl Backend for Mpi {
    fn run(world_size: usize, timeout: Duration, body: impl Fn(Box<dyn Communicator>, &dyn Fn()) + Sync) {
        if let Some(world) =
            pipezero_run::world::ProcessWorld::of_first_of_mpi(world_size, timeout, None).expect("a job")
        {
            let _guard = tests::EndOnPanic;
            let rank = world.local_ranks().start;
            body(world.communicator(rank).expect("a queue of the host"), &|| world.stop());
            // A rank that waits for one which has left is interrupted; where it is to wait in vain, nobody leaves.
            if timeout < LONG {
                std::mem::forget(world);
            }
        }
    }
}

/// Runs `body` on every rank of a world.
pub(super) fn run(
    world: &dyn World,
    world_size: usize,
    body: impl Fn(Box<dyn Communicator>, &dyn Fn()) + Sync,
) {
    std::thread::scope(|scope| {
        for rank in 0..world_size {
            let body = &body;
            scope.spawn(move || {
                let _guard = StopOnPanic(world);
                body(world.communicator(rank).expect("a queue of the host"), &|| world.stop());
            });
        }
    });
}

/// A rank whose assertion fails stops the others, so that they do not wait for it.
struct StopOnPanic<'a>(&'a dyn World);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Far longer than any operation takes, so that only a hang runs into it.
pub(super) const LONG: Duration = Duration::from_secs(60);

/// Runs `body` with 1 to 5 ranks.
pub(super) fn on_every_world<B: Backend>(body: impl Fn(Box<dyn Communicator>) + Sync) {
    for world_size in 1..=5 {
        B::run(world_size, LONG, |comm, _| body(comm));
    }
}

/// The group of all ranks.
pub(super) fn world(comm: &dyn Communicator) -> Group {
    Group::new(0..comm.world_size())
}

/// Returns when every rank has called it.
pub(super) fn barrier(comm: &mut dyn Communicator) {
    let group = world(comm);
    comm.all_reduce_words(&group, &mut []).expect("every rank joins the barrier");
}

/// A buffer with these elements.
pub(super) fn buffer(values: &[f32]) -> TrackedBuffer {
    charged(values, &Arc::default())
}

/// A buffer with these elements, charged to this ledger.
pub(super) fn charged(values: &[f32], ledger: &Arc<Ledger>) -> TrackedBuffer {
    let mut buffer = zeros(values.len(), ElementType::F32, ledger);
    buffer.host_mut().copy_from_slice(values);
    buffer
}

fn zeros(len: usize, element_type: ElementType, ledger: &Arc<Ledger>) -> TrackedBuffer {
    let memory = Allocator::new(Arc::new(Host), Arc::clone(ledger));
    memory.zeros_of(len, element_type, Category::Communication).expect("memory")
}

pub(super) const ELEMENT_TYPES: [ElementType; 3] = [ElementType::F32, ElementType::Bf16, ElementType::F16];

/// A buffer of a type with these elements, rounded to it.
pub(super) fn buffer_of(element_type: ElementType, values: &[f32]) -> TrackedBuffer {
    let mut narrow = zeros(values.len(), element_type, &Arc::default());
    Host.copy(buffer(values).view(), narrow.view_mut());
    narrow
}

/// The elements of a buffer of any type.
pub(super) fn widened(narrow: &TrackedBuffer) -> Vec<f32> {
    let mut wide = buffer(&vec![0.0; narrow.len()]);
    Host.copy(narrow.view(), wide.view_mut());
    wide.host().to_vec()
}

/// `len` elements of a rank that every type holds exactly.
pub(super) fn marks(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|index| ((rank * 53 + index * 7) % 251) as f32).collect()
}

/// `len` elements of a rank. Their magnitudes range over eight decades, so that a sum in another order has other bits.
pub(super) fn values(rank: usize, len: usize) -> Vec<f32> {
    let value = |index: usize| {
        let mixed = (rank * 7919 + index * 104_729 + 1).wrapping_mul(2_654_435_761) % 1_000_003;
        let sign = if mixed.is_multiple_of(2) { 1.0 } else { -1.0 };
        sign * (mixed as f32 / 1e5) * 10_f32.powi((mixed % 9) as i32 - 4)
    };
    (0..len).map(value).collect()
}

/// Bits of elements, so that comparisons are exact.
pub(super) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The plain loop that every reduction must equal: ranks ascending, `((r0 + r1) + r2) + ...`.
pub(super) fn sum_in_rank_order(ranks: &[usize], len: usize) -> Vec<f32> {
    let mut sums = values(ranks[0], len);
    for &rank in &ranks[1..] {
        sums.iter_mut().zip(values(rank, len)).for_each(|(sum, value)| *sum += value);
    }
    sums
}
