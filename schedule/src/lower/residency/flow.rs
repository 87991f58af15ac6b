//! The best set of copies to keep, if copies could be moved between buffers: a flow of the most bytes.
//!
//! Any c different units fit into the buffers of the c largest, so apart from which buffer holds which unit only
//! their number counts: while a use runs, c - 1 other units may stay. Keeping a copy over the gap between two uses
//! saves a gather of its bytes. So c - 1 units of flow run along the row, each either idle from use to use or inside
//! a gap, and the flow of least cost, which is integral, saves the most (Chrobak, Karloff, Payne, Vishwanathan: New
//! results on server problems, SIAM J. Discrete Math. 4(2), 1991, section 3, for weighted caching). With prefetch the
//! units of the coming k uses count as in use, so c - 1 - k stay.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::question::Question;

/// Uses times units of flow above which no flow is computed: some tens of milliseconds of work for a rank.
const MAX_WORK: usize = 1 << 17;

/// `[use]`: whether to keep the copy until the unit's next use; `None` if the row is too long for that.
///
/// Exact without prefetch, if copies could be moved. Time: units of flow times uses times their logarithm.
pub(super) fn kept(question: &Question<'_>, next_uses: &[Option<usize>]) -> Option<Vec<bool>> {
    let num_units_of_flow = question.buffers.len().saturating_sub(1 + question.prefetch_units);
    if num_units_of_flow.saturating_mul(question.uses.len()) > MAX_WORK {
        return None;
    }
    let mut flow = Flow::new(question, next_uses);
    for number in 0..num_units_of_flow {
        let saved = if number == 0 { flow.first_path() } else { flow.next_path() };
        if saved == 0 {
            break;
        }
        flow.augment();
    }
    let is_kept = |(after, next_use): (usize, &Option<usize>)| {
        next_use.is_some_and(|next_use| match flow.gap_ends[after + 1] {
            // The next use is prefetched before this one ends: nothing to pay.
            None => next_use <= after + 1 + question.prefetch_units,
            Some(_) => flow.is_in_gap[after + 1],
        })
    };
    Some(next_uses.iter().enumerate().map(is_kept).collect())
}

/// How a node is reached on the shortest path.
#[derive(Clone, Copy)]
enum Step {
    /// Idle over the use before the node, or taking back flow that idles over the use behind it.
    Idle,
    IdleBack,
    /// Through the gap that ends at the node, or taking back flow through the gap that begins there.
    Gap,
    GapBack,
}

/// A residual network. Node `t` lies before use `t`; the arc over a use has unlimited capacity, that over a gap a
/// capacity of one.
struct Flow {
    /// `[node]`: where the gap that begins here ends, where the one that ends here begins, and what it saves.
    gap_ends: Vec<Option<usize>>,
    gap_begins: Vec<Option<usize>>,
    gap_bytes: Vec<i128>,
    /// `[node]`: flow through the gap that begins here; idle flow over the use behind.
    is_in_gap: Vec<bool>,
    num_idle: Vec<usize>,
    /// `[node]`: the least cost from the first node, over the paths so far.
    potential: Vec<i128>,
    reached_by: Vec<Option<Step>>,
}

impl Flow {
    fn new(question: &Question<'_>, next_uses: &[Option<usize>]) -> Self {
        let num_nodes = question.uses.len() + 1;
        let mut flow = Self {
            gap_ends: vec![None; num_nodes],
            gap_begins: vec![None; num_nodes],
            gap_bytes: vec![0; num_nodes],
            is_in_gap: vec![false; num_nodes],
            num_idle: vec![0; num_nodes],
            potential: vec![0; num_nodes],
            reached_by: vec![None; num_nodes],
        };
        for (after, next_use) in next_uses.iter().enumerate() {
            let Some(end) = next_use.and_then(|next_use| next_use.checked_sub(question.prefetch_units))
            else {
                continue;
            };
            let begin = after + 1;
            if begin < end {
                flow.gap_ends[begin] = Some(end);
                flow.gap_begins[end] = Some(begin);
                flow.gap_bytes[begin] = i128::from(question.bytes[question.uses[after].unit.index()]);
            }
        }
        flow
    }

    /// Finds the cheapest path while nothing flows; the network has no cycle yet. Returns what the path saves.
    fn first_path(&mut self) -> i128 {
        for node in 1..self.potential.len() {
            self.potential[node] = self.potential[node - 1];
            self.reached_by[node] = Some(Step::Idle);
            if let Some(begin) = self.gap_begins[node] {
                let through = self.potential[begin] - self.gap_bytes[begin];
                if through < self.potential[node] {
                    self.potential[node] = through;
                    self.reached_by[node] = Some(Step::Gap);
                }
            }
        }
        -self.potential[self.potential.len() - 1]
    }

    /// Finds the next cheapest path by Dijkstra's algorithm: potentials make every residual cost non-negative.
    fn next_path(&mut self) -> i128 {
        let num_nodes = self.potential.len();
        let mut distance: Vec<Option<i128>> = vec![None; num_nodes];
        let mut is_final = vec![false; num_nodes];
        let mut queue = BinaryHeap::from([Reverse((0, 0))]);
        distance[0] = Some(0);
        while let Some(Reverse((far, node))) = queue.pop() {
            if core::mem::replace(&mut is_final[node], true) {
                continue;
            }
            for (to, cost, step) in self.arcs(node).into_iter().flatten() {
                let far = far + cost + self.potential[node] - self.potential[to];
                if distance[to].is_none_or(|best| far < best) {
                    distance[to] = Some(far);
                    self.reached_by[to] = Some(step);
                    queue.push(Reverse((far, to)));
                }
            }
        }
        for (potential, distance) in self.potential.iter_mut().zip(distance) {
            *potential += distance.expect("idling reaches every node");
        }
        -self.potential[num_nodes - 1]
    }

    /// The residual arcs out of a node: to where, at which cost.
    fn arcs(&self, node: usize) -> [Option<(usize, i128, Step)>; 4] {
        let idle = (node + 1 < self.potential.len()).then_some((node + 1, 0, Step::Idle));
        let idle_back = node.checked_sub(1).filter(|&before| self.num_idle[before] > 0);
        let gap = self.gap_ends[node].filter(|_| !self.is_in_gap[node]);
        let gap_back = self.gap_begins[node].filter(|&begin| self.is_in_gap[begin]);
        [
            idle,
            idle_back.map(|before| (before, 0, Step::IdleBack)),
            gap.map(|end| (end, -self.gap_bytes[node], Step::Gap)),
            gap_back.map(|begin| (begin, self.gap_bytes[begin], Step::GapBack)),
        ]
    }

    /// Sends one unit of flow along the path found last.
    fn augment(&mut self) {
        let mut node = self.potential.len() - 1;
        while node > 0 {
            node = match self.reached_by[node].expect("the path begins at the first node") {
                Step::Idle => {
                    self.num_idle[node - 1] += 1;
                    node - 1
                }
                Step::IdleBack => {
                    self.num_idle[node] -= 1;
                    node + 1
                }
                Step::Gap => {
                    let begin = self.gap_begins[node].expect("the gap through which the node is reached");
                    self.is_in_gap[begin] = true;
                    begin
                }
                Step::GapBack => {
                    self.is_in_gap[node] = false;
                    self.gap_ends[node].expect("the gap back to whose begin the path leads")
                }
            };
        }
    }
}
