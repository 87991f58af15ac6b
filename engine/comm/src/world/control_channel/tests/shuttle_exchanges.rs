//! Exchanges, stops, reports and ends in random orders: whoever takes part gets what all have given, or is told that it never comes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};

use super::in_memory::{Coordinator, Process, in_processes, member};
use crate::CommError;
use crate::sync::testing::in_random_orders;
use crate::sync::{AtomicBool, Instant, Ordering, thread};
use crate::testing::while_time_passes;
use crate::world::Member;

const TIMEOUT: Duration = Duration::from_secs(1);

/// The ranks of each process.
fn ranks_of(num_processes: usize) -> Vec<Range<usize>> {
    [0..1, 1..3, 3..4].into_iter().take(num_processes).collect()
}

fn members(num_processes: usize) -> (usize, Vec<Member>) {
    let ranks = ranks_of(num_processes);
    let world_size = ranks[num_processes - 1].end;
    let of = |ranks| Member { start_timeout: Duration::MAX, ..member(world_size, ranks, TIMEOUT) };
    (world_size, ranks.into_iter().map(of).collect())
}

/// What the body gives in each of two or three processes.
fn in_all<R: Send + 'static>(
    num_processes: usize,
    body: impl Fn(Process) -> R + Clone + Send + 'static,
) -> Vec<R> {
    in_all_with(Coordinator::Stays, num_processes, body)
}

fn in_all_with<R: Send + 'static>(
    coordinator: Coordinator,
    num_processes: usize,
    body: impl Fn(Process) -> R + Clone + Send + 'static,
) -> Vec<R> {
    let (world_size, members) = members(num_processes);
    in_processes(world_size, &members, coordinator, body).into_iter().map(Result::unwrap).collect()
}

/// Words, messages, clocks: a list of exchanges that all processes draw together.
fn exchange(process: &Process, kind: usize, round: u64, num_processes: usize) {
    let (channel, index) = (&process.channel, process.index);
    match kind {
        0 => {
            let mut words = [1, round * index as u64];
            channel.add_words(&mut words).unwrap();
            let num = num_processes as u64;
            assert_eq!(words, [num, round * num * (num - 1) / 2]);
        }
        1 => {
            let gathered = channel.gather(vec![index as u8, round as u8]).unwrap();
            let all = (0..num_processes).map(|index| vec![index as u8, round as u8]);
            assert_eq!(gathered, if index == 0 { all.collect() } else { Vec::new() });
        }
        2 => assert_eq!(channel.broadcast(vec![index as u8, round as u8]).unwrap(), [0, round as u8]),
        _ => {
            let ahead_ns = channel.clock_offset(|| 5_123).unwrap().ahead_ns;
            assert_eq!(ahead_ns, if index == 0 { 0 } else { 123 });
        }
    }
}

#[test]
fn every_exchange_gives_every_process_what_all_have_given() {
    in_random_orders(2000, || {
        let num_processes = thread_rng().gen_range(1..=3);
        let kinds: Vec<usize> = (0..4).map(|_| thread_rng().gen_range(0..4)).collect();
        in_all(num_processes, move |process| {
            assert_eq!(process.channel.processes(), ranks_of(num_processes));
            for (round, &kind) in (1..).zip(&kinds) {
                exchange(&process, kind, round, num_processes);
            }
        });
    });
}

/// At the end, the coordinator's process needs nothing from the others, but they need what it has not sent yet.
#[test]
fn the_others_receive_all_that_was_given_when_the_coordinators_process_ends() {
    in_random_orders(2000, || {
        let num_processes = thread_rng().gen_range(2..=3);
        let kinds: Vec<usize> = (0..2).map(|_| thread_rng().gen_range(0..3)).collect();
        in_all_with(Coordinator::Ends, num_processes, move |process| {
            for (round, &kind) in (1..).zip(&kinds) {
                exchange(&process, kind, round, num_processes);
            }
            if process.index > 0 {
                return;
            }
            let Process { channel, .. } = process;
            drop(channel);
        });
    });
}

/// The end of the coordinator is no failure for a process that needs nothing more from it.
#[test]
fn a_process_that_waits_for_nothing_is_not_stopped_by_the_end_of_the_coordinators_process() {
    in_random_orders(1000, || {
        in_all_with(Coordinator::Ends, 2, |Process { index, channel, .. }| {
            channel.add_words(&mut [1]).unwrap();
            if index == 0 {
                return;
            }
            let error = channel.add_words(&mut [1]).unwrap_err();
            assert!(matches!(&error, CommError::Interrupted { missing, .. } if *missing == [0]), "{error:?}");
            assert!(channel.has_ended(0) && !channel.is_stopped() && !channel.has_lost_a_process());
        });
    });
}

/// A process that receives nothing, such as a frozen one, keeps the coordinator's process waiting no longer than a wait may last.
#[test]
fn the_coordinators_process_waits_for_one_that_receives_nothing_until_its_time_is_up() {
    in_random_orders(400, || {
        while_time_passes(TIMEOUT / 2, || {
            let [is_frozen, is_over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let until = |flag: &AtomicBool| {
                while !flag.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            };
            in_all(2, move |Process { index, channel, to_coordinator, .. }| {
                if index == 0 {
                    until(&is_frozen);
                    let start = Instant::now();
                    drop(channel);
                    assert!(start.elapsed() >= TIMEOUT);
                    return is_over.store(true, Ordering::Release);
                }
                let held = to_coordinator.hold();
                is_frozen.store(true, Ordering::Release);
                until(&is_over);
                drop(held);
            });
        });
    });
}

/// What a process does instead of an exchange that the others take part in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    /// A rank of it has failed.
    Stop,
    /// It ends.
    End,
    /// Something ends it.
    Killed,
    /// It takes part in another exchange, which no other process does.
    Mismatch,
}

