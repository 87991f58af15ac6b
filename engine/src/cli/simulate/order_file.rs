//! An order of one's own, as a file in PyTorch's pipelining CSV.

use std::path::{Path, PathBuf};

use pipezero_schedule::{ComputeOrder, PipelineRank};

use super::program_size::{MAX_INSTRUCTIONS, MAX_STAGES};
use crate::config::order_text;

/// Why a file is no schedule that can be played by itself.
#[derive(Debug, thiserror::Error)]
#[error("--schedule {}: {rule}", path.display())]
pub(in crate::cli) struct OrderFileError {
    path: PathBuf,
    rule: Rule,
}

#[derive(Debug, thiserror::Error)]
enum Rule {
    #[error(
        "cannot be read: {0}; name a file in PyTorch's pipelining CSV, a row per rank, such as `0F0,0F1,0B0,0B1`"
    )]
    Unread(String),
    #[error(transparent)]
    NoOrder(Box<pipezero_schedule::CsvError>),
    #[error("it has forwards alone, and times are of whole steps; add the backwards")]
    NoBackward,
    #[error(
        "stages on rank 0: {first}, on rank {rank}: {found}; times are of a whole rank, and all ranks are alike: let each have as many, or \
         name a run file of timed layers, where each stage has times of its own"
    )]
    Uneven { first: usize, rank: usize, found: usize },
    #[error("it has {0} stages: at most {MAX_STAGES} are played; use fewer")]
    TooManyStages(usize),
    #[error(
        "it has {0} instructions, messages included: at most {MAX_INSTRUCTIONS} are played; use fewer micro-batches"
    )]
    TooLarge(u128),
}

/// Reads an order that a whole step can be played of.
pub(super) fn read(path: &Path) -> Result<ComputeOrder, OrderFileError> {
    checked(path).map_err(|rule| OrderFileError { path: path.to_owned(), rule })
}

fn checked(path: &Path) -> Result<ComputeOrder, Rule> {
    let text = order_text(path).map_err(|error| Rule::Unread(error.to_string()))?;
    let order = ComputeOrder::from_csv(&text).map_err(|error| Rule::NoOrder(Box::new(error)))?;
    if !order.has_backward() {
        return Err(Rule::NoBackward);
    }
    let placement = &order.placement;
    let num_stages = |rank| placement.stages(PipelineRank(rank as u32)).count();
    let first = num_stages(0);
    if let Some(rank) = (1..placement.num_ranks()).find(|&rank| num_stages(rank) != first) {
        return Err(Rule::Uneven { first, rank, found: num_stages(rank) });
    }
    if placement.num_stages() as u128 > MAX_STAGES {
        return Err(Rule::TooManyStages(placement.num_stages()));
    }
    // An activation and a gradient over each edge, both sent and received; reduction, update and norm.
    let computes: u128 = order.rows.iter().map(|row| row.len() as u128).sum();
    let messages = 4 * (placement.num_stages() as u128 - 1) * u128::from(order.num_micro_batches);
    let instructions = computes + messages + 3 * placement.num_stages() as u128;
    if instructions > MAX_INSTRUCTIONS { Err(Rule::TooLarge(instructions)) } else { Ok(order) }
}
