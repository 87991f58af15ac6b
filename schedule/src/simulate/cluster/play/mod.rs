//! Playing a program on a cluster: events in the order of time.
//!
//! Between two ticks at which something is due nothing changes. At such a tick, what is due is handled, all ranks go
//! on until they wait or work, and messages that all of their ranks have issued are sent; then rates are computed
//! again.

mod advance;
mod runner;

use alloc::vec;
use alloc::vec::Vec;

use self::runner::Runner;
use super::grid::Grid;
use super::load::Load;
use super::message_costs::MessageCosts;
use super::messages::{Messages, Site};
use super::own_time::OwnTime;
use super::progress::{Due, Progress, UNKNOWN};
use super::setting::Cluster;
use super::timeline::ClusterTimeline;
use crate::simulate::lanes::Lanes;
use crate::simulate::synchronizations::Synchronizations;
use crate::simulate::{Costs, Span, Timeline};

pub(super) struct Play<'a> {
    grid: Grid<'a>,
    costs: &'a Costs,
    message_costs: MessageCosts<'a>,
    own_time: OwnTime<'a>,
    /// `[data rank]`: the messages that are not completed yet.
    lanes: Vec<Lanes>,
    messages: Messages,
    synchronizations: Synchronizations,
    load: Load,
    progress: Progress,
    /// `[rank]`
    runners: Vec<Runner>,
    /// Ranks that may go on.
    ready: Vec<usize>,
    /// `[rank][index]`
    spans: Vec<Vec<Span>>,
    /// `[rank][index]`: what messages took of the rank's own time at an instruction; empty if they take none.
    held: Vec<Vec<u64>>,
}

impl<'a> Play<'a> {
    pub(super) fn new(grid: Grid<'a>, costs: &'a Costs, cluster: &'a Cluster, load: Load) -> Self {
        let message_costs = MessageCosts::new(grid, costs, cluster);
        let ranks = 0..grid.world_size();
        let spans = |rank| vec![Span { start: UNKNOWN, end: UNKNOWN }; grid.row(rank).len()];
        let held = |rank| vec![0; grid.row(rank).len()];
        Self {
            grid,
            costs,
            own_time: OwnTime { speeds: &cluster.speeds, jitter: cluster.jitter },
            messages: Messages::new(grid, &message_costs, costs.links),
            synchronizations: Synchronizations::new(grid.program, grid.data_degree),
            progress: Progress::new(load.num_works(), load.scale()),
            load,
            runners: vec![Runner::default(); grid.world_size()],
            lanes: (0..grid.data_degree).map(|_| Lanes::new(grid.program)).collect(),
            ready: ranks.clone().rev().collect(),
            spans: ranks.clone().map(spans).collect(),
            held: if message_costs.hold_ranks() { ranks.map(held).collect() } else { Vec::new() },
            message_costs,
        }
    }

    pub(super) fn run(mut self) -> ClusterTimeline {
        loop {
            while let Some(rank) = self.ready.pop() {
                self.advance(rank);
            }
            let load = &self.load;
            self.progress.settle(|work| load.rate(work));
            let Some(due) = self.progress.next(u64::MAX) else { break };
            self.take(due);
            while let Some(due) = self.progress.next(self.progress.now()) {
                self.take(due);
            }
        }
        self.into_timeline()
    }

    fn take(&mut self, due: Due) {
        match due {
            Due::Work(work) => match (work as usize).checked_sub(self.grid.world_size()) {
                None => self.end_work(work as usize),
                Some(lane) => {
                    self.load.end_message(lane, &mut self.progress);
                    self.leave(lane);
                    self.send_next(lane);
                }
            },
            Due::Arrival(rank) => self.ready.push(rank as usize),
            Due::Synchronization(synchronization) => self.part(synchronization as usize),
        }
    }

    /// A rank has issued its message, which is sent when all of its ranks have issued it and the link is free.
    fn issue(&mut self, site: Site) {
        let number = self.messages.at(self.grid, site);
        if self.messages.issue(number) {
            self.send_next(self.messages.message(number).lane);
        }
    }

    /// Sends what waits for a lane's link, until something occupies it.
    fn send_next(&mut self, lane: usize) {
        while let Some(number) = self.messages.take_link(lane) {
            let message = self.messages.message(number);
            let now = self.progress.now();
            message.for_each_end(self.grid, |Site { rank, index }, _| self.spans[rank][index].start = now);
            if message.cost.occupied > 0 {
                self.load.begin_message(message.lane, &mut self.progress);
                self.progress.begin(self.load.lane_work(message.lane), message.cost.occupied);
                return;
            }
            self.leave(message.lane);
        }
    }

    /// A message leaves its link: it has ended for its sender, and it arrives after its latency.
    fn leave(&mut self, lane: usize) {
        let number = self.messages.leave(lane);
        let message = self.messages.message(number);
        message.for_each_end(self.grid, |end, latency| self.end_after(latency, end));
    }

    /// A message ends for a rank, which continues if it waits for it.
    fn end_after(&mut self, latency: u64, Site { rank, index }: Site) {
        self.spans[rank][index].end = self.progress.now() + latency;
        if self.runners[rank].waits_for.take_if(|of| *of == index).is_some() {
            self.progress.after(latency, Due::Arrival(rank as u32));
        }
    }

    /// The members of a synchronization go on together.
    fn part(&mut self, synchronization: usize) {
        for &rank in self.synchronizations.members(synchronization) {
            let index = self.runners[rank].leave_synchronization();
            self.spans[rank][index].end = self.progress.now();
            self.ready.push(rank);
        }
    }

    fn into_timeline(self) -> ClusterTimeline {
        let mut spans: Vec<_> = self.spans.into_iter().map(Some).collect();
        let mut held: Vec<_> = self.held.into_iter().map(Some).collect();
        let timelines = (0..self.grid.data_degree).map(|data_rank| {
            let pipeline_ranks = self.grid.program.ranks();
            let ranks: Vec<usize> =
                pipeline_ranks.map(|pipeline_rank| self.grid.rank(pipeline_rank, data_rank)).collect();
            Timeline {
                spans: ranks.iter().filter_map(|&rank| spans[rank].take()).collect(),
                ends: ranks.iter().map(|&rank| self.runners[rank].ended).collect(),
                held: ranks.iter().filter_map(|&rank| held.get_mut(rank)?.take()).collect(),
            }
        });
        ClusterTimeline { timelines: timelines.collect() }
    }
}
