//! Carries out an operation once all members have joined: copies and sums in memory that all of them can reach.
//!
//! Sums are taken in ascending order of the members, element by element, whatever the block size; so every backend
//! that keeps this order gives the same bits.

use std::ops::Range;

use pipezero_models::queue::Event;
use pipezero_models::{Queue, View};

use super::operation::Operation;
use super::part::part;
use crate::memory::TrackedBuffer;

/// What a member contributes to a round and gets back from it.
#[derive(Debug)]
pub(super) enum Payload {
    Elements(TrackedBuffer),
    Words(Vec<u64>),
}

/// Asks the lane's queue for an operation, once each member's compute queue has come to the point where its payload is `ready`, and
/// returns where the lane has carried it out. Words are the host's, and are added at once. It cannot fail: an operation that could is
/// refused when it is started.
pub(super) fn exchange(
    lane: &dyn Queue,
    operation: &Operation,
    payloads: &mut [Payload],
    ready: &[Event],
) -> Event {
    if let Operation::AddWords { .. } = operation {
        add_words(payloads);
        return Event::REACHED;
    }
    for (position, ready) in ready.iter().enumerate() {
        lane.wait(ready, operation.waits(position)[0]);
    }
    match operation {
        Operation::AllGather { range, .. } => all_gather(lane, payloads, range),
        Operation::ReduceScatter { range } => reduce_scatter(lane, payloads, range),
        Operation::AllReduce { range } => {
            reduce_scatter(lane, payloads, range);
            all_gather(lane, payloads, range);
        }
        // On one device the ends hand over their memory, with the events.
        Operation::Transfer { num_elements, .. } => {
            let [Payload::Elements(source), Payload::Elements(destination)] = payloads else {
                unreachable!("a transfer has two members with elements")
            };
            if destination.is_beside(source) && destination.len() == source.len() {
                destination.swap_contents(source);
            } else {
                let range = 0..*num_elements;
                lane.copy(source.view().range(range.clone()), destination.view_mut().range(range));
            }
        }
        Operation::AddWords { .. } => unreachable!("words were added above"),
    }
    lane.record()
}

fn all_gather(lane: &dyn Queue, payloads: &mut [Payload], range: &Range<usize>) {
    let size = payloads.len();
    for owner in 0..size {
        let part = equal_part(range, size, owner);
        let (before, own, after) = around(payloads, owner);
        for peer in before.iter_mut().chain(after) {
            let own = elements(own).view().range(part.clone());
            lane.copy(own, elements_mut(peer).view_mut().range(part.clone()));
        }
    }
}

fn reduce_scatter(lane: &dyn Queue, payloads: &mut [Payload], range: &Range<usize>) {
    let size = payloads.len();
    if size == 1 {
        return;
    }
    for owner in 0..size {
        let part = equal_part(range, size, owner);
        let (before, own, after) = around(payloads, owner);
        let (before, after) = (terms(before, &part), terms(after, &part));
        lane.sum_in_order(&before, elements_mut(own).view_mut().range(part), &after);
    }
}

fn terms<'a>(payloads: &'a [Payload], part: &Range<usize>) -> Vec<View<'a>> {
    payloads.iter().map(|payload| elements(payload).view().range(part.clone())).collect()
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
