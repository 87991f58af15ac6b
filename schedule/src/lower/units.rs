//! First pass: a stage's work becomes its units' work, in chain order forwards and against it backwards.
//!
//! A unit that recomputes does so right before its backward, into the one buffer that a rank has for it: recomputing
//! several units at once would use up what checkpointing saves. After an input gradient alone that buffer would be
//! occupied until the weight gradient, so split backwards are refused.

use alloc::vec::Vec;

use super::{LowerError, early_backwards};
use crate::chain::Chain;
use crate::id::{PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::order::{ComputeKind, ComputeOrder, StageAction};

/// `rows[rank]` of compute instructions.
pub(super) fn expand(order: &ComputeOrder, chain: &Chain) -> Result<Vec<Vec<Instruction>>, LowerError> {
    let num_ranks = chain.num_ranks();
    if order.rows.len() != num_ranks {
        return Err(LowerError::NumRows { num_rows: order.rows.len(), num_ranks });
    }
    let forwards = order.rows.iter().flatten().filter(|action| action.kind == ComputeKind::Forward);
    let num_forwards = forwards.count();
    // Tables of stages times micro-batches come later: their size is the order's own from here on.
    let expected = chain.num_stages() as u64 * u64::from(order.num_micro_batches);
    if num_forwards as u64 != expected {
        return Err(LowerError::NumForwards { num_forwards, expected });
    }
    let expand_row = |(rank, row): (PipelineRank, &Vec<StageAction>)| {
        for &action in row {
            let placed = action.stage.index() < chain.num_stages()
                && chain.placement().rank(action.stage) == rank
                && action.micro_batch.0 < order.num_micro_batches;
            if !placed {
                return Err(LowerError::Misplaced { rank, action });
            }
            let recomputes = |&unit: &Unit| chain.facts(unit).recomputes;
            if action.kind.is_half()
                && let Some(unit) = chain.units_of(action.stage).map(Unit).find(recomputes)
            {
                return Err(LowerError::SplitRecompute { action, unit });
            }
        }
        let mut expanded = Vec::new();
        for &action in early_backwards::moved(row, chain).iter() {
            expand_action(action, chain, &mut expanded);
        }
        Ok(expanded)
    };
    chain.ranks().zip(&order.rows).map(expand_row).collect()
}

fn expand_action(action: StageAction, chain: &Chain, row: &mut Vec<Instruction>) {
    let StageAction { kind, stage, micro_batch } = action;
    let push = |unit| {
        if kind == ComputeKind::Backward && chain.facts(unit).recomputes {
            row.push(Instruction::Recompute { unit, micro_batch });
        }
        row.push(kind.instruction(unit, micro_batch));
    };
    let units = chain.units_of(stage).map(Unit);
    if kind == ComputeKind::Forward { units.for_each(push) } else { units.rev().for_each(push) }
}
