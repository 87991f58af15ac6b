//! Where each rank is, readable by all threads, so that a stop is reported with every rank's instruction.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pipezero_models::Queue;
use pipezero_models::queue::Word;
use pipezero_schedule::Instruction;
use serde::{Deserialize, Serialize};

use super::instruction_text;

/// Where a rank is: where its compute queue is, which may be behind what the host has asked for. Steps count from 1; 0 is an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Position {
    /// Waiting for a command, or carrying out one that runs no program.
    #[default]
    Idle,
    /// Asking its source for a micro-batch.
    Reading {
        /// The step.
        step: u64,
        /// The micro-batch, from 0.
        micro_batch: usize,
    },
    /// At an instruction.
    At {
        /// The step.
        step: u64,
        /// Its index in the rank's row.
        index: usize,
        /// The instruction.
        #[serde(with = "instruction_text")]
        instruction: Instruction,
    },
    /// At an instruction that waits for an earlier one to complete. While the host waits for that, for a peer to start its part or
    /// for an emulated link, the rank is said to be here even if its queue still computes what comes before: it is the peer or the link
    /// that keeps the rank, and the failure of such a wait is the host's. Once the host goes on, the rank is here when its queue is.
    Waiting {
        /// The step.
        step: u64,
        /// Its index in the rank's row.
        index: usize,
        /// The instruction.
        #[serde(with = "instruction_text")]
        instruction: Instruction,
        /// The operation that is still in flight.
        #[serde(with = "instruction_text")]
        waits_for: Instruction,
    },
    /// At the end of a step, with an operation still in flight.
    Draining {
        /// The step.
        step: u64,
        /// The operation.
        #[serde(with = "instruction_text")]
        waits_for: Instruction,
    },
    /// At the end of an evaluation.
    AddingLosses,
    /// Sending the messages of a probe.
    Probing {
        /// The first of what it sends at once, if it sends any.
        #[serde(with = "instruction_text::optional")]
        instruction: Option<Instruction>,
        /// Elements of each message.
        num_elements: usize,
    },
}

impl Position {
    /// Whether the host itself waits there, for others than its queue. As long as it does, this is what a report has to name.
    fn is_of_host(self) -> bool {
        match self {
            Self::Reading { .. } | Self::Waiting { .. } | Self::Draining { .. } | Self::Probing { .. } => {
                true
            }
            // The other rank's part of a sum over two is waited for within the instruction. The sums over all ranks are not listed,
            // since the host reads its own part of them before, when the queue has come there.
            Self::At { instruction, .. } => matches!(instruction, Instruction::AddTied { .. }),
            Self::Idle | Self::AddingLosses => false,
        }
    }

    /// The instruction that the rank is at.
    pub fn instruction(self) -> Option<Instruction> {
        match self {
            Self::At { instruction, .. } | Self::Waiting { instruction, .. } => Some(instruction),
            _ => None,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Idle => write!(f, "a point before or after the instructions of a step"),
            Self::Reading { step, micro_batch } => {
                write!(f, "{}, reading micro-batch {micro_batch}", Step(step))
            }
            Self::At { step, index, instruction } => {
                write!(f, "{}, instruction {index} ({instruction})", Step(step))
            }
            Self::Waiting { step, index, instruction, waits_for } => {
                let step = Step(step);
                write!(f, "{step}, instruction {index} ({instruction}, which needs {waits_for})")
            }
            Self::Draining { step, waits_for } => {
                write!(f, "the end of {} ({waits_for} is still in flight)", Step(step))
            }
            Self::AddingLosses => write!(f, "evaluation, adding up the losses"),
            Self::Probing { instruction: Some(instruction), num_elements } => {
                write!(f, "a probe of {instruction} with {num_elements} elements")
            }
            Self::Probing { instruction: None, .. } => write!(f, "a probe of what others send"),
        }
    }
}

/// A step as reports name it.
struct Step(u64);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "evaluation"),
            step => write!(f, "step {step}"),
        }
    }
}

/// The positions of all ranks.
#[derive(Debug)]
pub struct Positions(Vec<RankPositions>);

/// Where a rank is and will be. Positions are numbered; as the rank's queue comes to one, it stores the number.
#[derive(Debug)]
struct RankPositions {
    /// The number of the position that the queue has come to; 0 before there is one.
    reached: OnceLock<Arc<Word>>,
    ahead: Mutex<Ahead>,
}

