//! Units of different sizes: the plan with the fewest gathered bytes of a few.
//!
//! Belady's rule counts gathers, but gathers of different units cost different bytes. If copies could be moved
//! between buffers, the best plan would be a minimum-cost flow; since they cannot, what the flow keeps is kept as far
//! as it fits. That is nearly always all of it: `docs/zero.md` has the measured distance from the optimum. Belady's
//! plan is compared too, so that the result is never worse.
//!
//! Rejected: exact search (exponential in the buffers) and moving copies (a step would allocate and copy).

use alloc::vec::Vec;

use super::uses::next_uses;
use super::{GatheredCopy, Question, farthest, flow, keep};

/// The plan with the fewest bytes; of those with the fewest gathers; of those with the fewest late ones.
///
/// If units are equal, or each is gathered only once, Belady's plan is the best there is.
pub(super) fn plan(question: &Question<'_>) -> Vec<GatheredCopy> {
    let mut best = farthest::plan(question);
    let mut read = question.uses.iter().map(|of| question.bytes[of.unit.index()]);
    let first_bytes = read.next();
    if read.all(|bytes| Some(bytes) == first_bytes) || gathers_once(question, &best) {
        return best;
    }
    let next_uses = next_uses(question.uses, question.bytes.len());
    let mut consider = |wanted: &[bool]| {
        let plan = keep::plan(question, &next_uses, wanted);
        if cost(question, &plan) < cost(question, &best) {
            best = plan;
        }
    };
    if let Some(kept) = flow::kept(question, &next_uses) {
        consider(&kept);
    }
    consider(&largest_first(question, &next_uses));
    consider(&densest_first(question, &next_uses));
    best
}

/// Keeps the largest units, over short gaps before long ones.
pub(super) fn largest_first(question: &Question<'_>, next_uses: &[Option<usize>]) -> Vec<bool> {
    packed(question, next_uses, |bytes, length| (bytes, u64::MAX - length))
}

/// Keeps what saves the most bytes for each use over which it takes a buffer.
pub(super) fn densest_first(question: &Question<'_>, next_uses: &[Option<usize>]) -> Vec<bool> {
    // Scaled, since it is compared in integers.
    packed(question, next_uses, |bytes, length| (u128::from(bytes) << 64) / u128::from(length))
}

fn gathers_once(question: &Question<'_>, copies: &[GatheredCopy]) -> bool {
    let mut is_gathered = vec![false; question.bytes.len()];
    copies.iter().all(|copy| !core::mem::replace(&mut is_gathered[copy.unit.index()], true))
}

/// Bytes, gathers, gathers that are issued later than the prefetch asks.
fn cost(question: &Question<'_>, copies: &[GatheredCopy]) -> (u128, usize, usize) {
    let bytes = copies.iter().map(|copy| u128::from(question.bytes[copy.unit.index()])).sum();
    let is_late = |copy: &&GatheredCopy| copy.issued_at + question.prefetch_units > copy.first_use;
    (bytes, copies.len(), copies.iter().filter(is_late).count())
}

/// What to keep, chosen greedily: gaps are filled in descending order of a key of bytes and length, as long as fewer
/// copies stay than there are buffers beside those for the uses in a window.
///
/// Time: the length of all gaps, at most uses times units.
fn packed<K: Ord>(
    question: &Question<'_>,
    next_uses: &[Option<usize>],
    key: impl Fn(u64, u64) -> K,
) -> Vec<bool> {
    let &Question { uses, bytes, buffers, prefetch_units } = question;
    let mut left: Vec<usize> =
        (0..uses.len()).map(|position| buffers.len() - question.window(position).count()).collect();
    let gap = |(after, next_use): (usize, &Option<usize>)| {
        let next_use = (*next_use)?;
        let unit_bytes = bytes[uses[after].unit.index()];
        Some((core::cmp::Reverse(key(unit_bytes, (next_use - after) as u64)), after, next_use))
    };
    let mut gaps: Vec<_> = next_uses.iter().enumerate().filter_map(gap).collect();
    gaps.sort();
    let mut wanted = vec![false; uses.len()];
    for (_, after, next_use) in gaps {
        // Where the unit is itself in the window, it is counted.
        let inside = after + 1..next_use.saturating_sub(prefetch_units).max(after + 1);
        if left[inside.clone()].iter().all(|&left| left > 0) {
            left[inside].iter_mut().for_each(|left| *left -= 1);
            wanted[after] = true;
        }
    }
    wanted
}
