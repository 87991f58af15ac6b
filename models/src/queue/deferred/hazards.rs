//! Kernels that use the same elements, one of them to write, with no event between them.
//!
//! Each queue has a vector clock: how many tasks of every queue were over for certain before its present one (Mattern, *Virtual time and
//! global states of distributed systems*, 1989). A queue learns from the events that it waits for, and from what the thread had waited for
//! that asked for the task. Two uses that neither clock puts in order are a hazard, in whatever order they happen to run.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use crate::memory::{Memory, Retained};

/// How many tasks of each queue are over for certain: `[queue]`, none of those that are missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Vec<u64>);

impl Known {
    fn of(&self, queue: usize) -> u64 {
        self.0.get(queue).copied().unwrap_or(0)
    }

    /// A task of this queue is over too.
    pub(super) fn advance(&mut self, queue: usize) {
        let len = self.0.len().max(queue + 1);
        self.0.resize(len, 0);
        self.0[queue] += 1;
    }

    /// What somebody else knows is known.
    pub(super) fn learn(&mut self, other: &Self) {
        let len = self.0.len().max(other.0.len());
        self.0.resize(len, 0);
        self.0.iter_mut().zip(&other.0).for_each(|(own, &other)| *own = other.max(*own));
    }
}

/// Elements that a kernel uses.
pub(super) struct Use {
    pub(super) elements: Retained,
    pub(super) writes: bool,
}

/// What was done with elements of one memory.
struct Past {
    range: Range<usize>,
    writes: bool,
    kernel: &'static str,
    queue: usize,
    /// The number of the task in its queue, from 1.
    task: u64,
}

/// Two uses that no event puts in order: the later one, and one before it.
#[derive(Debug)]
pub(super) struct Hazard {
    kernels: [&'static str; 2],
    queues: [usize; 2],
    writes: [bool; 2],
    /// Bytes.
    elements: [Range<usize>; 2],
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [writes, wrote] = self.writes;
        let (does, did) = (if writes { "writes" } else { "reads" }, if wrote { "wrote" } else { "read" });
        let ([kernel, earlier], [queue, other]) = (self.kernels, self.queues);
        let [range, before] = &self.elements;
        write!(
            f,
            "`{kernel}` in queue {queue} {does} bytes {range:?}, `{earlier}` in queue {other} {did} {before:?}, and no event puts \
             them in order"
        )
    }
}

/// What was done with each memory that still exists.
#[derive(Default)]
pub(super) struct Hazards {
    /// By address. The weak reference keeps an address from being given to another memory.
    memories: HashMap<usize, (Weak<Memory>, Vec<Past>)>,
    /// Memories at which those that were freed are dropped.
    num_kept: usize,
}

impl Hazards {
    /// Notes what a kernel of a queue uses.
    ///
    /// # Errors
    /// If no event puts it in order with what another queue did with the same elements.
    pub(super) fn note(
        &mut self,
        kernel: &'static str,
        uses: &[Use],
        queue: usize,
        known: &Known,
    ) -> Result<(), Hazard> {
        let uses = || uses.iter().filter(|of| !of.elements.place().1.is_empty());
        for Use { elements, writes } in uses() {
            let (memory, range) = elements.place();
            let entry = self.memories.entry(address(memory));
            let (_, past) = entry.or_insert_with(|| (Arc::downgrade(memory), Vec::new()));
            let hazard = past.iter().find(|past| {
                let overlaps = past.range.start < range.end && range.start < past.range.end;
                overlaps && (past.writes || *writes) && past.task > known.of(past.queue)
            });
            if let Some(past) = hazard {
                let elements = [range.clone(), past.range.clone()];
                let (kernels, queues) = ([kernel, past.kernel], [queue, past.queue]);
                return Err(Hazard { kernels, queues, writes: [*writes, past.writes], elements });
            }
        }
        for Use { elements, writes } in uses() {
            let (memory, range) = elements.place();
            let Some((_, past)) = self.memories.get_mut(&address(memory)) else { continue };
            // What comes after this use comes after those that it covers: all of them for a write, the queue's own reads for a read.
            past.retain(|past| {
                let is_covered = range.start <= past.range.start && past.range.end <= range.end;
                !(is_covered && (*writes || !past.writes && past.queue == queue))
            });
            past.push(Past { range, writes: *writes, kernel, queue, task: known.of(queue) });
        }
        if self.memories.len() > 2 * self.num_kept + 64 {
            self.memories.retain(|_, (memory, _)| memory.strong_count() > 0);
            self.num_kept = self.memories.len();
        }
        Ok(())
    }
}

fn address(memory: &Arc<Memory>) -> usize {
    Arc::as_ptr(memory).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    /// Which pairs of uses of a buffer by two queues are a hazard, with and without an event between them.
    #[test]
    fn two_uses_are_a_hazard_if_one_writes_what_the_other_uses_and_no_event_is_between() {
        for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
            for (range, overlaps) in [(0..4, true), (3..9, true), (4..9, false), (9..9, false), (2..2, false)]
            {
                for is_ordered in [false, true] {
                    let buffer = Buffer::zeros(10).unwrap();
                    let elements = |range| buffer.view().range(range).retained(0);
                    let uses = |range, writes| [Use { elements: elements(range), writes }];
                    let (one, other) = (uses(0..4, first), uses(range.clone(), second));
                    let (mut hazards, mut known) = (Hazards::default(), [(); 2].map(|()| Known::default()));
                    known[0].advance(0);
                    hazards.note("one", &one, 0, &known[0]).unwrap();
                    if is_ordered {
                        let of_first = known[0].clone();
                        known[1].learn(&of_first);
                    }
                    known[1].advance(1);
                    let is_hazard = hazards.note("other", &other, 1, &known[1]).is_err();
                    let expected = overlaps && (first || second) && !is_ordered;
                    assert_eq!(is_hazard, expected, "{first} {second} {range:?} {is_ordered}");
                }
            }
        }
    }
}
