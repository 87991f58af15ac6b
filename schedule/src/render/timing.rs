//! When each action of an order starts, in columns: a forward, `I` and `W` take one, a full backward two, messages
//! none. For pictures only, of orders that can never run too; [`crate::simulate`] times those that run.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::id::MicroBatch;
use crate::order::{ComputeKind, StageAction};

/// Columns that an action takes.
pub(super) fn columns(kind: ComputeKind) -> usize {
    match kind {
        ComputeKind::Forward | ComputeKind::BackwardInput | ComputeKind::BackwardWeight => 1,
        ComputeKind::Backward => 2,
    }
}

/// `[row][position]`: the column in which the action starts; `None` for what never can.
pub(super) fn start_columns(rows: &[&[StageAction]], num_stages: usize) -> Vec<Vec<Option<usize>>> {
    let mut ends: BTreeMap<Operand, usize> = BTreeMap::new();
    let mut starts: Vec<Vec<Option<usize>>> = rows.iter().map(|row| vec![None; row.len()]).collect();
    let mut next = vec![0; rows.len()];
    let mut free_from = vec![0; rows.len()];
    loop {
        let mut progressed = false;
        for (row_index, row) in rows.iter().enumerate() {
            while let Some(&action) = row.get(next[row_index]) {
                let mut inputs = inputs(action, num_stages).into_iter();
                let ready =
                    inputs.try_fold(free_from[row_index], |ready, input| Some(ready.max(*ends.get(&input)?)));
                let Some(start) = ready else { break };
                starts[row_index][next[row_index]] = Some(start);
                free_from[row_index] = start + columns(action.kind);
                if action.kind != ComputeKind::BackwardWeight {
                    let is_gradient = action.kind != ComputeKind::Forward;
                    ends.insert((is_gradient, action.stage.0, action.micro_batch), free_from[row_index]);
                }
                next[row_index] += 1;
                progressed = true;
            }
        }
        if !progressed {
            return starts;
        }
    }
}

/// What an action reads: whether it is a gradient, the stage that made it, and the micro-batch.
type Operand = (bool, u32, MicroBatch);

fn inputs(StageAction { kind, stage, micro_batch }: StageAction, num_stages: usize) -> Vec<Operand> {
    let stage = stage.0;
    match kind {
        ComputeKind::Forward => stage.checked_sub(1).map(|of| (false, of, micro_batch)).into_iter().collect(),
        ComputeKind::BackwardWeight => vec![(true, stage, micro_batch)],
        ComputeKind::Backward | ComputeKind::BackwardInput if stage as usize + 1 == num_stages => {
            vec![(false, stage, micro_batch)]
        }
        ComputeKind::Backward | ComputeKind::BackwardInput => {
            vec![(false, stage, micro_batch), (true, stage + 1, micro_batch)]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{zb_h1, zb_h2, zb_v};
    use crate::options::LowerOptions;
    use crate::simulate::{Costs, MessageCost, UnitCosts, simulate};
    use crate::testing::{all_orders, checked, looped_orders};

    /// Where a column is a tick, pictures of generated orders are the simulator's timelines.
    #[test]
    fn generated_orders_start_when_the_simulator_says() {
        let mut num_starts = 0;
        for (p, m) in (1..=4).flat_map(|p| (1..=6).map(move |m| (p, m))) {
            let split = [zb_h1, zb_h2, zb_v].map(|generate| generate(p, m).unwrap());
            for order in all_orders(p, m).into_iter().chain(looped_orders(p, 2, m)).chain(split) {
                let rows: Vec<&[StageAction]> = order.rows.iter().map(Vec::as_slice).collect();
                let starts = start_columns(&rows, order.placement.num_stages());
                let program = checked(&order, 1, &LowerOptions::ZERO_0);
                let costs = Costs::uniform(&program, UnitCosts::of_compute(1, 1, 1), MessageCost::default());
                let timeline = simulate(&program, &costs).unwrap();
                for rank in program.ranks() {
                    let row = program.row(rank).iter().zip(timeline.row(rank));
                    let computes = row.filter(|(of, _)| of.is_micro_batch_compute());
                    let played: Vec<_> = computes.map(|(_, span)| Some(span.start as usize)).collect();
                    assert_eq!(starts[rank.index()], played, "rank {rank} of {}", order.to_csv());
                    num_starts += played.len();
                }
            }
        }
        assert!(num_starts > 5_000, "{num_starts}");
    }
}
