//! Strict: every use has its own gather and is resharded right after.
//!
//! What a reader of FSDP expects, and the least memory. With prefetch a unit that is used twice in a row is gathered
//! again beside its first copy if a second buffer is large enough, else after it: the count of gathers stays.

use alloc::vec::Vec;

use super::question::{GatheredCopy, Question};

/// One copy per use, each gathered as soon as the prefetch allows and a buffer is free.
pub(super) fn plan(question: &Question<'_>) -> Vec<GatheredCopy> {
    let &Question { uses, bytes, buffers, prefetch_units } = question;
    let mut copies: Vec<GatheredCopy> = Vec::with_capacity(uses.len());
    let mut is_free = vec![true; buffers.len()];
    // `[use]`: its buffer.
    let mut taken = Vec::with_capacity(uses.len());
    for position in 0..uses.len() {
        while let Some(of) = uses.get(copies.len())
            && copies.len() <= position + prefetch_units
        {
            // As the checker assigns them: the smallest that fits.
            let fits = |&buffer: &usize| is_free[buffer] && buffers[buffer] >= bytes[of.unit.index()];
            let Some(buffer) = (0..buffers.len()).rev().find(fits) else { break };
            is_free[buffer] = false;
            taken.push(buffer);
            let first_use = copies.len();
            copies.push(GatheredCopy { unit: of.unit, issued_at: position, first_use, last_use: first_use });
        }
        is_free[taken[position]] = true;
    }
    copies
}
