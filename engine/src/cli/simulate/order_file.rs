//! An order of one's own, as a file in PyTorch's pipelining CSV.

use std::path::{Path, PathBuf};

use pipezero_schedule::{ComputeOrder, PipelineRank};

use super::program_size::{MostPlayed, ProgramSize, TooMany};
use crate::files::order::{NAME_ONE, order_text};

/// Why a file is no schedule that can be played by itself.
#[derive(Debug, thiserror::Error)]
#[error("--schedule {}: {rule}", path.display())]
pub(in crate::cli) struct OrderFileError {
    path: PathBuf,
    rule: Rule,
}

#[derive(Debug, thiserror::Error)]
enum Rule {
    #[error("cannot be read: {0}; {NAME_ONE}")]
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
    #[error("it has {found} stages: at most {} are played; use fewer", most.num_stages)]
    TooManyStages { found: u128, most: MostPlayed },
    #[error(
        "it has {num_instructions} instructions, messages included: at most {} are played; use fewer micro-batches, about {fitting}",
        most.num_instructions
    )]
    TooLarge { num_instructions: u128, fitting: u128, most: MostPlayed },
}

impl OrderFileError {
    /// Whether the order is one, and only too large.
    pub(in crate::cli) fn is_too_large(&self) -> bool {
        matches!(self.rule, Rule::TooManyStages { .. } | Rule::TooLarge { .. })
    }
}

/// Reads an order that a whole step can be played of.
pub(super) fn read(path: &Path) -> Result<ComputeOrder, OrderFileError> {
    let order = order_text(path).map_err(|error| Rule::Unread(error.to_string()));
    order
        .and_then(|text| checked(&text, MostPlayed::HERE))
        .map_err(|rule| OrderFileError { path: path.to_owned(), rule })
}

fn checked(text: &str, most: MostPlayed) -> Result<ComputeOrder, Rule> {
    let order = ComputeOrder::from_csv(text).map_err(|error| Rule::NoOrder(Box::new(error)))?;
    if !order.has_backward() {
        return Err(Rule::NoBackward);
    }
    ProgramSize::of_order(&order).check(most).map_err(|too_many| match too_many {
        TooMany::Stages(found) => Rule::TooManyStages { found, most },
        TooMany::Instructions { num_instructions, fitting } => {
            Rule::TooLarge { num_instructions, fitting, most }
        }
    })?;
    let placement = &order.placement;
    let num_stages = |rank| placement.stages(PipelineRank(rank as u32)).count();
    let first = num_stages(0);
    if let Some(rank) = (1..placement.num_ranks()).find(|&rank| num_stages(rank) != first) {
        return Err(Rule::Uneven { first, rank, found: num_stages(rank) });
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two stages on each of two ranks, there and back: 12 computes and 4 messages over each of two edges with every
    /// micro-batch, and 10 at the end.
    const V_SHAPED: &str = "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1\n";

    #[test]
    fn files_that_are_too_large_say_how_large_may_be() {
        let refused = |num_stages, num_instructions| {
            checked(V_SHAPED, MostPlayed { num_stages, num_instructions }).map_err(|rule| rule.to_string())
        };
        assert!(refused(4, 42).is_ok());
        assert_eq!(refused(3, 42).unwrap_err(), "it has 4 stages: at most 3 are played; use fewer");
        assert_eq!(
            refused(4, 41).unwrap_err(),
            "it has 42 instructions, messages included: at most 41 are played; use fewer micro-batches, about 1"
        );
    }

    #[test]
    fn only_what_is_too_large_is_sound() {
        let of =
            |text, most| OrderFileError { path: "own.csv".into(), rule: checked(text, most).unwrap_err() };
        let small = MostPlayed { num_stages: 4, num_instructions: 41 };
        assert!(of(V_SHAPED, small).is_too_large());
        assert!(of(V_SHAPED, MostPlayed { num_stages: 3, ..small }).is_too_large());
        assert!(!of("0F0\n", small).is_too_large());
        assert!(!of("0F0,0B0\n1F0,2F0,2B0,1B0\n", small).is_too_large());
    }
}
