//! Carries out an operation once all members have joined: copies and sums in shared memory.
//!
//! Sums are taken in ascending order of the members, element by element, whatever the block size; so every backend
//! that keeps this order gives the same bits.

use std::ops::Range;

use super::operation::Operation;
use super::part::part;
use crate::run::memory::TrackedBuffer;

/// What a member contributes to a round and gets back from it.
#[derive(Debug)]
pub(super) enum Payload {
    Elements(TrackedBuffer),
    Words(Vec<u64>),
}

/// Carries out an operation. It cannot fail: an operation that could is refused when it is started.
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

fn elements(payload: &Payload) -> &TrackedBuffer {
    match payload {
        Payload::Elements(buffer) => buffer,
        Payload::Words(_) => unreachable!("members of one operation contribute the same kind of payload"),
    }
}

fn elements_mut(payload: &mut Payload) -> &mut TrackedBuffer {
    match payload {
        Payload::Elements(buffer) => buffer,
        Payload::Words(_) => unreachable!("members of one operation contribute the same kind of payload"),
    }
}
