//! When each action of an order starts, in columns: a forward, `I` and `W` take one, a full backward two, messages
//! none. For pictures only, of orders that can never run too; [`crate::simulate`] times those that run.

use alloc::vec;
use alloc::vec::Vec;

use crate::by_micro_batch::ByMicroBatch;
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
    let mut ends = Ends::new(rows, num_stages);
    let mut starts: Vec<Vec<Option<usize>>> = rows.iter().map(|row| vec![None; row.len()]).collect();
    let mut next = vec![0; rows.len()];
    let mut free_from = vec![0; rows.len()];
    loop {
        let mut progressed = false;
        for (row_index, row) in rows.iter().enumerate() {
            while let Some(&action) = row.get(next[row_index]) {
                let Some(ready) = ends.inputs_ready(action) else { break };
                let start = ready.max(free_from[row_index]);
                starts[row_index][next[row_index]] = Some(start);
                free_from[row_index] = start + columns(action.kind);
                ends.set(action, free_from[row_index]);
                next[row_index] += 1;
                progressed = true;
            }
        }
        if !progressed {
            return starts;
        }
    }
}

/// When each stage's forward and input gradient of each micro-batch end.
struct Ends {
    num_stages: usize,
    forward: ByMicroBatch<Option<usize>>,
    input_gradient: ByMicroBatch<Option<usize>>,
}

impl Ends {
    fn new(rows: &[&[StageAction]], num_stages: usize) -> Self {
        let actions = rows.iter().copied().flatten();
        let num_micro_batches = actions.map(|action| action.micro_batch.0 + 1).max().unwrap_or(0);
        let none = ByMicroBatch::new(num_stages, num_micro_batches, None);
        Self { num_stages, forward: none.clone(), input_gradient: none }
    }

    /// The column from which the action's inputs are ready, if they ever are.
    fn inputs_ready(&self, action: StageAction) -> Option<usize> {
        let StageAction { kind, stage, micro_batch } = action;
        match kind {
            ComputeKind::Forward => match stage.0.checked_sub(1) {
                None => Some(0),
                Some(before) => self.forward[(before as usize, micro_batch)],
            },
            ComputeKind::Backward | ComputeKind::BackwardInput => {
                let own_forward = self.forward[(stage.index(), micro_batch)]?;
                if stage.index() + 1 == self.num_stages {
                    return Some(own_forward);
                }
                Some(own_forward.max(self.input_gradient[(stage.index() + 1, micro_batch)]?))
            }
            ComputeKind::BackwardWeight => self.input_gradient[(stage.index(), micro_batch)],
        }
    }

    fn set(&mut self, action: StageAction, end: usize) {
        let at = (action.stage.index(), action.micro_batch);
        match action.kind {
            ComputeKind::Forward => self.forward[at] = Some(end),
            ComputeKind::Backward | ComputeKind::BackwardInput => self.input_gradient[at] = Some(end),
            ComputeKind::BackwardWeight => {}
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
