//! What a residency plan is made from, and what it is made of.

use super::uses::Use;
use crate::id::Unit;

/// What a residency plan is made from.
pub(super) struct Question<'a> {
    /// What the row reads, in order.
    pub(super) uses: &'a [Use],
    /// `[unit]`: bytes of the gathered unit.
    pub(super) bytes: &'a [u64],
    /// Bytes of the buffers, descending.
    pub(super) buffers: &'a [u64],
    /// How many uses ahead a gather is issued.
    pub(super) prefetch_units: usize,
}

impl Question<'_> {
    /// The units of a use and of those that are prefetched while it runs, each once.
    pub(super) fn window(&self, position: usize) -> impl Iterator<Item = Unit> {
        let end = self.uses.len().min(position + self.prefetch_units + 1);
        let window = &self.uses[position..end];
        let is_first = |&(at, of): &(usize, &Use)| window[..at].iter().all(|before| before.unit != of.unit);
        window.iter().enumerate().filter(is_first).map(|(_, of)| of.unit)
    }
}

/// A gathered copy of a unit, held from before one use until after another (the same, if strict).
///
/// Uses are counted along the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GatheredCopy {
    pub(super) unit: Unit,
    /// The use before which the gather is issued: at or before the first use.
    pub(super) issued_at: usize,
    pub(super) first_use: usize,
    pub(super) last_use: usize,
}
