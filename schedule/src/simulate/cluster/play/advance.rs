//! A rank in its row: it completes the messages it waits for, computes, issues, and goes on.

use super::Play;
use super::runner::{Next, Task};
use crate::instruction::{Instruction, Lane};
use crate::simulate::cluster::load::WorkKind;
use crate::simulate::cluster::messages::Site;
use crate::simulate::cluster::progress::{Due, UNKNOWN};

impl Play<'_> {
    /// A rank goes on until it waits or is at work.
    pub(super) fn advance(&mut self, rank: usize) {
        debug_assert!(self.runners[rank].task.is_none(), "a rank at work is not ready");
        while let Next::Task(task, ticks) = self.next(rank) {
            if ticks > 0 {
                self.runners[rank].task = Some((task, self.progress.now()));
                self.load.begin_rank(rank, task.kind(), &mut self.progress);
                self.progress.begin(rank, ticks);
                return;
            }
            self.finish(rank, task);
        }
    }

    /// A rank's work has ended.
    pub(super) fn end_work(&mut self, rank: usize) {
        self.load.end_rank(rank, &mut self.progress);
        let (task, since) = self.runners[rank].task.take().expect("only what a rank is at can end");
        if task.kind() == WorkKind::Message {
            self.hold(rank, self.progress.now() - since);
        }
        self.finish(rank, task);
        self.advance(rank);
    }

    /// Notes that messages took of a rank's own time.
    fn hold(&mut self, rank: usize, ticks: u64) {
        if let Some(held) = self.held.get_mut(rank) {
            // What is completed at the row's end is attributed to its last instruction.
            let at = self.runners[rank].next.min(held.len() - 1);
            held[at] += ticks;
        }
    }

    fn next(&mut self, rank: usize) -> Next {
        let pipeline_rank = self.grid.pipeline_rank(rank);
        let row = &self.rows[pipeline_rank.index()];
        let index = self.runners[rank].next;
        if self.runners[rank].meets {
            return Next::Wait;
        }
        let Some(&instruction) = row.instructions.get(index) else { return self.drain(rank) };
        for &wait in &self.grid.program.waits(pipeline_rank.at(index))[self.runners[rank].num_waited..] {
            // A compute was done before the row went on.
            if let Some(lane) = self.rows[pipeline_rank.index()].lane(wait)
                && let Some(landing) = self.landing(rank, lane, wait)
            {
                return landing;
            }
            self.runners[rank].num_waited += 1;
        }
        let own_time = &self.own_time;
        match (instruction, instruction.lane()) {
            (Instruction::GradientNorm | Instruction::AddTied { .. }, _) => {
                self.spans[rank][index].start = self.progress.now();
                Next::Task(Task::Join, own_time.of_compute(rank, index, self.own_part(rank, instruction)))
            }
            (_, Lane::Compute) => {
                self.spans[rank][index].start = self.progress.now();
                Next::Task(Task::Compute, own_time.of_compute(rank, index, self.costs.compute(instruction)))
            }
            _ => {
                let cost = self.message_costs.of(self.grid.data_rank(rank), instruction);
                Next::Task(Task::Issue, own_time.of(rank, cost.issue))
            }
        }
    }

    /// Completes the first message of a lane that was issued up to a position of the row, or waits for it;
    /// `None` if all are completed.
    fn landing(&mut self, rank: usize, lane: usize, until: usize) -> Option<Next> {
        let row = &self.rows[self.grid.pipeline_rank(rank).index()];
        let index =
            row.position(lane, self.runners[rank].num_landed[lane]).filter(|&index| index <= until)?;
        let end = self.spans[rank][index].end;
        if end == UNKNOWN {
            self.runners[rank].waits_for = Some(index);
            return Some(Next::Wait);
        }
        if end > self.progress.now() {
            self.progress.after(end - self.progress.now(), Due::Arrival(rank as u32));
            return Some(Next::Wait);
        }
        let cost = self.message_costs.of(self.grid.data_rank(rank), row.instructions[index]);
        Some(Next::Task(Task::Land(lane), self.own_time.of(rank, cost.landing)))
    }

    /// Messages that nothing waited for are completed at the end, lane after lane.
    fn drain(&mut self, rank: usize) -> Next {
        let num_lanes = self.rows[self.grid.pipeline_rank(rank).index()].num_lanes();
        for lane in 0..num_lanes {
            if let Some(landing) = self.landing(rank, lane, usize::MAX) {
                return landing;
            }
        }
        self.runners[rank].ended = self.progress.now();
        Next::Wait
    }

    /// A rank's part of a synchronization before the others are needed.
    fn own_part(&self, rank: usize, instruction: Instruction) -> u64 {
        let synchronization = self.synchronizations.of(self.grid.data_rank(rank), instruction);
        match instruction {
            Instruction::GradientNorm => {
                self.costs.own_norm(self.grid.program, self.grid.pipeline_rank(rank))
            }
            // With both uses on one rank, the addition is its own.
            _ if self.synchronizations.members(synchronization).len() == 1 => self.costs.add_tied,
            _ => 0,
        }
    }

    /// How long a synchronization takes once all have come.
    fn together(&self, synchronization: usize, instruction: Instruction) -> u64 {
        match instruction {
            Instruction::GradientNorm => self.costs.gradient_norm,
            _ if self.synchronizations.members(synchronization).len() == 1 => 0,
            _ => self.costs.add_tied,
        }
    }

    /// What follows from the end of a task.
    fn finish(&mut self, rank: usize, task: Task) {
        let index = self.runners[rank].next;
        match task {
            Task::Land(lane) => self.runners[rank].num_landed[lane] += 1,
            Task::Issue => {
                self.runners[rank].go_on();
                self.issue(Site { rank, index });
            }
            Task::Compute => {
                self.runners[rank].go_on();
                self.spans[rank][index].end = self.progress.now();
            }
            Task::Join => {
                let instruction = self.rows[self.grid.pipeline_rank(rank).index()].instructions[index];
                let synchronization = self.synchronizations.of(self.grid.data_rank(rank), instruction);
                self.runners[rank].meets = true;
                if self.synchronizations.join(synchronization) {
                    let together = self.together(synchronization, instruction);
                    self.progress.after(together, Due::Synchronization(synchronization as u32));
                }
            }
        }
    }
}
