//! What every operation does when something is wrong.

use std::ops::Range;
use std::time::Duration;

use pipezero_comm::memory::TrackedBuffer;
use pipezero_comm::{Channel, CommError, Communicator, Group, Started};
use pipezero_models::ElementType;

use super::backend::{
    Backend, LONG, barrier, bits, buffer, buffer_of, on_every_world, sum_in_rank_order, values, world,
};

/// A sum over the world that every rank joins: it goes wrong if a refused operation left a trace.
fn assert_unharmed(comm: &mut dyn Communicator, channel: Channel) {
    let group = world(comm);
    let len = 2 * group.size();
    let sum = comm.start_all_reduce(&group, channel, buffer(&values(comm.rank(), len)), 0..len);
    assert_eq!(bits(sum.unwrap().wait().unwrap().host()), bits(&sum_in_rank_order(group.ranks(), len)));
}

fn error(started: Started) -> CommError {
    started.expect_err("the start is refused")
}

/// Why each collective is refused for a range of such buffers.
fn refused(
    comm: &mut dyn Communicator,
    elements: impl Fn() -> TrackedBuffer,
    range: Range<usize>,
) -> [CommError; 3] {
    let group = world(comm);
    [
        error(comm.start_reduce_scatter(&group, elements(), range.clone())),
        error(comm.start_all_reduce(&group, Channel::Reduce, elements(), range.clone())),
        error(comm.start_all_gather(&group, elements(), range)),
    ]
}

pub(super) fn what_has_no_equal_parts_is_refused_before_any_traffic<B: Backend>() {
    for world_size in 2..=5 {
        B::run(world_size, LONG, |mut comm, _| {
            let (group_size, num_elements) = (world_size, 2 * world_size + 1);
            // Only one rank tries, so no other could join it.
            if comm.rank() == 0 {
                for error in refused(&mut *comm, || buffer(&vec![0.0; num_elements]), 0..num_elements) {
                    assert_eq!(error, CommError::Indivisible { num_elements, group_size });
                }
            }
            assert_unharmed(&mut *comm, Channel::Gather);
            assert_unharmed(&mut *comm, Channel::Reduce);
        });
    }
}

pub(super) fn what_reaches_beyond_its_buffer_is_refused_before_any_traffic<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (start, end, len) = (2, 2 + comm.world_size(), 1 + comm.world_size());
        if comm.rank() == 0 {
            for error in refused(&mut *comm, || buffer(&vec![0.0; len]), start..end) {
                assert_eq!(error, CommError::OutOfRange { start, end, len });
            }
        }
        assert_unharmed(&mut *comm, Channel::Gather);
        assert_unharmed(&mut *comm, Channel::Reduce);
    });
}

pub(super) fn sums_of_narrow_elements_are_refused_before_any_traffic<B: Backend>() {
    on_every_world::<B>(|mut comm| {
        let (group, len) = (world(&*comm), comm.world_size());
        if comm.rank() == 0 {
            for element_type in [ElementType::Bf16, ElementType::F16] {
                let elements = || buffer_of(element_type, &vec![1.0; len]);
                for error in [
                    error(comm.start_reduce_scatter(&group, elements(), 0..len)),
                    error(comm.start_all_reduce(&group, Channel::Reduce, elements(), 0..len)),
                ] {
                    assert_eq!(error, CommError::NotSummed { element_type });
                }
            }
        }
        assert_unharmed(&mut *comm, Channel::Reduce);
    });
}

pub(super) fn ranks_outside_the_group_or_world_are_refused_before_any_traffic<B: Backend>() {
    B::run(3, LONG, |mut comm, _| {
        let rank = comm.rank();
        let elements = || buffer(&[0.0; 6]);
        if rank == 0 {
            let others = Group::new([1, 2]);
            let expected = CommError::NotAMember { rank: 0, group: vec![1, 2] };
            assert_eq!(error(comm.start_all_gather(&others, elements(), 0..6)), expected);
            assert_eq!(comm.all_reduce_words(&others, &mut [1]), Err(expected));
            let unknown = CommError::UnknownRank { rank: 3, world_size: 3 };
            assert_eq!(error(comm.start_reduce_scatter(&Group::new([0, 3]), elements(), 0..6)), unknown);
            assert_eq!(error(comm.start_send(3, 0, elements())), unknown);
            assert_eq!(error(comm.start_receive(3, 0, elements())), unknown);
            assert_eq!(error(comm.start_send(0, 0, elements())), CommError::ToItself { rank: 0 });
            assert_eq!(error(comm.start_receive(0, 0, elements())), CommError::ToItself { rank: 0 });
            let beyond = CommError::OutOfRange { start: 0, end: 7, len: 6 };
            assert_eq!(error(comm.start_send_first(1, 0, elements(), 7)), beyond);
            assert_eq!(error(comm.start_receive_first(1, 0, elements(), 7)), beyond);
        }
        assert_unharmed(&mut *comm, Channel::Reduce);
    });
}

