//! Emulated links: which operation waits for which, tested without a clock. Links here take an hour or no time, and no wait
//! may last longer than a minute, so an operation that waits for a slow one is refused at once and any other completes at once.

use std::time::Duration;

use pipezero_comm::memory::TrackedBuffer;
use pipezero_comm::{Channel, CommError, Communicator, Group, Pending};
use pipezero_config::{Link, Links};
use pipezero_run::world::ThreadWorld;

use super::backend::{LONG, barrier, bits, buffer, run, values};

const HOUR: Duration = Duration::from_secs(3600);

/// Messages arrive at once, however large.
const INSTANT: Link = Link { latency: Duration::ZERO, bytes_per_s: f64::INFINITY };

/// An element occupies the link for more than an hour; a message without one passes at once.
const CROWDED: Link = Link { latency: Duration::ZERO, bytes_per_s: 1e-3 };

/// Messages are late by an hour, however small.
const DISTANT: Link = Link { latency: HOUR, bytes_per_s: f64::INFINITY };

/// Two ranks to a node, a link for each lane.
fn links(near: Link, far: Link) -> Links {
    Links { ranks_per_node: 2, near, far, shared: false }
}

fn on(links: Links, world_size: usize, body: impl Fn(Box<dyn Communicator>) + Sync) {
    run(&ThreadWorld::new(world_size, LONG, Some(links)), world_size, |comm, _| body(comm));
}

/// Whether an operation arrives later than any wait may last; otherwise it completes.
fn is_late(pending: Box<dyn Pending>) -> bool {
    match pending.wait() {
        Ok(_) => false,
        Err(CommError::TooSlow { .. }) => true,
        Err(other) => panic!("{other}"),
    }
}

fn both() -> Group {
    Group::new([0, 1])
}

fn elements(len: usize) -> TrackedBuffer {
    buffer(&vec![0.0; len])
}

