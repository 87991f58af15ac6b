//! Where the members of a group meet: the one mechanism behind every operation of the threads backend.
//!
//! Operations of one group and channel are rounds, numbered by each member in the order of its starts. A member
//! leaves its contribution in the round and goes on; whoever completes the round carries the exchange out, outside
//! the lock, and the members collect their buffers when they wait. So nothing needs a thread of its own, and a start
//! never blocks. Where links are imitated, whoever completes the round also works out when it arrives.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::CommError;
use super::exchange::{Operation, Payload, exchange};
use super::shaping::{Carried, LinkState};

#[derive(Debug)]
struct Round {
    operation: Operation,
    /// What each member brought, and once exchanged what it takes home; empty while the exchange runs.
    payloads: Vec<Option<Payload>>,
    /// Which members have joined.
    joined: Vec<bool>,
    /// Which members need nothing more of the round.
    left: Vec<bool>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Somebody has not joined, or the exchange runs.
    Open,
    /// Everybody can collect, once it has arrived where that takes time; a sender, once its link is free.
    Exchanged { carried: Option<Carried> },
    /// The members do not agree; all of them are told.
    Broken(CommError),
}

/// A wait under way.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Who waits.
    position: usize,
    waited: Duration,
    timeout: Duration,
    is_stopped: bool,
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
    /// The link that its operations occupy, if links are imitated.
    link: Option<Arc<LinkState>>,
    rounds: Mutex<Rounds>,
    /// A round was exchanged or broken, or the world was stopped.
    changed: Condvar,
}

impl Meeting {
    pub(super) fn new(members: Vec<usize>, link: Option<Arc<LinkState>>) -> Self {
        Self { members, link, rounds: Mutex::default(), changed: Condvar::new() }
    }