/// Rank 0 starts `first` and after it rank 1 starts `second`: both get the error, in the start or in the wait.
fn assert_mismatch<B: Backend>(
    first: impl Fn(&mut dyn Communicator) -> Started + Sync,
    second: impl Fn(&mut dyn Communicator) -> Started + Sync,
    words: [&str; 2],
) {
    B::run(2, LONG, |mut comm, _| {
        let outcome = if comm.rank() == 0 {
            let started = first(&mut *comm);
            barrier(&mut *comm);
            started.and_then(|pending| pending.wait())
        } else {
            barrier(&mut *comm);
            second(&mut *comm).and_then(|pending| pending.wait())
        };
        let [expected, operation] = words.map(str::to_owned);
        assert_eq!(outcome.err(), Some(CommError::Mismatch { rank: 1, operation, expected }));
    });
}

pub(super) fn a_mismatch_reaches_every_member<B: Backend>() {
    let both = || Group::new([0, 1]);
    let zeros = |len: usize| -> TrackedBuffer { buffer(&vec![0.0; len]) };
    assert_mismatch::<B>(
        |comm| comm.start_all_gather(&both(), zeros(8), 0..4),
        |comm| comm.start_all_gather(&both(), zeros(8), 0..8),
        ["an all-gather of elements 0..4", "an all-gather of elements 0..8"],
    );
    assert_mismatch::<B>(
        |comm| comm.start_reduce_scatter(&both(), zeros(8), 2..4),
        |comm| comm.start_all_reduce(&both(), Channel::Reduce, zeros(8), 2..4),
        ["a reduce-scatter of elements 2..4", "an all-reduce of elements 2..4"],
    );
    assert_mismatch::<B>(
        |comm| comm.start_send(1, 0, zeros(3)),
        |comm| comm.start_receive(0, 0, zeros(5)),
        ["a transfer of 3 elements", "a transfer of 5 elements"],
    );
    let halves = |len: usize| buffer_of(ElementType::Bf16, &vec![0.0; len]);
    assert_mismatch::<B>(
        |comm| comm.start_all_gather(&both(), zeros(8), 0..4),
        |comm| comm.start_all_gather(&both(), halves(8), 0..4),
        ["an all-gather of elements 0..4", "an all-gather of bf16 elements 0..4"],
    );
    // As many bytes, but not the same elements.
    assert_mismatch::<B>(
        |comm| comm.start_send(1, 0, halves(6)),
        |comm| comm.start_receive(0, 0, zeros(3)),
        ["a transfer of 6 bf16 elements", "a transfer of 3 elements"],
    );
}

pub(super) fn a_wait_is_bounded_and_names_who_is_missing<B: Backend>() {
    let timeout = Duration::from_millis(50);
    B::run(4, timeout, |mut comm, _| {
        // Ranks 1 and 3 never join.
        if comm.rank() % 2 == 1 {
            return;
        }
        let group = world(&*comm);
        let pending = comm.start_all_gather(&group, buffer(&[0.0; 4]), 0..4).unwrap();
        match pending.wait() {
            Err(CommError::Timeout { waited, operation, missing }) => {
                assert!(waited >= timeout);
                assert_eq!(operation, "an all-gather of elements 0..4");
                // The other one may be late, but not those that joined.
                assert!(missing.ends_with(&[3]) && missing.contains(&1) && !missing.contains(&comm.rank()));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(comm.all_reduce_words(&group, &mut [1]), Err(CommError::Timeout { .. })));
    });
}

pub(super) fn a_stop_ends_waits_and_refuses_starts<B: Backend>() {
    B::run(3, LONG, |mut comm, stop| {
        let (group, rank) = (world(&*comm), comm.rank());
        let elements = || buffer(&[0.0; 3]);
        // This one is complete before the stop, so that it can be collected after it.
        let complete = comm.start_reduce_scatter(&group, elements(), 0..3).unwrap();
        let open = (rank > 0).then(|| comm.start_all_gather(&group, elements(), 0..3).unwrap());
        barrier(&mut *comm);
        if rank == 0 {
            stop();
        }
        if let Some(open) = open {
            let operation = "an all-gather of elements 0..3".to_owned();
            assert_eq!(open.wait().err(), Some(CommError::Interrupted { operation, missing: vec![0] }));
        }
        assert!(complete.wait().is_ok());
        // Ranks 1 and 2 have seen the stop by now.
        assert_eq!(error(comm.start_all_gather(&group, elements(), 0..3)), CommError::Stopped);
        assert_eq!(error(comm.start_send((rank + 1) % 3, 0, elements())), CommError::Stopped);
        assert_eq!(comm.all_reduce_words(&group, &mut [1]), Err(CommError::Stopped));
    });
}