#[test]
fn a_message_that_comes_too_late_for_any_wait_is_refused_by_name() {
    on(links(DISTANT, INSTANT), 2, |mut comm| {
        let pending = comm.start_all_gather(&both(), elements(4), 0..4).unwrap();
        match pending.wait() {
            Err(error @ CommError::TooSlow { .. }) => {
                let text = error.to_string();
                assert!(
                    text.starts_with("an all-gather of elements 0..4 between ranks 0 and 1 arrives 3"),
                    "{text}"
                );
                assert!(text.contains("no wait is longer than 60.0s: raise the timeout"), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(comm.all_reduce_words(&both(), &mut [1]), Err(CommError::TooSlow { .. })));
    });
}

#[test]
fn every_operation_is_delayed() {
    on(links(DISTANT, INSTANT), 2, |mut comm| {
        let group = both();
        let other = 1 - comm.rank();
        let (here, there) = (comm.rank() as u32, other as u32);
        let sent = comm.start_send(other, here, elements(4)).unwrap();
        for pending in [
            comm.start_all_gather(&group, elements(4), 0..4).unwrap(),
            comm.start_reduce_scatter(&group, elements(4), 0..4).unwrap(),
            comm.start_all_reduce(&group, Channel::Reduce, elements(4), 0..4).unwrap(),
            comm.start_all_reduce(&group, Channel::Tied, elements(4), 0..4).unwrap(),
            comm.start_receive(other, there, elements(4)).unwrap(),
        ] {
            assert!(is_late(pending));
        }
        drop(sent);
    });
}

#[test]
fn a_sender_waits_for_the_link_and_not_for_the_latency() {
    for (link, waits) in [(DISTANT, false), (CROWDED, true)] {
        on(links(link, INSTANT), 2, |mut comm| match comm.rank() {
            0 => assert_eq!(is_late(comm.start_send(1, 0, elements(4)).unwrap()), waits),
            _ => assert!(is_late(comm.start_receive(0, 0, elements(4)).unwrap())),
        });
    }
}

#[test]
fn what_stays_on_a_rank_is_not_delayed() {
    on(links(DISTANT, DISTANT), 2, |mut comm| {
        let alone = Group::new([comm.rank()]);
        assert!(!is_late(comm.start_all_gather(&alone, elements(4), 0..4).unwrap()));
        assert!(!is_late(comm.start_all_reduce(&alone, Channel::Tied, elements(4), 0..4).unwrap()));
        comm.all_reduce_words(&alone, &mut [1]).unwrap();
    });
}

#[test]
fn only_ranks_of_several_nodes_use_far_links() {
    on(links(INSTANT, DISTANT), 4, |mut comm| {
        let rank = comm.rank();
        let node = Group::new([rank / 2 * 2, rank / 2 * 2 + 1]);
        let across = Group::new([rank % 2, rank % 2 + 2]);
        let far = comm.start_all_gather(&across, elements(4), 0..4).unwrap();
        assert!(!is_late(comm.start_all_gather(&node, elements(4), 0..4).unwrap()));
        assert!(is_late(far));
    });
}

#[test]
fn bytes_hold_up_the_next_message_on_their_link() {
    // What comes after a large message on the same link is as late, even if it is waited for first.
    on(links(CROWDED, INSTANT), 2, |mut comm| {
        let before = comm.start_all_gather(&both(), elements(4), 0..0).unwrap();
        let large = comm.start_all_gather(&both(), elements(4), 0..4).unwrap();
        let after = comm.start_all_gather(&both(), elements(4), 0..0).unwrap();
        assert!(is_late(after));
        assert!(is_late(large));
        assert!(!is_late(before));
    });
    // A transfer's bytes are those of its payload; each direction is a link of its own.
    on(links(CROWDED, INSTANT), 2, |mut comm| {
        let rank = comm.rank();
        let transfer = |comm: &mut dyn Communicator, from: usize, len: usize| match rank == from {
            true => comm.start_send(1 - from, from as u32, elements(len)).unwrap(),
            false => comm.start_receive(from, from as u32, elements(len)).unwrap(),
        };
        let large = transfer(&mut *comm, 0, 4);
        assert!(!is_late(transfer(&mut *comm, 1, 0)));
        assert!(is_late(transfer(&mut *comm, 0, 0)));
        assert!(is_late(large));
    });
}

#[test]
fn gathers_and_reductions_wait_for_each_other_only_on_a_shared_link() {
    for shared in [false, true] {
        on(Links { shared, ..links(CROWDED, INSTANT) }, 2, |mut comm| {
            let large = comm.start_all_gather(&both(), elements(4), 0..4).unwrap();
            let reduced = comm.start_reduce_scatter(&both(), elements(4), 0..0).unwrap();
            let sum = comm.start_all_reduce(&both(), Channel::Reduce, elements(4), 0..0).unwrap();
            let tied = comm.start_all_reduce(&both(), Channel::Tied, elements(4), 0..0).unwrap();
            assert_eq!([reduced, sum, tied, large].map(is_late), [shared, shared, false, true]);
            // The words at the end of a step have a link of their own.
            barrier(&mut *comm);
        });
    }
}

/// The wait is allowed to last longer than the delay, so it sleeps until the stop.
#[test]
fn a_stop_ends_the_sleep_and_hands_over_what_was_exchanged() {
    let world = ThreadWorld::new(4, 24 * HOUR, Some(links(DISTANT, INSTANT)));
    run(&world, 4, |mut comm, stop| {
        let rank = comm.rank();
        // Ranks 0 and 1 are near, so their gather is in flight for an hour.
        let pending =
            (rank < 2).then(|| comm.start_all_gather(&both(), buffer(&values(rank, 2)), 0..2).unwrap());
        // The barrier reaches over both nodes, so it is not delayed.
        barrier(&mut *comm);
        if rank == 3 {
            stop();
        }
        if let Some(pending) = pending {
            let expected = [values(0, 2)[0], values(1, 2)[1]];
            assert_eq!(bits(pending.wait().unwrap().host()), bits(&expected));
            assert_eq!(comm.all_reduce_words(&both(), &mut [1]), Err(CommError::Stopped));
        }
    });
}

#[test]
fn an_abandoned_message_still_occupies_its_link() {
    on(links(CROWDED, INSTANT), 2, |mut comm| {
        drop(comm.start_all_gather(&both(), elements(4), 0..4).unwrap());
        assert!(is_late(comm.start_all_gather(&both(), elements(4), 0..0).unwrap()));
    });
}
