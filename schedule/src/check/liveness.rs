//! Nothing waits in a cycle, even under unbuffered rendezvous.
//!
//! The program is executed in the abstract, under the tightest rules that any executor may follow:
//!
//! - a row is issued in order, and a compute-lane instruction keeps the row until it has ended;
//! - an instruction starts when those before it on its lane and those that it waits for have ended;
//! - a send and its receive end together, when both can start; so do the two ends of a tied addition, and the
//!   gradient norm of all ranks.
//!
//! No two instructions ever compete for the same thing, so the order of the abstract execution does not matter:
//! it ends if and only if every execution does, and executors with more buffers or fewer waits end as well.

use alloc::vec::Vec;

use super::{Blocked, Checked, Rule, Violation, Wait};
use crate::dependencies::Dependencies;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::{Instruction, Lane};
use crate::program::Program;

pub(super) fn check(program: &Program, dependencies: &Dependencies) -> Checked {
    let graph = Graph::new(program, dependencies);
    let mut execution = Execution::new(graph.num_nodes());
    for &row_start in &graph.row_starts {
        execution.run_from(&graph, graph.issued_with(row_start).collect());
    }
    match execution.ended.iter().position(|ended| !ended) {
        None => Ok(()),
        Some(stuck) => {
            let cycle = execution.cycle(&graph, stuck as u32);
            let first = cycle[0];
            Err(Violation::new(program, first.rank, first.step, Rule::Deadlock(cycle)))
        }
    }
}

/// The instructions of all rows as nodes, numbered row after row.
struct Graph<'a> {
    program: &'a Program,
    dependencies: &'a Dependencies,
    /// `[rank]`, and one past the end.
    row_starts: Vec<u32>,
    /// `[node]`: the last compute-lane instruction before it in its row.
    issued_after: Vec<Option<u32>>,
    /// `[node]`: the instruction before it on its lane.
    lane_after: Vec<Option<u32>>,
    /// `[node]`: the next instruction that ends together with it, in a ring; itself if it ends alone.
    together: Vec<u32>,
}

impl<'a> Graph<'a> {
    fn new(program: &'a Program, dependencies: &'a Dependencies) -> Self {
        let mut row_starts = vec![0];
        for row in &program.rows {
            row_starts.push(row_starts[row_starts.len() - 1] + row.len() as u32);
        }
        let num_nodes = row_starts[row_starts.len() - 1];
        let mut graph = Self {
            program,
            dependencies,
            row_starts,
            issued_after: Vec::with_capacity(num_nodes as usize),
            lane_after: Vec::with_capacity(num_nodes as usize),
            together: (0..num_nodes).collect(),
        };
        for rank in program.ranks() {
            graph.push_row_order(rank);
        }
        graph.join_transfers();
        for (embedding, head) in program.chain.summed_pairs() {
            graph.join_all(Instruction::AddTied { embedding, head });
        }
        graph.join_all(Instruction::GradientNorm);
        graph
    }

    fn num_nodes(&self) -> usize {
        self.together.len()
    }

    fn push_row_order(&mut self, rank: PipelineRank) {
        let num_edges = self.program.chain.num_edges();
        let mut last_on_lane = vec![None; 3 + num_edges];
        for (node, &instruction) in (self.row_starts[rank.index()]..).zip(self.program.row(rank)) {
            let lane = match instruction.lane() {
                Lane::Compute => 0,
                Lane::Gather => 1,
                Lane::Reduce => 2,
                Lane::Edge(edge) => 3 + edge.index(),
            };
            self.issued_after.push(last_on_lane[0]);
            self.lane_after.push(last_on_lane[lane].replace(node));
        }
    }

    fn join_transfers(&mut self) {
        for rank in self.program.ranks() {
            for (step, instruction) in self.program.row(rank).iter().enumerate() {
                let is_send = matches!(instruction, Instruction::Send { .. });
                if let Some(receive) = self.dependencies.peer(self.program, rank.at(step))
                    && is_send
                {
                    let [send, receive] = [rank.at(step), receive].map(|id| self.node(id));
                    self.together.swap(send, receive);
                }
            }
        }
    }

    /// Joins an instruction of several ranks, which each of their rows has once, in its tail.
    fn join_all(&mut self, joint: Instruction) {
        let mut before = None;
        for (rank, row) in self.program.rows.iter().enumerate() {
            let Some(step) = row.iter().rposition(|&instruction| instruction == joint) else { continue };
            let node = self.row_starts[rank] as usize + step;
            if let Some(before) = before.replace(node) {
                self.together.swap(before, node);
            }
        }
    }

    fn node(&self, id: InstructionId) -> usize {
        self.row_starts[id.rank.index()] as usize + id.index
    }

    fn id(&self, node: u32) -> InstructionId {
        let rank = self.row_starts.partition_point(|&start| start <= node) - 1;
        PipelineRank(rank as u32).at((node - self.row_starts[rank]) as usize)
    }

