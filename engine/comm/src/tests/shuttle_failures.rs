//! What every rank is told when one stops, leaves, starts something else or comes too late.

use std::time::Duration;

use crate::sync::testing::{hangs, in_random_orders, say};
use crate::testing::{buffer, on_every_rank, ranks, values, while_time_passes};
use crate::{Channel, CommError, Communicator, Group, Started};

const SIZE: usize = 3;
/// The rank that fails.
const LAST: usize = SIZE - 1;
const TIMEOUT: Duration = Duration::from_secs(1);

type Outcome = Result<Vec<f32>, CommError>;

fn start_sum(comm: &mut dyn Communicator, group: &Group) -> Started {
    comm.start_all_reduce(group, Channel::Reduce, buffer(&[1.0; 6]), 0..6)
}

fn end(started: Started) -> Outcome {
    started.and_then(|pending| pending.wait()).map(|buffer| values(&buffer))
}

fn all() -> Group {
    Group::new(0..SIZE)
}

/// A sum of all ranks.
fn sum(comm: &mut dyn Communicator) -> Outcome {
    end(start_sum(comm, &all()))
}

/// A sum of those that do not fail: what has gone wrong for all leaves no trace there.
fn sum_of_others(comm: &mut dyn Communicator) {
    let sum = end(start_sum(comm, &Group::new(0..LAST)));
    assert_eq!(sum, Ok(vec![LAST as f32; 6]));
}

#[test]
fn a_stop_ends_every_wait() {
    in_random_orders(1500, || {
        let threads = ranks(SIZE, TIMEOUT, None);
        let stopping = threads.clone();
        let outcomes = on_every_rank(&threads, move |mut comm| {
            if comm.rank() == LAST {
                let first = start_sum(&mut *comm, &all()).map(drop);
                stopping.stop();
                return [first.map(|()| Vec::new()), Err(CommError::Stopped)];
            }
            [sum(&mut *comm), sum(&mut *comm)]
        });
        for [first, second] in &outcomes[..LAST] {
            match first {
                Ok(sum) => assert_eq!(*sum, [SIZE as f32; 6]),
                Err(error) => assert!(error.is_stop(), "{error:?}"),
            }
            assert!(second.as_ref().is_err_and(CommError::is_stop), "{second:?}");
        }
    });
}

#[test]
fn a_rank_that_leaves_ends_what_it_has_not_joined_and_nothing_else() {
    in_random_orders(1500, || {
        let threads = ranks(SIZE, TIMEOUT, None);
        let left = threads.clone();
        on_every_rank(&threads, move |mut comm| {
            if comm.rank() == LAST {
                drop(start_sum(&mut *comm, &all()).unwrap());
                left.leave(LAST..SIZE);
                return;
            }
            assert_eq!(sum(&mut *comm), Ok(vec![SIZE as f32; 6]));
            let error = sum(&mut *comm).unwrap_err();
            assert!(
                matches!(&error, CommError::Interrupted { missing, .. } if missing.contains(&LAST)),
                "{error:?}"
            );
            sum_of_others(&mut *comm);
        });
    });
}

#[test]
fn a_mismatch_reaches_every_member() {
    in_random_orders(1500, || {
        let outcomes = on_every_rank(&ranks(SIZE, TIMEOUT, None), |mut comm| {
            let range = if comm.rank() == LAST { 0..3 } else { 0..6 };
            let started = comm.start_all_reduce(&all(), Channel::Reduce, buffer(&[1.0; 6]), range);
            let outcome = end(started);
            // The words go over another channel, so no rank is lost.
            comm.all_reduce_words(&all(), &mut [1]).unwrap();
            outcome
        });
        let sums = ["an all-reduce of elements 0..6", "an all-reduce of elements 0..3"];
        let Err(CommError::Mismatch { rank, operation, expected }) = &outcomes[0] else {
            panic!("{outcomes:?}")
        };
        let [others, last] = sums.map(str::to_owned);
        let of_rank = if *rank == LAST { [&last, &others] } else { [&others, &last] };
        assert_eq!([operation, expected], of_rank);
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
    });
}

#[test]
fn who_waits_for_a_rank_that_never_comes_is_told_in_time() {
    in_random_orders(1000, || {
        while_time_passes(TIMEOUT / 2, || {
            on_every_rank(&ranks(SIZE, TIMEOUT, None), |mut comm| {
                if comm.rank() < LAST {
                    let error = sum(&mut *comm).unwrap_err();
                    let CommError::Timeout { waited, missing, .. } = &error else { panic!("{error:?}") };
                    assert!(*waited >= TIMEOUT && missing.contains(&LAST), "{error:?}");
                }
            })
        });
    });
}

/// What a rank that gave up had contributed is still in the sum of the others.
#[test]
fn who_comes_late_is_waited_for_as_long_as_the_timeout_says() {
    in_random_orders(1500, || {
        let outcomes = while_time_passes(TIMEOUT / 2, || {
            on_every_rank(&ranks(SIZE, TIMEOUT, None), |mut comm| sum(&mut *comm))
        });
        for outcome in &outcomes {
            match outcome {
                Ok(sum) => assert_eq!(*sum, [SIZE as f32; 6]),
                Err(CommError::Timeout { waited, .. }) => assert!(*waited >= TIMEOUT, "{waited:?}"),
                Err(error) => panic!("{error:?}"),
            }
        }
    });
}

/// Without this, none of the tests of this folder would see a wait that nothing ends.
#[test]
fn a_wait_that_only_its_timeout_could_end_is_found() {
    let waits_in_vain = || {
        on_every_rank(&ranks(2, TIMEOUT, None), |mut comm| {
            let both = Group::new(0..2);
            if comm.rank() == 0 { end(start_sum(&mut *comm, &both)) } else { Ok(Vec::new()) }
        });
    };
    assert!(hangs(waits_in_vain));
    assert!(!hangs(move || {
        while_time_passes(TIMEOUT, waits_in_vain);
    }));
    say("2 executions");
}
