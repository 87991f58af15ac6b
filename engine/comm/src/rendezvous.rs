//! How threads carry out an operation together: the one mechanism behind every operation of the threads backend.
//!
//! Operations of one group and channel are rounds, numbered by each member in the order of its starts. A member leaves
//! its payload in the round and goes on; the last one to join carries the operation out, outside the lock, and the
//! members collect their buffers when they wait. So no operation needs a thread, and a start never blocks. If links are emulated, the last
//! member to join also calculates when the message arrives.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::Queue;
use pipezero_models::queue::Event;

use super::error::CommError;
use super::exchange::{Payload, exchange};
use super::operation::Operation;
use super::shaping::{Delivery, LinkState};
use crate::sync::{Instant, Monitor};

#[derive(Debug)]
struct Round {
    operation: Operation,
    /// What each member contributed, and after the exchange what it gets back; empty while the exchange runs.
    payloads: Vec<Option<Payload>>,
    /// Which members have joined.
    joined: Vec<bool>,
    /// Up to where each member's compute queue must have come before the operation begins.
    ready: Vec<Event>,
    /// Which members need nothing more of the round.
    left: Vec<bool>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A member has not joined yet, or the exchange runs.
    Open,
    /// Every member can collect: on an emulated link once the message has arrived, its sender once the link is free.
    Exchanged {
        delivery: Option<Delivery>,
        /// Where the lane has carried the operation out.
        done: Event,
    },
    /// The members started different operations; each of them gets the error.
    Failed(CommError),
}

/// Which ranks take part no more.
#[derive(Clone, Copy)]
pub(super) struct Departed<'a> {
    /// Whether all have stopped.
    pub(super) is_stopped: &'a dyn Fn() -> bool,
    /// Whether a rank has left.
    pub(super) has_left: &'a dyn Fn(usize) -> bool,
}

/// A member's wait for a round, as it stands.
#[derive(Clone, Copy)]
struct Wait<'a> {
    /// The waiting member.
    position: usize,
    now: Instant,
    waited: Duration,
    timeout: Duration,
    departed: Departed<'a>,
}

#[derive(Debug, Default)]
struct Rounds {
    /// Number of the round at the front of the queue.
    first: u64,
    queue: VecDeque<Round>,
}

/// Where the members of one group exchange what they send on one channel.
#[derive(Debug)]
pub(super) struct Rendezvous {
    members: Vec<usize>,
    /// The link that its operations occupy, if links are emulated.
    link: Option<Arc<LinkState>>,
    /// Where operations are carried out.
    lane: Arc<dyn Queue>,
    /// Members wait here until a round was exchanged or failed, or ranks have stopped or left. A rank that panicked left no half-done
    /// round: payloads move in and out whole.
    rounds: Monitor<Rounds>,
}

impl Rendezvous {
    pub(super) fn new(members: Vec<usize>, link: Option<Arc<LinkState>>, lane: Arc<dyn Queue>) -> Self {
        Self { members, link, lane, rounds: Monitor::default() }
    }

    /// Joins round `number` as member `position`, which has computed the payload at `ready`; the last member to join carries the
    /// exchange out.
    ///
    /// A member joins its rounds in order and leaves each one that it joined; a member that is refused has left already.
    pub(super) fn join(
        &self,
        number: u64,
        position: usize,
        operation: Operation,
        payload: Payload,
        ready: Event,
    ) -> Result<(), CommError> {
        let mut rounds = self.rounds.lock();
        let round = rounds.open(number, &operation, self.members.len());
        if let Err(error) = round.join(position, &operation, payload, &self.members) {
            rounds.leave(number, position);
            drop(rounds);
            self.rounds.notify_all();
            return Err(error);
        }
        round.ready[position] = ready;
        if !round.joined.iter().all(|&joined| joined) {
            return Ok(());
        }
        // With the lock held, so that the rounds occupy the link in order.
        let delivery = self.link.as_ref().map(|link| link.deliver(operation.sent_bytes(self.members.len())));
        let mut payloads: Vec<Payload> = std::mem::take(&mut round.payloads).into_iter().flatten().collect();
        let ready = std::mem::take(&mut round.ready);
        drop(rounds);
        let done = exchange(&*self.lane, &operation, &mut payloads, &ready);
        let mut rounds = self.rounds.lock();
        let round = rounds.get(number);
        // A member that has left gets nothing back.
        let kept = payloads.into_iter().zip(&round.left).map(|(payload, &left)| (!left).then_some(payload));
        round.payloads = kept.collect();
        round.state = State::Exchanged { delivery, done };
        drop(rounds);
        self.rounds.notify_all();
        Ok(())
    }

