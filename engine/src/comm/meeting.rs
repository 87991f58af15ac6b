//! Where the members of a group meet: the one mechanism behind every operation of the threads backend.
//!
//! Operations of one group and channel are rounds, numbered by each member in the order of its starts. A member
//! leaves its contribution in the round and goes on; whoever completes the round carries the exchange out, outside
//! the lock, and the members collect their buffers when they wait. So nothing needs a thread of its own, and a start
//! never blocks.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::CommError;
use super::part;
use crate::memory::Tagged;

/// What the members of a round do together; equal on all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    AllGather {
        range: Range<usize>,
    },
    ReduceScatter {
        range: Range<usize>,
    },
    AllReduce {
        range: Range<usize>,
    },
    /// The first member sends to the second.
    Transfer {
        num_elements: usize,
    },
    AddWords {
        num_words: usize,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllGather { range } => write!(f, "an all-gather of {} elements", range.len()),
            Self::ReduceScatter { range } => write!(f, "a reduce-scatter of {} elements", range.len()),
            Self::AllReduce { range } => write!(f, "an all-reduce of {} elements", range.len()),
            Self::Transfer { num_elements } => write!(f, "a transfer of {num_elements} elements"),
            Self::AddWords { num_words } => write!(f, "a sum of {num_words} words"),
        }
    }
}

/// What a member brings to a round and takes home from it.
#[derive(Debug)]
pub(super) enum Payload {
    Elements(Tagged),
    Words(Vec<u64>),
}

#[derive(Debug)]
struct Round {
    operation: Operation,
    payloads: Vec<Option<Payload>>,
    num_arrived: usize,
    num_collected: usize,
    exchanged: bool,
}

#[derive(Debug, Default)]
struct Rounds {
    /// Number of the round at the front of the queue.
    first: u64,
    queue: VecDeque<Round>,
}

/// The meeting place of one group and channel.
#[derive(Debug)]
pub(super) struct Meeting {
    members: Vec<usize>,
    rounds: Mutex<Rounds>,
    exchanged: Condvar,
}

/// How often a waiting member looks whether another rank has failed.
const POLL: Duration = Duration::from_millis(20);

impl Meeting {
    pub(super) fn new(members: Vec<usize>) -> Self {
        Self { members, rounds: Mutex::default(), exchanged: Condvar::new() }
    }

    /// Joins round `number` as member `position`; carries the exchange out if nobody is missing any more.
    pub(super) fn join(
        &self,
        number: u64,
        position: usize,
        operation: Operation,
        payload: Payload,
    ) -> Result<(), CommError> {
        let (operation, mut payloads) = {
            let mut rounds = self.lock();
            let index = (number - rounds.first) as usize;
            if index == rounds.queue.len() {
                rounds.queue.push_back(Round::new(operation.clone(), self.members.len()));
            }
            let round = &mut rounds.queue[index];
            if round.operation != operation {
                return Err(CommError::Mismatch {
                    rank: self.members[position],
                    operation: operation.to_string(),
                    expected: round.operation.to_string(),
                });
            }
            round.payloads[position] = Some(payload);
            round.num_arrived += 1;
            if round.num_arrived < self.members.len() {
                return Ok(());
            }
            let payloads = std::mem::take(&mut round.payloads);
            (operation, payloads.into_iter().flatten().collect::<Vec<_>>())
        };
        exchange(&operation, &mut payloads)?;
        let mut rounds = self.lock();
        let index = (number - rounds.first) as usize;
        let round = &mut rounds.queue[index];
        round.payloads = payloads.into_iter().map(Some).collect();
        round.exchanged = true;
        drop(rounds);
        self.exchanged.notify_all();
        Ok(())
    }

