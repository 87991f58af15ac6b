//! What the members of a meeting do together once all have come: copies and sums in shared memory.
//!
//! Sums are taken in ascending order of the members, element by element, whatever the block size; so every backend
//! that keeps this order gives the same bits.

use std::fmt;
use std::ops::Range;

use pipezero_models::ElementType;
use pipezero_partition::part_bytes;

use super::part;
use crate::run::memory::Tagged;

/// What the members of a round do together; equal on all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    AllGather {
        range: Range<usize>,
        element_type: ElementType,
    },
    /// Of f32, as every sum of elements.
    ReduceScatter {
        range: Range<usize>,
    },
    AllReduce {
        range: Range<usize>,
    },
    /// The first member sends to the second.
    Transfer {
        num_elements: usize,
        element_type: ElementType,
    },
    AddWords {
        num_words: usize,
    },
}

const F32_BYTES: usize = ElementType::F32.num_bytes();

impl Operation {
    /// Whether the member at `position` only gives: it need not wait until what it gave is there.
    pub(super) fn is_sent_by(&self, position: usize) -> bool {
        matches!(self, Self::Transfer { .. }) && position == 0
    }

    /// Bytes that one member of `group_size` sends; in a transfer, the sender.
    pub(super) fn sent_bytes(&self, group_size: usize) -> u64 {
        match self {
            Self::AllGather { range, element_type } => {
                part_bytes(range.len(), group_size, element_type.num_bytes())
            }
            Self::ReduceScatter { range } => part_bytes(range.len(), group_size, F32_BYTES),
            Self::AllReduce { range } => 2 * part_bytes(range.len(), group_size, F32_BYTES),
            Self::Transfer { num_elements, element_type } => (num_elements * element_type.num_bytes()) as u64,
            Self::AddWords { num_words } => 2 * part_bytes(*num_words, group_size, size_of::<u64>()),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllGather { range, element_type } => {
                write!(f, "an all-gather of {} {}..{}", plural(*element_type), range.start, range.end)
            }
            Self::ReduceScatter { range } => {
                write!(f, "a reduce-scatter of elements {}..{}", range.start, range.end)
            }
            Self::AllReduce { range } => {
                write!(f, "an all-reduce of elements {}..{}", range.start, range.end)
            }
            Self::Transfer { num_elements, element_type } => {
                write!(f, "a transfer of {num_elements} {}", plural(*element_type))
            }
            Self::AddWords { num_words } => write!(f, "a sum of {num_words} words"),
        }
    }
}

/// Elements as messages name them: of f32 where nothing else is said.
pub(super) fn plural(element_type: ElementType) -> &'static str {
    match element_type {
        ElementType::F32 => "elements",
        ElementType::Bf16 => "bf16 elements",
        ElementType::F16 => "f16 elements",
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
        Operation::AllGather { range, .. } => all_gather(payloads, range),
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
        let (before, own, after) = around(payloads, owner);
        for peer in before.iter_mut().chain(after) {
            elements_mut(peer).copy_from(part.start, elements(own), part.clone());
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
        let (before, own, after) = around(payloads, owner);
        let before: Vec<_> = before.iter().map(|payload| elements(payload).read()).collect();
        let after: Vec<_> = after.iter().map(|payload| elements(payload).read()).collect();
        elements_mut(own).write(|own| {
            for start in part.clone().step_by(BLOCK) {
                let block = start..part.end.min(start + BLOCK);
                let sums = &mut sums[..block.len()];
                let mut in_order = (before.iter().map(|values| &values[block.clone()]))
                    .chain(std::iter::once(&own[block.clone()]))
                    .chain(after.iter().map(|values| &values[block.clone()]));
                sums.copy_from_slice(in_order.next().expect("a group has members"));
                for values in in_order {
                    sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += value);
                }
                own[block].copy_from_slice(sums);
            }
        });
    }
}

/// The payload of `owner`, between those before it and those after it.
fn around(payloads: &mut [Payload], owner: usize) -> (&mut [Payload], &mut Payload, &mut [Payload]) {
    let (before, rest) = payloads.split_at_mut(owner);
    let (own, after) = rest.split_first_mut().expect("the owner is a member");
    (before, own, after)
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

fn elements(payload: &Payload) -> &Tagged {
    match payload {
        Payload::Elements(buffer) => buffer,
        Payload::Words(_) => unreachable!("members of one operation bring the same kind of payload"),
    }
}

fn elements_mut(payload: &mut Payload) -> &mut Tagged {
    match payload {
        Payload::Elements(buffer) => buffer,
        Payload::Words(_) => unreachable!("members of one operation bring the same kind of payload"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_sends_what_the_direct_exchange_moves() {
        let gathered = |element_type| Operation::AllGather { range: 4..16, element_type };
        let sent = |num_elements, element_type| Operation::Transfer { num_elements, element_type };
        for (operation, group_size, num_bytes) in [
            (gathered(ElementType::F32), 1, 0),
            (gathered(ElementType::F32), 2, 24),
            (gathered(ElementType::F32), 4, 36),
            (gathered(ElementType::Bf16), 4, 18),
            (gathered(ElementType::F16), 3, 16),
            (Operation::ReduceScatter { range: 4..16 }, 4, 36),
            (Operation::AllReduce { range: 4..16 }, 4, 72),
            (Operation::AllReduce { range: 3..3 }, 4, 0),
            (sent(7, ElementType::F32), 2, 28),
            (sent(7, ElementType::Bf16), 2, 14),
            // Words that cannot be cut into equal parts are padded.
            (Operation::AddWords { num_words: 5 }, 4, 2 * 3 * 2 * 8),
            (Operation::AddWords { num_words: 0 }, 4, 0),
        ] {
            assert_eq!(operation.sent_bytes(group_size), num_bytes, "{operation} in a group of {group_size}");
        }
    }
}
