//! Third pass: when sharded weights are gathered and given back.
//!
//! Weights do not change inside a step and the order is fixed, so which gathered units stay is a caching problem
//! with a known future. First every use is given a gathered *copy*, with its first and last use; then copies become
//! instructions: the gather stands before the compute `prefetch_units` uses ahead of the first use, or later if its
//! buffer is not free sooner; the reshard right after the last use.

mod cheapest;
mod farthest;
mod flow;
mod keep;
mod question;
mod strict;
mod uses;

use alloc::vec::Vec;

use self::question::{GatheredCopy, Question};
use self::uses::Use;
use crate::chain::Chain;
use crate::instruction::Instruction;
use crate::options::Residency;

/// The row with `UNSHARD` and `RESHARD`.
pub(super) fn insert(
    row: &[Instruction],
    chain: &Chain,
    buffers: &[u64],
    residency: &Residency,
    prefetch_units: usize,
) -> Vec<Instruction> {
    let uses = uses::of_row(row, chain);
    let bytes: Vec<u64> = chain.units().iter().map(|facts| facts.num_bytes).collect();
    let question = Question { uses: &uses, bytes: &bytes, buffers, prefetch_units };
    let copies = match residency {
        Residency::Strict => strict::plan(&question),
        Residency::Units(_) | Residency::PerRank(_) | Residency::All => cheapest::plan(&question),
    };
    emit(row, &uses, &copies)
}

/// Writes the copies, which are in order of first use, into the row.
fn emit(row: &[Instruction], uses: &[Use], copies: &[GatheredCopy]) -> Vec<Instruction> {
    let mut ends_at = vec![None; uses.len()];
    for copy in copies {
        ends_at[copy.last_use] = Some(copy.unit);
    }
    let mut emitted = Vec::with_capacity(row.len() + 2 * copies.len());
    let mut to_gather = copies.iter().peekable();
    let mut position = 0;
    let mut to_reshard = None;
    for (step, &instruction) in row.iter().enumerate() {
        // A send stays right behind its compute: another rank waits for it.
        if !matches!(instruction, Instruction::Send { .. }) {
            emitted.extend(to_reshard.take().map(|unit| Instruction::Reshard { unit }));
        }
        if uses.get(position).is_some_and(|of| of.begins == step) {
            while let Some(copy) = to_gather.next_if(|copy| copy.issued_at <= position) {
                emitted.push(Instruction::Unshard { unit: copy.unit });
            }
        }
        emitted.push(instruction);
        if uses.get(position).is_some_and(|of| of.ends == step) {
            to_reshard = ends_at[position];
            position += 1;
        }
    }
    emitted.extend(to_reshard.map(|unit| Instruction::Reshard { unit }));
    emitted
}

#[cfg(test)]
mod tests;
