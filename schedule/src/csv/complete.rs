//! Every stage on one rank, every action once, no gaps.
//!
//! Actions are sorted and walked beside what must be there, so that neither time nor space depends on the numbers
//! that a file states.

use alloc::vec::Vec;

use super::error::{CsvError, CsvPlace, CsvRule, CsvSite};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::order::{ComputeKind, StageAction};
use crate::placement::Placement;

/// An action and its place.
type Placed = (StageAction, CsvPlace);

/// The placement and number of micro-batches of complete rows, none of them empty. Stage and micro-batch
/// numbers are below the number of actions.
pub(super) fn check(mut placed: Vec<Placed>) -> Result<(Placement, u32), CsvError> {
    let placement = placement(&placed)?;
    let num_micro_batches = 1 + placed.iter().map(|(action, _)| action.micro_batch.0).max().unwrap_or(0);
    let trains = placed.iter().any(|(action, _)| action.kind != ComputeKind::Forward);
    // By stage and micro-batch, and of one of these `F`, `B`, `I`, `W`.
    placed.sort_by_key(|(action, _)| (action.stage, action.micro_batch, action.kind));
    for pair in placed.windows(2) {
        let [(before, first), (action, place)] = pair else { continue };
        if before == action {
            return Err(CsvError::at(*place, *action, CsvRule::Repeated { first: *first }));
        }
    }
    let mut left = placed.as_slice();
    for stage in (0..placement.num_stages() as u32).map(Stage) {
        for micro_batch in (0..num_micro_batches).map(MicroBatch) {
            let is_of = |action: &StageAction| action.stage == stage && action.micro_batch == micro_batch;
            let here = left.iter().take_while(|(action, _)| is_of(action)).count();
            let (of_pair, rest) = left.split_at(here);
            left = rest;
            if let Some((kind, halves_of)) = missing(of_pair, trains)? {
                // Named where the other half stands; what is wholly missing, at the end of its row.
                let action = StageAction { kind, stage, micro_batch };
                let rule = CsvRule::Missing(action);
                return Err(match halves_of {
                    Some((half, place)) => CsvError::at(place, half, rule),
                    None => CsvError { site: CsvSite::RowEnd(placement.rank(stage).index() + 1), rule },
                });
            }
        }
    }
    Ok((placement, num_micro_batches))
}

/// What the actions of one stage and micro-batch lack, with the half of a backward that the file has.
fn missing(actions: &[Placed], trains: bool) -> Result<Option<(ComputeKind, Option<Placed>)>, CsvError> {
    let of_kind = |kind| actions.iter().find(|(action, _)| action.kind == kind).copied();
    let full = of_kind(ComputeKind::Backward);
    let (input, weight) = (of_kind(ComputeKind::BackwardInput), of_kind(ComputeKind::BackwardWeight));
    if let (Some((_, full)), Some((half, place))) = (full, input.or(weight)) {
        return Err(CsvError::at(place, half, CsvRule::BothBackwards { full }));
    }
    Ok(match (full, input, weight) {
        _ if of_kind(ComputeKind::Forward).is_none() => Some((ComputeKind::Forward, None)),
        (None, Some(half), None) => Some((ComputeKind::BackwardWeight, Some(half))),
        (None, None, Some(half)) => Some((ComputeKind::BackwardInput, Some(half))),
        (None, None, None) if trains => Some((ComputeKind::Backward, None)),
        _ => None,
    })
}

/// Where each stage lies.
fn placement(placed: &[Placed]) -> Result<Placement, CsvError> {
    let num_stages = 1 + placed.iter().map(|(action, _)| action.stage.index()).max().unwrap_or(0);
    let mut row_of = vec![None; num_stages];
    for &(action, place) in placed {
        let first_row = *row_of[action.stage.index()].get_or_insert(place.row);
        if first_row != place.row {
            return Err(CsvError::at(place, action, CsvRule::TwoRanks { stage: action.stage, first_row }));
        }
    }
    let ranks = row_of.iter().enumerate().map(|(stage, row)| {
        row.map(|row| PipelineRank(row as u32 - 1))
            .ok_or(CsvError { site: CsvSite::File, rule: CsvRule::MissingStage(Stage(stage as u32)) })
    });
    let ranks = ranks.collect::<Result<Vec<_>, _>>()?;
    Ok(Placement::new(ranks).expect("every row has an action, so every rank a stage"))
}