    /// The nodes from this one on that are issued at one time: up to the next compute, which holds up the rest.
    fn issued_with(&self, first: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let issuer = self.issued_after.get(first as usize);
        let rest = self.issued_after.get(first as usize..).unwrap_or(&[]);
        let in_row = self.row_starts.partition_point(|&start| start <= first);
        let row_end = self.row_starts.get(in_row).copied().unwrap_or(first);
        let num_issued = rest.iter().take_while(|&after| Some(after) == issuer).count() as u32;
        first..row_end.min(first + num_issued)
    }

    /// What a node itself waits for, the oldest reasons first.
    fn waits(&self, node: u32) -> impl Iterator<Item = (u32, Wait)> {
        let id = self.id(node);
        let start = self.row_starts[id.rank.index()];
        let issue = self.issued_after[node as usize].map(|before| (before, Wait::Issue));
        let lane = self.lane_after[node as usize].map(|before| (before, Wait::Lane));
        let needs = self.dependencies.waits(id).iter();
        issue.into_iter().chain(lane).chain(needs.map(move |&need| (start + need as u32, Wait::Need)))
    }

    /// A node and those that end together with it.
    fn ring(&self, node: u32) -> impl Iterator<Item = u32> {
        let next = |&member: &u32| Some(self.together[member as usize]);
        let mut first = true;
        core::iter::successors(Some(node), next)
            .take_while(move |&member| core::mem::take(&mut first) || member != node)
    }
}

/// Which nodes have ended, and which wait for the others.
///
/// A node waits for what it needs itself, one node at a time, and is then ready; a ring ends when all of it is. If
/// each member checked the needs of all members, the gradient norm of `p` ranks would take `p^3` checks.
struct Execution {
    ended: Vec<bool>,
    /// `[node]`: whether it is issued and all that it waits for itself has ended.
    ready: Vec<bool>,
    /// `[node]`: the nodes that wait for it, as a list: the first, and the next of each.
    first_waiting: Vec<Option<u32>>,
    next_waiting: Vec<Option<u32>>,
}

impl Execution {
    fn new(num_nodes: usize) -> Self {
        Self {
            ended: vec![false; num_nodes],
            ready: vec![false; num_nodes],
            first_waiting: vec![None; num_nodes],
            next_waiting: vec![None; num_nodes],
        }
    }

    /// Runs those of the nodes that can, and then everything that waited for them or is issued after them.
    fn run_from(&mut self, graph: &Graph<'_>, mut to_try: Vec<u32>) {
        while let Some(node) = to_try.pop() {
            if let Some((wait, _)) = self.unended_wait(graph, node) {
                self.next_waiting[node as usize] = self.first_waiting[wait as usize].replace(node);
                continue;
            }
            self.ready[node as usize] = true;
            if graph.ring(node).any(|member| !self.ready[member as usize]) {
                continue;
            }
            for member in graph.ring(node) {
                self.ended[member as usize] = true;
                let mut waiting = self.first_waiting[member as usize].take();
                while let Some(next) = waiting {
                    to_try.push(next);
                    waiting = self.next_waiting[next as usize].take();
                }
                // Reversed, so that the first is tried first.
                let next = member as usize + 1;
                if graph.issued_after.get(next) == Some(&Some(member)) {
                    to_try.extend(graph.issued_with(next as u32).rev());
                }
            }
        }
    }

    /// A node that this one itself waits for and that has not ended, and why.
    fn unended_wait(&self, graph: &Graph<'_>, node: u32) -> Option<(u32, Wait)> {
        graph.waits(node).find(|&(wait, _)| !self.ended[wait as usize])
    }

    /// What a stuck node waits for: a node of its own row or, if only the others that end together with it lack something,
    /// one of these.
    fn obstacle(&self, graph: &Graph<'_>, node: u32) -> (u32, Wait) {
        self.unended_wait(graph, node).unwrap_or_else(|| {
            let mut others = graph.ring(node).skip(1);
            let stuck = others.find(|&other| self.unended_wait(graph, other).is_some());
            (stuck.expect("what waits for nothing that is stuck has ended"), Wait::Partner)
        })
    }

    /// The cycle that a stuck node leads into: each node waits for one other, so following the waits ends in a cycle.
    fn cycle(&self, graph: &Graph<'_>, stuck: u32) -> Vec<Blocked> {
        let mut seen_at = vec![None; graph.num_nodes()];
        let mut path: Vec<Blocked> = Vec::new();
        let mut node = stuck;
        loop {
            if let Some(start) = seen_at[node as usize] {
                let mut cycle = path.split_off(start);
                // Shown from a compute on; every cycle has one, since only computes hold up a row.
                let computes = cycle.iter().position(|of| of.instruction.lane() == Lane::Compute);
                cycle.rotate_left(computes.unwrap_or(0));
                return cycle;
            }
            seen_at[node as usize] = Some(path.len());
            let id = graph.id(node);
            let (next, wait) = self.obstacle(graph, node);
            let instruction = graph.program.instruction(id);
            path.push(Blocked { rank: id.rank, step: id.index, instruction, wait });
            node = next;
        }
    }
}