    /// Waits until round `number` has been exchanged and delivered, has `queue` wait until the lane has carried it out, and returns
    /// this member's payload. A stop cuts the emulated delay short: the payload has arrived.
    pub(super) fn collect(
        &self,
        number: u64,
        position: usize,
        queue: &dyn Queue,
        timeout: Duration,
        departed: Departed<'_>,
    ) -> Result<Payload, CommError> {
        let start = Instant::now();
        let mut rounds = self.rounds.lock();
        loop {
            let (round, now) = (rounds.get(number), Instant::now());
            let wait = Wait { position, now, waited: now.duration_since(start), timeout, departed };
            let Some(left) = round.remaining(wait, &self.members)? else {
                if let State::Exchanged { done, .. } = &round.state {
                    queue.wait(done, round.operation.waits(position)[1]);
                }
                return Ok(round.payloads[position].take().expect("a member collects a round once"));
            };
            rounds = self.rounds.wait(rounds, now, left);
        }
    }

    /// Member `position` needs nothing more of round `number`, whether it collected or gave up. What it contributed
    /// still reaches the others.
    pub(super) fn leave(&self, number: u64, position: usize) {
        self.rounds.lock().leave(number, position);
    }

    /// Has every waiting member check again which ranks have left or stopped.
    pub(super) fn wake(&self) {
        // With the lock held no member is between its check and its wait.
        let _rounds = self.rounds.lock();
        self.rounds.notify_all();
    }
}

impl Round {
    fn new(operation: Operation, num_members: usize) -> Self {
        Self {
            operation,
            payloads: (0..num_members).map(|_| None).collect(),
            joined: vec![false; num_members],
            ready: vec![Event::REACHED; num_members],
            left: vec![false; num_members],
            state: State::Open,
        }
    }

    /// Takes a member's payload, if the member starts the same operation as the others.
    fn join(
        &mut self,
        position: usize,
        operation: &Operation,
        payload: Payload,
        members: &[usize],
    ) -> Result<(), CommError> {
        if let State::Failed(error) = &self.state {
            return Err(error.clone());
        }
        if self.operation != *operation {
            let error = CommError::Mismatch {
                rank: members[position],
                operation: operation.to_string(),
                expected: self.operation.to_string(),
            };
            self.state = State::Failed(error.clone());
            return Err(error);
        }
        self.payloads[position] = Some(payload);
        self.joined[position] = true;
        Ok(())
    }

    /// How much longer a wait may last; `None` when its member can collect.
    fn remaining(&self, wait: Wait<'_>, members: &[usize]) -> Result<Option<Duration>, CommError> {
        let Wait { position, now, waited, timeout, departed } = wait;
        let is_stopped = (departed.is_stopped)();
        let operation = || self.operation.to_string();
        match &self.state {
            State::Exchanged { delivery, .. } => {
                let until = if self.operation.is_sent_by(position) {
                    Delivery::until_sent
                } else {
                    Delivery::until_arrival
                };
                let delay = delivery.map_or(Duration::ZERO, |delivery| until(delivery, now));
                if delay.is_zero() || is_stopped {
                    return Ok(None);
                }
                let arrives_in = waited + delay;
                if arrives_in > timeout {
                    let (operation, members) = (operation(), members.to_vec());
                    return Err(CommError::TooSlow { operation, members, arrives_in, timeout });
                }
                Ok(Some(delay))
            }
            State::Failed(error) => Err(error.clone()),
            State::Open if is_stopped || self.missing(members).any(departed.has_left) => {
                let missing = self.missing(members).collect();
                Err(CommError::Interrupted { operation: operation(), missing })
            }
            State::Open if waited >= timeout => {
                let missing = self.missing(members).collect();
                Err(CommError::Timeout { waited, operation: operation(), missing })
            }
            State::Open => Ok(Some(timeout - waited)),
        }
    }

    /// Members that have not joined.
    fn missing(&self, members: &[usize]) -> impl Iterator<Item = usize> {
        let missing = members.iter().zip(&self.joined).filter(|&(_, &joined)| !joined);
        missing.map(|(&rank, _)| rank)
    }
}

impl Rounds {
    /// The round, opened by the first member that joins it.
    fn open(&mut self, number: u64, operation: &Operation, num_members: usize) -> &mut Round {
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
