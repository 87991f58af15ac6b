//! When each action of an order starts, in columns: a forward, `I` and `W` take one, a full backward two, messages
//! none. A picture's clock, not a prediction.

use alloc::vec;
use alloc::vec::Vec;

use crate::id::Stage;
use crate::order::{ComputeKind, ComputeOrder, StageAction};

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

/// The share of a step that a rank idles on average, by the picture's clock: for orders without a closed form. An order
/// that never ends idles all the time.
pub fn idle_share(order: &ComputeOrder) -> f64 {
    let rows: Vec<&[StageAction]> = order.rows.iter().map(Vec::as_slice).collect();
    let starts = start_columns(&rows, order.placement.num_stages());
    let timed = order.rows.iter().flatten().zip(starts.iter().flatten());
    let Some((busy, end)) = timed
        .map(|(action, start)| Some((columns(action.kind), (*start)? + columns(action.kind))))
        .try_fold((0, 0), |(busy, end), of| of.map(|(columns, ends)| (busy + columns, end.max(ends))))
    else {
        return 1.0;
    };
    let all = rows.len() * end;
    if all > 0 { 1.0 - busy as f64 / all as f64 } else { 0.0 }
}

/// When each stage's forward and input gradient of each micro-batch end.
struct Ends {
    num_stages: usize,
    num_micro_batches: usize,
    forward: Vec<Option<usize>>,
    input_gradient: Vec<Option<usize>>,
}

impl Ends {
    fn new(rows: &[&[StageAction]], num_stages: usize) -> Self {
        let actions = rows.iter().copied().flatten();
        let num_micro_batches = actions.map(|action| action.micro_batch.index() + 1).max().unwrap_or(0);
        let none = vec![None; num_stages * num_micro_batches];
        Self { num_stages, num_micro_batches, forward: none.clone(), input_gradient: none }
    }

    fn at(&self, stage: Stage, action: StageAction) -> usize {
        stage.index() * self.num_micro_batches + action.micro_batch.index()
    }

    /// The column from which on the action's inputs are there, if they ever are.
    fn inputs_ready(&self, action: StageAction) -> Option<usize> {
        let stage = action.stage;
        match action.kind {
            ComputeKind::Forward => match stage.0.checked_sub(1) {
                None => Some(0),
                Some(before) => self.forward[self.at(Stage(before), action)],
            },
            ComputeKind::Backward | ComputeKind::BackwardInput => {
                let own_forward = self.forward[self.at(stage, action)]?;
                if stage.index() + 1 == self.num_stages {
                    return Some(own_forward);
                }
                Some(own_forward.max(self.input_gradient[self.at(Stage(stage.0 + 1), action)]?))
            }
            ComputeKind::BackwardWeight => self.input_gradient[self.at(stage, action)],
        }
    }

    fn set(&mut self, action: StageAction, end: usize) {
        let at = self.at(action.stage, action);
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
    use crate::closed_form::{bubble_share, looped_bubble_share};
    use crate::generate::{bfs, gpipe, one_f_one_b};

    #[test]
    fn orders_with_a_closed_form_idle_as_it_says() {
        for p in 1..5 {
            for m in 1..7 {
                for order in [gpipe(p, m).unwrap(), one_f_one_b(p, m).unwrap()] {
                    assert!((idle_share(&order) - bubble_share(p, m)).abs() < 1e-12, "p = {p}, m = {m}");
                }
                if p > 1 {
                    let expected = looped_bubble_share(p, 2, m);
                    assert!(
                        (idle_share(&bfs(p, 2, m).unwrap()) - expected).abs() < 1e-12,
                        "p = {p}, m = {m}"
                    );
                }
            }
        }
    }
}
