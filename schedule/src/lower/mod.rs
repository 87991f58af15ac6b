//! Lowering: from a compute order to a program, one pass per file.
//!
//! ```text
//! compute order -> units -> transfers -> residency -> reduction -> tail -> program
//! ```
//!
//! `early_backwards.rs` changes the order where backwards do nothing, before the first pass. `row_reads.rs` is no pass: it answers what a row would gather for another choice of what is sharded.

mod early_backwards;
mod error;
mod receives;
mod reduction;
mod residency;
mod row_reads;
mod stuck;
mod tail;
mod transfers;
mod units;

use crate::chain::Chain;
use crate::gather_buffers;
use crate::options::{LowerOptions, Weights};
use crate::order::ComputeOrder;
use crate::program::{Program, Purpose};
use crate::unit_facts::UnitFacts;

pub use error::LowerError;
pub use row_reads::{RowGathers, RowReads};
pub use stuck::{Lack, StuckRank};
pub(crate) use tail::tail;

/// Turns a compute order into a program for these units.
///
/// `units` stand in chain order: stages ascending, at least one unit each. An order without a backward becomes an
/// evaluation program, without reductions and without a tail.
///
/// The result follows the rules of [`crate::CheckedProgram`] whenever the order itself does (each stage's work once,
/// after what it needs). Only the check proves it.
///
/// # Errors
/// [`LowerError`] if units, options or order contradict each other or themselves.
pub fn lower(
    order: &ComputeOrder,
    units: &[UnitFacts],
    options: &LowerOptions,
) -> Result<Program, LowerError> {
    let has_backward = order.has_backward();
    let chain = Chain::new(order.placement.clone(), units.to_vec())?;
    options.check(chain.num_ranks(), has_backward)?;
    let rows = units::expand(order, &chain)?;
    let purpose = if has_backward { Purpose::Training } else { Purpose::Evaluation };
    let mut rows = transfers::insert(rows, &chain, order.num_micro_batches, purpose)?;
    if let Weights::Sharded { residency, prefetch_units } = &options.weights {
        for (rank, row) in chain.ranks().zip(&mut rows) {
            let allowed = gather_buffers::allowed(&chain, rank, &options.weights);
            *row = residency::insert(row, &chain, &allowed, residency, *prefetch_units as usize);
        }
    }
    if purpose == Purpose::Training {
        for (rank, row) in chain.ranks().zip(&mut rows) {
            *row = reduction::insert(row, &chain, options);
            row.extend(tail(&chain, rank, options));
        }
    }
    Ok(Program { chain, num_micro_batches: order.num_micro_batches, purpose, options: options.clone(), rows })
}

#[cfg(test)]
mod tests;
