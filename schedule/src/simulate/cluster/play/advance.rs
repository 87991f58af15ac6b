//! A rank in its row: it completes the messages that it waits for, computes, issues, and continues.

use super::Play;
use super::runner::{Next, Task};
use crate::instruction::{Instruction, Lane};
use crate::simulate::MessageCost;
use crate::simulate::cluster::load::WorkKind;
use crate::simulate::cluster::messages::Site;
use crate::simulate::cluster::progress::{Due, UNKNOWN};
use crate::simulate::lanes::{Lanes, RankLane, UnderWay};

impl Play<'_> {
    /// A rank continues until it waits or is at work.
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
        if task.kind() == WorkKind::Message
            && let Some(held) = self.held.get_mut(rank)
        {
            // What is completed at the row's end is attributed to its last instruction.
            let at = self.runners[rank].next.min(held.len() - 1);
            held[at] += self.progress.now() - since;
        }
        self.finish(rank, task);
        self.advance(rank);
    }

    fn lanes(&self, rank: usize) -> &Lanes {
        &self.lanes[self.grid.data_rank(rank)]
    }

    fn next(&mut self, rank: usize) -> Next {
        let (pipeline_rank, row) = (self.grid.pipeline_rank(rank), self.grid.row(rank));
        let index = self.runners[rank].next;
        if self.runners[rank].is_joined {
            return Next::Wait;
        }
        let Some(&instruction) = row.get(index) else { return self.drain(rank) };
        for &wait in &self.grid.program.waits(pipeline_rank.at(index))[self.runners[rank].num_waited..] {
            // A compute was done before the row went on.
            if let Some(lane) = self.lanes(rank).lane(pipeline_rank.index(), row[wait])
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
                Next::Task(Task::Join, own_time.of_compute(rank, index, self.parts(rank, instruction).0))
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
    fn landing(&mut self, rank: usize, lane: RankLane, until: usize) -> Option<Next> {
        let first = self.lanes(rank).first(lane);
        let UnderWay { index, landing } = first.filter(|first| first.index <= until)?;
        let end = self.spans[rank][index].end;
        if end == UNKNOWN {
            self.runners[rank].waits_for = Some(index);
            return Some(Next::Wait);
        }
        if end > self.progress.now() {
            self.progress.after(end - self.progress.now(), Due::Arrival(rank as u32));
            return Some(Next::Wait);
        }
        Some(Next::Task(Task::Land(lane), self.own_time.of(rank, landing)))
    }

    /// Messages that nothing waited for are completed at the end, lane after lane.
    fn drain(&mut self, rank: usize) -> Next {
        let pipeline_rank = self.grid.pipeline_rank(rank).index();
        for number in 0.. {
            let Some(lane) = self.lanes(rank).used(pipeline_rank, number) else { break };
            if let Some(landing) = self.landing(rank, lane, usize::MAX) {
                return landing;
            }
        }
        self.runners[rank].ended = self.progress.now();
        Next::Wait
    }

    /// What a synchronization takes of a rank by itself, and of all of them once the last has joined.
    fn parts(&self, rank: usize, instruction: Instruction) -> (u64, u64) {
        let synchronization = self.synchronizations.of(self.grid.data_rank(rank), instruction);
        match instruction {
            Instruction::GradientNorm => {
                let own = self.costs.own_norm(self.grid.program, self.grid.pipeline_rank(rank));
                (own, self.costs.gradient_norm)
            }
            // With both uses on one rank, the addition is its own.
            _ if self.synchronizations.members(synchronization).len() == 1 => (self.costs.add_tied, 0),
            _ => (0, self.costs.add_tied),
        }
    }

    /// What follows from the end of a task.
    fn finish(&mut self, rank: usize, task: Task) {
        let index = self.runners[rank].next;
        match task {
            Task::Land(lane) => self.lanes[self.grid.data_rank(rank)].land(lane),
            Task::Issue => {
                self.runners[rank].go_on();
                let (data_rank, instruction) = (self.grid.data_rank(rank), self.grid.row(rank)[index]);
                let MessageCost { landing, .. } = self.message_costs.of(data_rank, instruction);
                let pipeline_rank = self.grid.pipeline_rank(rank).index();
                self.lanes[data_rank].issue(pipeline_rank, instruction, UnderWay { index, landing });
                self.issue(Site { rank, index });
            }
            Task::Compute => {
                self.runners[rank].go_on();
                self.spans[rank][index].end = self.progress.now();
            }
            Task::Join => {
                let instruction = self.grid.row(rank)[index];
                let synchronization = self.synchronizations.of(self.grid.data_rank(rank), instruction);
                self.runners[rank].is_joined = true;
                if self.synchronizations.join(synchronization) {
                    let (_, together) = self.parts(rank, instruction);
                    self.progress.after(together, Due::Synchronization(synchronization as u32));
                }
            }
        }
    }
}
