//! What the members of a meeting do together once all have come: copies and sums in shared memory.
//!
//! Sums are taken in ascending order of the members, element by element, whatever the block size; so every backend
//! that keeps this order gives the same bits.

use std::fmt;
use std::ops::Range;

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
            Self::AllGather { range } => {
                write!(f, "an all-gather of elements {}..{}", range.start, range.end)
            }
            Self::ReduceScatter { range } => {
                write!(f, "a reduce-scatter of elements {}..{}", range.start, range.end)
            }
            Self::AllReduce { range } => {
                write!(f, "an all-reduce of elements {}..{}", range.start, range.end)
            }
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

/// Cannot fail: what could be wrong with an operation is refused when it is started.
pub(super) fn exchange(operation: &Operation, payloads: &mut [Payload]) {
    match operation {
        Operation::AllGather { range } => all_gather(payloads, range),
        Operation::ReduceScatter { range } => reduce_scatter(payloads, range),
        Operation::AllReduce { range } => {
            reduce_scatter(payloads, range);
            all_gather(payloads, range);
        }
        Operation::Transfer { .. } => {
            let [Payload::Elements(source), Payload::Elements(destination)] = payloads else {
                unreachable!("a transfer has two members with elements")
            };
            destination.swap_contents(source);
        }
        Operation::AddWords { .. } => add_words(payloads),
    }
}

fn all_gather(payloads: &mut [Payload], range: &Range<usize>) {
    let size = payloads.len();
    for owner in 0..size {
        let part = equal_part(range, size, owner);
        let (before, rest) = payloads.split_at_mut(owner);
        let (own, after) = rest.split_first_mut().expect("the owner is a member");
        let own = elements(own).read();
        for peer in before.iter_mut().chain(after) {
            elements(peer).write(|values| values[part.clone()].copy_from_slice(&own[part.clone()]));
        }
    }
}

/// Elements summed at a time: small enough for the innermost cache.
const BLOCK: usize = 1024;

fn reduce_scatter(payloads: &mut [Payload], range: &Range<usize>) {
    let size = payloads.len();
    if size == 1 {
        return;
    }
    let mut sums = [0.0_f32; BLOCK];
    for owner in 0..size {
        let part = equal_part(range, size, owner);
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
}

fn equal_part(range: &Range<usize>, size: usize, owner: usize) -> Range<usize> {
    part(range, size, owner).expect("a range that has no equal parts was refused at the start")
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
