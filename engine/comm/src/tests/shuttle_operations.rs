//! What every operation does when all members join, many of them at once.

use std::time::Duration;

use pipezero_config::{Link, Links};
use shuttle::rand::{Rng, thread_rng};

use crate::memory::TrackedBuffer;
use crate::sync::testing::in_random_orders;
use crate::testing::{buffer, on_every_rank, ranks, values, while_time_passes};
use crate::{Channel, Communicator, Group, Started};

/// What a rank gives to a round, two elements for each member.
fn given(rank: usize, round: usize, size: usize) -> Vec<f32> {
    (0..2 * size).map(|index| (100 * rank + 10 * round + index) as f32).collect()
}

fn sum(ranks: &[usize], round: usize, size: usize) -> Vec<f32> {
    let of = |index| ranks.iter().map(|&rank| given(rank, round, size)[index]).sum();
    (0..2 * size).map(of).collect()
}

/// An operation that was started, with which of its elements come back, and as what.
type Issued = (Started, std::ops::Range<usize>, Vec<f32>);

/// One operation of each kind, over all ranks and from each rank to the next, each on a channel of its own.
fn start_all(comm: &mut dyn Communicator, round: usize) -> Vec<Issued> {
    let (rank, size) = (comm.rank(), comm.world_size());
    let (all, len) = (Group::new(0..size), 2 * size);
    let mine = || buffer(&given(rank, round, size));
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let pair = Group::new(if rank < 2 { 0..2 } else { rank..rank + 1 });
    let part = 2 * rank..2 * rank + 2;
    let sums = sum(all.ranks(), round, size);
    let gathered = (0..len).map(|index| given(index / 2, round, size)[index]).collect();
    vec![
        (comm.start_all_gather(&all, mine(), 0..len), 0..len, gathered),
        (comm.start_reduce_scatter(&all, mine(), 0..len), part.clone(), sums[part].to_vec()),
        (comm.start_all_reduce(&all, Channel::Tied, mine(), 0..len), 0..len, sums),
        (comm.start_send(next, rank as u32, mine()), 0..0, Vec::new()),
        (
            comm.start_receive(previous, previous as u32, buffer(&vec![0.0; len])),
            0..len,
            given(previous, round, size),
        ),
        (
            comm.start_all_reduce(&pair, Channel::Reduce, mine(), 0..len),
            0..len,
            sum(pair.ranks(), round, size),
        ),
    ]
}

fn part_of(buffer: &TrackedBuffer, range: std::ops::Range<usize>) -> Vec<f32> {
    values(buffer)[range].to_vec()
}

/// Two rounds in flight; what comes back is collected in a random order, and now and then is not.
fn run_rank(mut comm: Box<dyn Communicator>) {
    let (rank, size) = (comm.rank(), comm.world_size());
    let mut issued: Vec<Issued> = (0..2).flat_map(|round| start_all(&mut *comm, round)).collect();
    let mut sums = [rank as u64, 1];
    comm.all_reduce_words(&Group::new(0..size), &mut sums).unwrap();
    assert_eq!(sums, [(size * (size - 1) / 2) as u64, size as u64]);
    while !issued.is_empty() {
        let (started, range, expected) = issued.swap_remove(thread_rng().gen_range(0..issued.len()));
        let pending = started.unwrap();
        if thread_rng().gen_bool(0.1) {
            drop(pending);
        } else {
            assert_eq!(part_of(&pending.wait().unwrap(), range), expected);
        }
    }
    comm.finish().unwrap();
}

#[test]
fn every_operation_gives_every_member_what_it_should() {
    in_random_orders(3000, || {
        let size = thread_rng().gen_range(2..=4);
        on_every_rank(&ranks(size, Duration::from_secs(1), None), run_rank);
    });
}

#[test]
fn on_emulated_links_nothing_is_lost_however_time_passes() {
    let near = Link { latency: Duration::from_micros(3), bytes_per_s: 1e6 };
    let far = Link { latency: Duration::from_micros(30), bytes_per_s: 1e5 };
    in_random_orders(800, move || {
        let links = Links { ranks_per_node: 2, near, far, shared: thread_rng().gen_bool(0.5) };
        let threads = ranks(thread_rng().gen_range(2..=3), Duration::MAX, Some(links));
        while_time_passes(Duration::from_micros(700), || on_every_rank(&threads, run_rank));
    });
}