    /// Waits until round `number` has been exchanged and takes this member's payload home.
    pub(super) fn collect(
        &self,
        number: u64,
        position: usize,
        timeout: Duration,
        stopped: impl Fn() -> bool,
    ) -> Result<Payload, CommError> {
        let start = Instant::now();
        let mut rounds = self.lock();
        loop {
            let index = (number - rounds.first) as usize;
            if rounds.queue[index].exchanged {
                return Ok(rounds.take(index, position));
            }
            if stopped() {
                return Err(CommError::Stopped);
            }
            let waited = start.elapsed();
            if waited >= timeout {
                return Err(self.timeout(&rounds.queue[index], waited));
            }
            let pause = POLL.min(timeout - waited);
            (rounds, _) = self.exchanged.wait_timeout(rounds, pause).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn timeout(&self, round: &Round, waited: Duration) -> CommError {
        let missing = self.members.iter().zip(&round.payloads).filter(|(_, payload)| payload.is_none());
        CommError::Timeout {
            waited,
            operation: round.operation.to_string(),
            missing: missing.map(|(&rank, _)| rank).collect(),
        }
    }

    /// A rank that panicked inside this lock left no half-done round: payloads move in and out whole.
    fn lock(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    fn new(operation: Operation, num_members: usize) -> Self {
        let payloads = std::iter::repeat_with(|| None).take(num_members).collect();
        Self { operation, payloads, num_arrived: 0, num_collected: 0, exchanged: false }
    }
}

impl Rounds {
    fn take(&mut self, index: usize, position: usize) -> Payload {
        let round = &mut self.queue[index];
        let payload = round.payloads[position].take().expect("each member collects a round once");
        round.num_collected += 1;
        while self
            .queue
            .front()
            .is_some_and(|round| round.exchanged && round.num_collected == round.num_arrived)
        {
            self.queue.pop_front();
            self.first += 1;
        }
        payload
    }
}

fn exchange(operation: &Operation, payloads: &mut [Payload]) -> Result<(), CommError> {
    match operation {
        Operation::AllGather { range } => all_gather(payloads, range),
        Operation::ReduceScatter { range } => reduce_scatter(payloads, range),
        Operation::AllReduce { range } => {
            reduce_scatter(payloads, range)?;
            all_gather(payloads, range)
        }
        Operation::Transfer { .. } => {
            let [Payload::Elements(source), Payload::Elements(destination)] = payloads else {
                unreachable!("a transfer has two members with elements")
            };
            destination.swap_contents(source);
            Ok(())
        }
        Operation::AddWords { .. } => {
            add_words(payloads);
            Ok(())
        }
    }
}

fn all_gather(payloads: &mut [Payload], range: &Range<usize>) -> Result<(), CommError> {
    let size = payloads.len();
    for owner in 0..size {
        let part = part(range, size, owner)?;
        let (before, rest) = payloads.split_at_mut(owner);
        let (own, after) = rest.split_first_mut().expect("the owner is a member");
        let own = elements(own).read();
        for peer in before.iter_mut().chain(after) {
            elements(peer).write(|values| values[part.clone()].copy_from_slice(&own[part.clone()]));
        }
    }
    Ok(())
}

/// Elements summed at a time: small enough for the innermost cache.
const BLOCK: usize = 1024;

fn reduce_scatter(payloads: &mut [Payload], range: &Range<usize>) -> Result<(), CommError> {
    let size = payloads.len();
    if size == 1 {
        return Ok(());
    }
    let mut sums = [0.0_f32; BLOCK];
    for owner in 0..size {
        let part = part(range, size, owner)?;
        for start in part.clone().step_by(BLOCK) {
            let block = start..part.end.min(start + BLOCK);
            let sums = &mut sums[..block.len()];
            sums.copy_from_slice(&elements(&mut payloads[0]).read()[block.clone()]);
            for payload in &mut payloads[1..] {
                let values = elements(payload).read();
                for (sum, &value) in sums.iter_mut().zip(&values[block.clone()]) {
                    *sum += value;
                }
            }
            elements(&mut payloads[owner]).write(|values| values[block].copy_from_slice(sums));
        }
    }
    Ok(())
}

fn add_words(payloads: &mut [Payload]) {
    let mut sums: Vec<u64> = Vec::new();
    for payload in payloads.iter() {
        let Payload::Words(words) = payload else { unreachable!("a sum of words has words") };
        sums.resize(words.len(), 0);
        for (sum, &word) in sums.iter_mut().zip(words) {
            *sum = sum.wrapping_add(word);
        }
    }
    for payload in payloads {
        *payload = Payload::Words(sums.clone());
    }
}

fn elements(payload: &mut Payload) -> &mut Tagged {
    match payload {
        Payload::Elements(buffer) => buffer,
        Payload::Words(_) => unreachable!("members of one operation bring the same kind of payload"),
    }
}
