//! Belady's rule: the unit whose next use is farthest is evicted.

use alloc::vec::Vec;

use super::question::{GatheredCopy, Question};
use super::uses::next_uses;

/// Belady's rule (IBM Systems Journal 5(2), 1966): when a gather needs a buffer, the unit whose next use is farthest
/// is evicted, among those in a buffer large enough. For equal units no plan that prefetches as far gathers less.
///
/// An evicted copy is resharded right after its last use, not only when its buffer is needed: the future is known, so
/// no copy is held without a use to come.
///
/// Units of uses from the current one up to the prefetched one are not evicted. They may hold all buffers that are
/// large enough; then the gather is issued later, at its use at the latest, where all earlier uses have ended and no
/// later one has been prefetched.
pub(super) fn plan(question: &Question<'_>) -> Vec<GatheredCopy> {
    let &Question { uses, bytes, prefetch_units, .. } = question;
    let next_uses = next_uses(uses, bytes.len());
    let mut cache = Cache::new(question);
    let mut next_gather = 0;
    for (position, &next_use) in next_uses.iter().enumerate() {
        while next_gather < uses.len() && next_gather <= position + prefetch_units {
            if !cache.hold(question, position, next_gather) {
                break;
            }
            next_gather += 1;
        }
        cache.pass(question, position, next_use);
    }
    cache.copies
}

/// What is in the buffers.
struct Cache {
    copies: Vec<GatheredCopy>,
    /// `[buffer]`: the copy in it.
    content: Vec<Option<usize>>,
    /// `[unit]`: its buffer.
    place: Vec<Option<usize>>,
    /// `[unit]`: its next use, of those not passed; `usize::MAX` if there is none. Known of units that are held.
    next_use: Vec<usize>,
}

impl Cache {
    fn new(question: &Question<'_>) -> Self {
        let num_units = question.bytes.len();
        Self {
            copies: Vec::new(),
            content: vec![None; question.buffers.len()],
            place: vec![None; num_units],
            next_use: vec![usize::MAX; num_units],
        }
    }

    /// Makes sure that the unit of use `wanted` is held from `position` on, if a buffer is free or can be freed.
    fn hold(&mut self, question: &Question<'_>, position: usize, wanted: usize) -> bool {
        let unit = question.uses[wanted].unit;
        if self.place[unit.index()].is_some() {
            return true;
        }
        // Nothing in the buffer counts as needed never again; the last of equals is the smallest.
        let needed = |buffer: usize| match self.content[buffer] {
            Some(copy) => self.next_use[self.copies[copy].unit.index()],
            None => usize::MAX,
        };
        let fits = |&buffer: &usize| {
            question.buffers[buffer] >= question.bytes[unit.index()] && needed(buffer) >= wanted
        };
        let Some(buffer) = (0..question.buffers.len()).filter(fits).max_by_key(|&buffer| needed(buffer))
        else {
            return false;
        };
        if let Some(copy) = self.content[buffer].replace(self.copies.len()) {
            self.place[self.copies[copy].unit.index()] = None;
        }
        self.place[unit.index()] = Some(buffer);
        self.next_use[unit.index()] = wanted;
        self.copies.push(GatheredCopy { unit, issued_at: position, first_use: wanted, last_use: wanted });
        true
    }

    /// Uses the copy of the unit that is read at `position`.
    fn pass(&mut self, question: &Question<'_>, position: usize, next_use: Option<usize>) {
        let unit = question.uses[position].unit;
        let buffer = self.place[unit.index()].expect("the unit of the nearest use is held");
        let copy = self.content[buffer].expect("a unit's buffer holds its copy");
        self.copies[copy].last_use = position;
        self.next_use[unit.index()] = next_use.unwrap_or(usize::MAX);
    }
}
