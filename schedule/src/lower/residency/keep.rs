//! From wanted copies to a plan: which copies stay until the unit's next use, in buffers between which nothing is
//! moved.
//!
//! A copy may stay over the gap between two uses if every use inside the gap, those prefetched with it, and every
//! copy that is wanted meanwhile still find buffers large enough. So a small unit that lies in a large buffer does
//! not stay there at the cost of a large one. This is decided when the gap begins, and no later decision moves a
//! copy. Each copy takes the smallest free buffer that fits, as the checker assigns them.

use alloc::vec::Vec;

use super::question::{GatheredCopy, Question};

/// The plan that keeps as many wanted copies as fit, in order of time, and then others that fit.
///
/// `wanted[use]`: whether the copy should stay until `next_uses[use]`. A copy whose next use is prefetched already
/// stays in any case.
///
/// Time: uses plus the length of all gaps, times the number of different buffer sizes.
pub(super) fn plan(
    question: &Question<'_>,
    next_uses: &[Option<usize>],
    wanted: &[bool],
) -> Vec<GatheredCopy> {
    let &Question { uses, bytes, prefetch_units, .. } = question;
    let mut buffers_left = BuffersLeft::new(question, next_uses, wanted);
    let mut holder = Holder::new(question);
    let mut next_gather = 0;
    for (position, of) in uses.iter().enumerate() {
        while next_gather < uses.len() && next_gather <= position + prefetch_units {
            if !holder.hold(question, position, next_gather) {
                break;
            }
            next_gather += 1;
        }
        let (buffer, copy) = holder.held[of.unit.index()].expect("a buffer is left for every use");
        holder.copies[copy].last_use = position;
        let stays = next_uses[position].is_some_and(|next_use| {
            let gap = Gap {
                after: position,
                next_use,
                buffer_bytes: question.buffers[buffer],
                bytes: bytes[of.unit.index()],
                is_wanted: wanted[position],
            };
            let stays = next_use < next_gather || buffers_left.has(&gap);
            if stays {
                buffers_left.take(&gap)
            } else {
                buffers_left.release(&gap)
            }
            stays
        });
        if !stays {
            holder.is_free[buffer] = true;
            holder.held[of.unit.index()] = None;
        }
    }
    holder.copies
}

/// Which buffer holds what.
struct Holder {
    copies: Vec<GatheredCopy>,
    is_free: Vec<bool>,
    /// `[unit]`: its buffer and its copy.
    held: Vec<Option<(usize, usize)>>,
}

impl Holder {
    fn new(question: &Question<'_>) -> Self {
        let held = vec![None; question.bytes.len()];
        Self { copies: Vec::new(), is_free: vec![true; question.buffers.len()], held }
    }

    /// Makes sure that the unit of use `wanted` is held from `position` on, if a buffer is free.
    fn hold(&mut self, question: &Question<'_>, position: usize, wanted: usize) -> bool {
        let unit = question.uses[wanted].unit;
        if self.held[unit.index()].is_some() {
            return true;
        }
        let fits = |&buffer: &usize| {
            self.is_free[buffer] && question.buffers[buffer] >= question.bytes[unit.index()]
        };
        let Some(buffer) = (0..question.buffers.len()).rev().find(fits) else { return false };
        self.is_free[buffer] = false;
        self.held[unit.index()] = Some((buffer, self.copies.len()));
        self.copies.push(GatheredCopy { unit, issued_at: position, first_use: wanted, last_use: wanted });
        true
    }
}

/// A copy that may stay from one use until the next of its unit.
struct Gap {
    after: usize,
    next_use: usize,
    buffer_bytes: u64,
    bytes: u64,
    is_wanted: bool,
}

/// For every use and buffer size, how many buffers at least that large are left when the use runs, beside those of
/// the copies that stay or are wanted, and of the uses in the window.
struct BuffersLeft {
    prefetch_units: usize,
    /// Different buffer sizes, descending.
    sizes: Vec<u64>,
    /// `[use, size]`.
    left: Vec<i32>,
}

impl BuffersLeft {
    fn new(question: &Question<'_>, next_uses: &[Option<usize>], wanted: &[bool]) -> Self {
        let mut sizes = question.buffers.to_vec();
        sizes.dedup();
        let at_least = |size| question.buffers.iter().filter(|&&buffer| buffer >= size).count() as i32;
        let num_buffers: Vec<i32> = sizes.iter().map(|&size| at_least(size)).collect();
        let mut buffers_left = Self { prefetch_units: question.prefetch_units, sizes, left: Vec::new() };
        for position in 0..question.uses.len() {
            buffers_left.left.extend(&num_buffers);
            for unit in question.window(position) {
                buffers_left.add(position, question.bytes[unit.index()], -1);
            }
        }
        for (after, next_use) in next_uses.iter().enumerate().filter(|&(after, _)| wanted[after]) {
            let bytes = question.bytes[question.uses[after].unit.index()];
            let next_use = next_use.unwrap_or(after);
            buffers_left.outside_window(after, next_use).for_each(|at| buffers_left.add(at, bytes, -1));
        }
        buffers_left
    }

    /// The uses inside a gap in whose window its unit is not.
    fn outside_window(&self, after: usize, next_use: usize) -> core::ops::Range<usize> {
        after + 1..next_use.saturating_sub(self.prefetch_units)
    }

    /// Whether `bytes` need a buffer of at least this size: they do not fit the next smaller one, if there is one.
    fn counts(&self, index: usize, bytes: u64) -> bool {
        self.sizes.get(index + 1).is_none_or(|&smaller| smaller < bytes)
    }

    /// Adds `number` buffers for `bytes` to those left at a use; fewer if negative.
    fn add(&mut self, at: usize, bytes: u64, number: i32) {
        for index in 0..self.sizes.len() {
            if self.counts(index, bytes) {
                self.left[at * self.sizes.len() + index] += number;
            }
        }
    }

    /// How many buffers of a size staying takes at a use: the copy's buffer, less the one that is already counted for
    /// it.
    fn taken(&self, gap: &Gap, at: usize, index: usize) -> i32 {
        let is_counted = gap.is_wanted || at + self.prefetch_units >= gap.next_use;
        i32::from(self.counts(index, gap.buffer_bytes))
            - i32::from(is_counted && self.counts(index, gap.bytes))
    }

    fn has(&self, gap: &Gap) -> bool {
        (gap.after + 1..=gap.next_use).all(|at| {
            let left = &self.left[at * self.sizes.len()..];
            (0..self.sizes.len()).all(|index| left[index] >= self.taken(gap, at, index))
        })
    }

    /// The copy stays.
    fn take(&mut self, gap: &Gap) {
        for at in gap.after + 1..=gap.next_use {
            for index in 0..self.sizes.len() {
                let taken = self.taken(gap, at, index);
                self.left[at * self.sizes.len() + index] -= taken;
            }
        }
    }

    /// The copy does not stay, and what was counted for it is left.
    fn release(&mut self, gap: &Gap) {
        if gap.is_wanted {
            self.outside_window(gap.after, gap.next_use).for_each(|at| self.add(at, gap.bytes, 1));
        }
    }
}