const ROUNDS: usize = 3;

/// Takes part in all rounds but the one in which it fails, and at the first error stops and exchanges reports, as the engine does. Returns the
/// number of rounds that were whole, the error of the one that was not, and the reports.
fn run(
    process: Process,
    fails: Option<(usize, Failure)>,
) -> (usize, Option<CommError>, Vec<Option<Vec<u8>>>) {
    let Process { index, channel, to_coordinator, .. } = &process;
    for round in 0..ROUNDS {
        let how = fails.filter(|(at, _)| *at == round).map(|(_, how)| how);
        let mut words = [1];
        let given = match how {
            None => channel.add_words(&mut words),
            Some(Failure::Mismatch) => channel.add_words(&mut vec![1; 2 + index]),
            Some(Failure::Stop) => Err(CommError::Stopped),
            Some(Failure::End) => return (round, None, Vec::new()),
            Some(Failure::Killed) => {
                to_coordinator.cut();
                return (round, None, Vec::new());
            }
        };
        if let Err(error) = given {
            channel.stop();
            assert!(channel.is_stopped());
            assert_eq!(channel.add_words(&mut words), Err(CommError::Stopped));
            let reports = channel.exchange_failures(vec![*index as u8], Duration::MAX);
            return (round, Some(error), reports.into_iter().map(|(_, report)| report).collect());
        }
        assert_eq!(words, [channel.processes().len() as u64]);
    }
    (ROUNDS, None, Vec::new())
}

/// No time passes: nothing is left to a time-out.
#[test]
fn whatever_fails_where_the_others_come_as_far_as_it_came_and_hear_all_reports() {
    in_random_orders(3500, || {
        let num_processes = thread_rng().gen_range(2..=3);
        let draw = || {
            let how = [Failure::Stop, Failure::End, Failure::Killed, Failure::Mismatch];
            let at = thread_rng().gen_range(0..ROUNDS);
            thread_rng().gen_bool(0.5).then(|| (at, how[thread_rng().gen_range(0..4)]))
        };
        let fails: Vec<_> = (0..num_processes).map(|_| draw()).collect();
        let drawn = fails.clone();
        let results = in_all(num_processes, move |process| {
            let fails = drawn[process.index];
            run(process, fails)
        });
        let first = fails.iter().flatten().map(|(at, _)| *at).min().unwrap_or(ROUNDS);
        let has_ended = |index: usize| {
            fails[index].is_some_and(|(at, how)| at == first && matches!(how, Failure::End | Failure::Killed))
        };
        for (index, (num_whole, error, reports)) in results.iter().enumerate() {
            assert_eq!(*num_whole, first, "of process {index}: {fails:?}");
            if first == ROUNDS || has_ended(index) {
                assert_eq!(*error, None);
                continue;
            }
            let error = error.as_ref().unwrap();
            let is_expected = error.is_stop() || matches!(error, CommError::Mismatch { .. });
            assert!(is_expected, "of process {index}: {error:?}, {fails:?}");
            let report = |of: usize| (!has_ended(of)).then(|| vec![of as u8]);
            assert_eq!(*reports, (0..num_processes).map(report).collect::<Vec<_>>(), "{fails:?}");
        }
    });
}

#[test]
fn a_process_that_ends_is_missing_in_what_needs_it() {
    in_random_orders(1000, || {
        in_all(3, |process| {
            let channel = &process.channel;
            channel.add_words(&mut [1]).unwrap();
            if process.index != 1 {
                let error = channel.add_words(&mut [1]).unwrap_err();
                assert!(
                    matches!(&error, CommError::Interrupted { missing, .. } if *missing == [1, 2]),
                    "{error:?}"
                );
                assert!(channel.has_ended(1) && channel.has_ended(2));
            }
        });
    });
}

/// What one of two processes does while the other does nothing; but that one ends last.
fn beside_one_that_waits(index: usize, body: impl Fn(Process) + Clone + Send + 'static) {
    let is_over = Arc::new(AtomicBool::new(false));
    in_all(2, move |process| {
        if process.index == index {
            body(process);
            return is_over.store(true, Ordering::Release);
        }
        while !is_over.load(Ordering::Acquire) {
            thread::yield_now();
        }
    });
}

#[test]
fn every_wait_ends_when_the_coordinator_ends() {
    in_random_orders(1000, || {
        beside_one_that_waits(1, |Process { channel, from_coordinator, .. }| {
            let cutting = thread::spawn(move || from_coordinator.cut());
            let error = channel.add_words(&mut [1]);
            let operation = "a sum of words of all processes".to_owned();
            assert_eq!(error, Err(CommError::Interrupted { operation, missing: vec![0] }));
            assert!(channel.is_stopped() && channel.has_ended(0));
            let reports = channel.exchange_failures(vec![1], Duration::MAX);
            assert_eq!(reports, [(0..1, None), (1..3, Some(vec![1]))]);
            cutting.join().unwrap();
        });
    });
}

#[test]
fn a_wait_and_an_exchange_of_reports_end_in_time() {
    in_random_orders(1000, || {
        while_time_passes(TIMEOUT / 2, || {
            beside_one_that_waits(0, |Process { channel, .. }| {
                let error = channel.add_words(&mut [1]).unwrap_err();
                let CommError::Timeout { waited, missing, .. } = &error else { panic!("{error:?}") };
                assert!(*waited >= TIMEOUT && *missing == [1, 2], "{error:?}");
                channel.stop();
                let reports = channel.exchange_failures(vec![0], TIMEOUT);
                assert_eq!(reports, [(0..1, Some(vec![0])), (1..3, None)]);
            });
        });
    });
}
