//! What is under way: messages at each port and at each rank, ranks at work on each host; and the rates that follow.

use alloc::vec;
use alloc::vec::Vec;

use super::grid::Grid;
use super::progress::Progress;
use super::rates::Rates;
use super::setting::{Cluster, Computes, Cores};
use super::sharing::Ports;

/// What a rank is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    Compute,
    /// Issuing or completing a message.
    Message,
}

/// Works are numbered, those of ranks first, then those of lanes. A rank and a lane have at most one work at a time.
pub(super) struct Load {
    world_size: usize,
    rates: Rates,
    ports: Ports,
    /// `[port]`
    at_port: Vec<usize>,
    /// `[lane]`: its ranks; empty if messages slow no computes.
    members: Vec<Vec<usize>>,
    /// `[rank]`: messages under way.
    of_rank: Vec<usize>,
    cores: Option<Cores>,
    /// `[host]`: ranks at work.
    on_host: Vec<usize>,
    /// `[rank]`
    work: Vec<Option<WorkKind>>,
}

impl Load {
    /// Of a cluster whose messages go through these ports.
    pub(super) fn new(grid: Grid<'_>, cluster: &Cluster, ports: Ports) -> Self {
        let mut members = vec![Vec::new(); grid.num_lanes()];
        if cluster.slowdown.numerator != cluster.slowdown.denominator {
            grid.lanes().for_each(|lane| members[grid.lane_index(lane)] = grid.members(lane));
        }
        let world_size = grid.world_size();
        let num_hosts = cluster.cores.map_or(0, |cores| world_size.div_ceil(cores.ranks_per_host as usize));
        // A host has no more ranks than there are.
        let cores =
            cluster.cores.map(|of| Cores { ranks_per_host: of.ranks_per_host.min(world_size as u32), ..of });
        Self {
            world_size,
            rates: Rates::new(ports.max_lanes(), cluster.slowdown, cores),
            at_port: vec![0; ports.lanes.len()],
            ports,
            members,
            of_rank: vec![0; world_size],
            cores: cluster.cores,
            on_host: vec![0; num_hosts],
            work: vec![None; world_size],
        }
    }

    /// Parts of a tick.
    pub(super) fn scale(&self) -> u64 {
        self.rates.scale
    }

    /// How many works there can be.
    pub(super) fn num_works(&self) -> usize {
        self.world_size + self.ports.of_lane.len()
    }

    /// The number of a lane's work.
    pub(super) fn lane_work(&self, lane: usize) -> usize {
        self.world_size + lane
    }

    /// The largest factor by which sharing makes any work longer.
    pub(super) fn longest(&self) -> u64 {
        self.rates.longest()
    }

    /// A work's rate, in parts a tick.
    pub(super) fn rate(&self, work: usize) -> u64 {
        match work.checked_sub(self.world_size) {
            None => self.rank_rate(work),
            Some(lane) => {
                let at_ports = self.ports.of_lane[lane].iter().map(|&port| self.at_port[port as usize]);
                self.rates.of_message(at_ports.max().unwrap_or(1))
            }
        }
    }

    fn rank_rate(&self, rank: usize) -> u64 {
        let is_slowed = self.of_rank[rank] > 0 && self.work[rank] == Some(WorkKind::Compute);
        let at_work = self.host(rank).map_or(1, |host| self.on_host[host]);
        self.rates.of_rank(at_work, is_slowed)
    }

    /// The host whose cores a rank's present work needs.
    fn host(&self, rank: usize) -> Option<usize> {
        let cores = self.cores?;
        let needs_core = self.work[rank]? == WorkKind::Message || cores.computes == Computes::OccupyCores;
        needs_core.then_some(rank / cores.ranks_per_host as usize)
    }

    /// A rank is at work from now on.
    pub(super) fn begin_rank(&mut self, rank: usize, kind: WorkKind, progress: &mut Progress) {
        self.work[rank] = Some(kind);
        if let Some(host) = self.host(rank) {
            self.on_host[host] += 1;
            self.touch_host(host, self.on_host[host], progress);
        }
    }

    /// A rank has ended its work.
    pub(super) fn end_rank(&mut self, rank: usize, progress: &mut Progress) {
        if let Some(host) = self.host(rank) {
            self.on_host[host] -= 1;
            self.touch_host(host, self.on_host[host] + 1, progress);
        }
        self.work[rank] = None;
    }

    /// The number of ranks at work has risen to `more` or fallen from it, which changes rates if there are fewer cores.
    fn touch_host(&self, host: usize, more: usize, progress: &mut Progress) {
        let Some(cores) = self.cores else { return };
        if more > cores.num_cores as usize {
            let first = host * cores.ranks_per_host as usize;
            let end = (first + cores.ranks_per_host as usize).min(self.world_size);
            (first..end).for_each(|rank| progress.touch(rank));
        }
    }

    /// A message of a lane is under way from now on.
    pub(super) fn begin_message(&mut self, lane: usize, progress: &mut Progress) {
        self.change_messages(lane, |number| *number += 1, progress);
    }

    /// A message has left its lane.
    pub(super) fn end_message(&mut self, lane: usize, progress: &mut Progress) {
        self.change_messages(lane, |number| *number -= 1, progress);
    }

    fn change_messages(&mut self, lane: usize, change: fn(&mut usize), progress: &mut Progress) {
        for &port in &self.ports.of_lane[lane] {
            change(&mut self.at_port[port as usize]);
            for &other in &self.ports.lanes[port as usize] {
                progress.touch(self.lane_work(other as usize));
            }
        }
        for &rank in &self.members[lane] {
            change(&mut self.of_rank[rank]);
            progress.touch(rank);
        }
    }
}