    /// Joins round `number` as member `position`; carries the exchange out if nobody is missing any more.
    ///
    /// A member joins its rounds in order and leaves each one that it joined; one that is refused has left already.
    pub(super) fn join(
        &self,
        number: u64,
        position: usize,
        operation: Operation,
        payload: Payload,
    ) -> Result<(), CommError> {
        let mut rounds = self.lock();
        let round = rounds.enter(number, &operation, self.members.len());
        if let Err(error) = round.admit(position, &operation, payload, &self.members) {
            rounds.leave(number, position);
            drop(rounds);
            self.changed.notify_all();
            return Err(error);
        }
        if !round.joined.iter().all(|&joined| joined) {
            return Ok(());
        }
        // With the lock held, so that the rounds occupy the link in order.
        let carried = self.link.as_ref().map(|link| link.carry(operation.sent_bytes(self.members.len())));
        let mut payloads: Vec<Payload> = std::mem::take(&mut round.payloads).into_iter().flatten().collect();
        drop(rounds);
        exchange(&operation, &mut payloads);
        let mut rounds = self.lock();
        let round = rounds.get(number);
        // A member that has left takes nothing home.
        let taken = payloads.into_iter().zip(&round.left).map(|(payload, &left)| (!left).then_some(payload));
        round.payloads = taken.collect();
        round.state = State::Exchanged { carried };
        drop(rounds);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits until round `number` has been exchanged and has arrived, and takes this member's payload home. A stop cuts
    /// the imitated delay short: the payload is there.
    pub(super) fn collect(
        &self,
        number: u64,
        position: usize,
        timeout: Duration,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Payload, CommError> {
        let start = Instant::now();
        let mut rounds = self.lock();
        loop {
            let round = rounds.get(number);
            let wait = Wait { position, waited: start.elapsed(), timeout, is_stopped: is_stopped() };
            let Some(left) = round.outlook(wait, &self.members)? else {
                return Ok(round.payloads[position].take().expect("a member collects a round once"));
            };
            (rounds, _) = self.changed.wait_timeout(rounds, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Member `position` needs nothing more of round `number`, whether it collected or gave up. What it brought
    /// still reaches the others.
    pub(super) fn leave(&self, number: u64, position: usize) {
        self.lock().leave(number, position);
    }

    /// Has every waiting member look again whether the world was stopped.
    pub(super) fn wake(&self) {
        // With the lock held no member is between its look and its wait.
        let _rounds = self.lock();
        self.changed.notify_all();
    }

    /// A rank that panicked inside this lock left no half-done round: payloads move in and out whole.
    fn lock(&self) -> MutexGuard<'_, Rounds> {
        self.rounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    fn new(operation: Operation, num_members: usize) -> Self {
        Self {
            operation,
            payloads: (0..num_members).map(|_| None).collect(),
            joined: vec![false; num_members],
            left: vec![false; num_members],
            state: State::Open,
        }
    }

    /// Takes what a member brings, if it is there for the same operation as the others.
    fn admit(
        &mut self,
        position: usize,
        operation: &Operation,
        payload: Payload,
        members: &[usize],
    ) -> Result<(), CommError> {
        if let State::Broken(error) = &self.state {
            return Err(error.clone());
        }
        if self.operation != *operation {
            let error = CommError::Mismatch {
                rank: members[position],
                operation: operation.to_string(),
                expected: self.operation.to_string(),
            };
            self.state = State::Broken(error.clone());
            return Err(error);
        }
        self.payloads[position] = Some(payload);
        self.joined[position] = true;
        Ok(())
    }

    /// How much longer a wait may have to last; `None` when its member can collect.
    fn outlook(&self, wait: Wait, members: &[usize]) -> Result<Option<Duration>, CommError> {
        let Wait { position, waited, timeout, is_stopped } = wait;
        let operation = || self.operation.to_string();
        match &self.state {
            State::Exchanged { carried } => {
                let until = if self.operation.is_sent_by(position) {
                    Carried::until_sent
                } else {
                    Carried::until_there
                };
                let delay = carried.map_or(Duration::ZERO, until);
                if delay.is_zero() || is_stopped {
                    return Ok(None);
                }
                let arrives_in = waited + delay;
                if arrives_in > timeout {
                    return Err(CommError::TooSlow { operation: operation(), arrives_in, timeout });
                }
                Ok(Some(delay))
            }
            State::Broken(error) => Err(error.clone()),
            State::Open if is_stopped => {
                Err(CommError::Interrupted { operation: operation(), missing: self.missing(members) })
            }
            State::Open if waited >= timeout => {
                let missing = self.missing(members);
                Err(CommError::Timeout { waited, operation: operation(), missing })
            }
            State::Open => Ok(Some(timeout - waited)),
        }
    }

    fn missing(&self, members: &[usize]) -> Vec<usize> {
        let missing = members.iter().zip(&self.joined).filter(|&(_, &joined)| !joined);
        missing.map(|(&rank, _)| rank).collect()
    }
}

impl Rounds {
    /// The round, opened by whoever comes first.
    fn enter(&mut self, number: u64, operation: &Operation, num_members: usize) -> &mut Round {
        let index = self.index(number);
        if index == self.queue.len() {
            self.queue.push_back(Round::new(operation.clone(), num_members));
        }
        &mut self.queue[index]
    }

    fn get(&mut self, number: u64) -> &mut Round {
        let index = self.index(number);
        &mut self.queue[index]
    }

    /// Rounds stay in the queue until every member has left them, so a member's own rounds are always there.
    fn index(&self, number: u64) -> usize {
        (number - self.first) as usize
    }

    fn leave(&mut self, number: u64, position: usize) {
        let round = self.get(number);
        round.left[position] = true;
        if matches!(round.state, State::Exchanged { .. }) {
            round.payloads[position] = None;
        }
        while self.queue.front().is_some_and(|round| round.left.iter().all(|&left| left)) {
            self.queue.pop_front();
            self.first += 1;
        }
    }
}