/// The positions from the one that the queue had come to when the newest was added. So there are never more than those that the host
/// is ahead of the queue, which is at most a step.
#[derive(Debug)]
struct Ahead {
    /// The number of the first of them.
    first: u64,
    positions: VecDeque<Position>,
}

impl Positions {
    /// Of so many ranks, all idle.
    pub fn new(num_ranks: usize) -> Self {
        let idle = || RankPositions {
            reached: OnceLock::new(),
            ahead: Mutex::new(Ahead { first: 0, positions: VecDeque::from([Position::Idle]) }),
        };
        Self(std::iter::repeat_with(idle).take(num_ranks).collect())
    }

    /// The rank is there once its queue has computed what it was asked before.
    pub fn set(&self, rank: usize, queue: &dyn Queue, position: Position) {
        let RankPositions { reached, ahead } = &self.0[rank];
        let reached = reached.get_or_init(|| Arc::new(queue.word()));
        let number = {
            let mut ahead = ahead.lock().unwrap_or_else(PoisonError::into_inner);
            ahead.pass(reached.load());
            ahead.positions.push_back(position);
            ahead.first + ahead.positions.len() as u64 - 1
        };
        queue.set_word(reached, number);
    }

    /// What the host has asked the rank's queue for last, where it may not be yet.
    pub fn newest(&self, rank: usize) -> Position {
        let ahead = self.0[rank].ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead.positions.back().expect("the position that the queue has come to is kept")
    }

    /// Where the rank's queue is; but where the host itself waits, what it waits for.
    pub fn get(&self, rank: usize) -> Position {
        let RankPositions { reached, ahead } = &self.0[rank];
        let mut ahead = ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.pass(reached.get().map_or(0, |reached| reached.load()));
        let [here, newest] = [ahead.positions.front(), ahead.positions.back()];
        let host = newest.copied().filter(|newest| newest.is_of_host());
        host.or(here.copied()).expect("the position that the queue has come to is kept")
    }
}

impl Ahead {
    /// Drops positions before this one.
    fn pass(&mut self, reached: u64) {
        while self.first < reached {
            self.positions.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use pipezero_models::queue::Deferred;
    use pipezero_models::{Device, Host};
    use pipezero_schedule::{MicroBatch, Unit};

    use super::*;

    fn at(index: usize) -> Position {
        let instruction = Instruction::Forward { unit: Unit(0), micro_batch: MicroBatch(index as u32) };
        Position::At { step: 1, index, instruction }
    }

    #[test]
    fn on_the_host_a_rank_is_where_it_was_said_to_be() {
        let positions = Positions::new(2);
        assert_eq!(positions.get(1), Position::Idle);
        for index in 0..100 {
            positions.set(1, &Host, at(index));
            assert_eq!(positions.get(1), at(index));
            assert!(positions.0[1].ahead.lock().unwrap().positions.len() <= 2);
        }
        assert_eq!(positions.get(0), Position::Idle);
    }

    #[test]
    fn on_a_device_a_rank_is_where_its_queue_is() {
        for seed in 0..100 {
            let queue = Deferred::new(seed).queue().unwrap();
            let positions = Positions::new(1);
            let mark_after = |position| {
                positions.set(0, &*queue, position);
                queue.mark()
            };
            let marks = [0, 1, 2].map(|index| mark_after(at(index)));
            assert_eq!(positions.get(0), Position::Idle);
            for (index, mark) in marks.into_iter().enumerate() {
                queue.time_ns(mark);
                assert_eq!(positions.get(0), at(index));
            }
            let last = mark_after(Position::Idle);
            assert_eq!(positions.get(0), at(2));
            queue.time_ns(last);
            assert_eq!(positions.get(0), Position::Idle);
        }
    }

    #[test]
    fn a_wait_of_the_host_is_reported_while_it_lasts() {
        let queue = Deferred::new(0).queue().unwrap();
        let positions = Positions::new(1);
        let Position::At { instruction, .. } = at(0) else { unreachable!() };
        let waiting = Position::Waiting { step: 1, index: 1, instruction, waits_for: instruction };
        positions.set(0, &*queue, at(0));
        let first = queue.mark();
        positions.set(0, &*queue, waiting);
        assert_eq!(positions.get(0), waiting);
        positions.set(0, &*queue, at(1));
        assert_eq!(positions.get(0), Position::Idle);
        queue.time_ns(first);
        assert_eq!(positions.get(0), at(0));
    }
}
