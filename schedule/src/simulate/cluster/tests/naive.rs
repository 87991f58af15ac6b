//! The reference: every row unrolled into what the rank does, then played tick by tick. At each tick all that can
//! happen does, rates are worked out from nothing, and everything under way proceeds by one tick.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Instruction, Lane};
use crate::simulate::cluster::grid::ClusterLane;
use crate::simulate::cluster::own_time::OwnTime;
use crate::simulate::cluster::{Cluster, Computes, Cores, Duplex, Sharing};
use crate::simulate::{Costs, Links, MessageCost, Span};

/// Parts of a tick: a multiple of the denominator of every rate of a small cluster.
const TICK: u64 = 720_720 * 3 * 17 * 19 * 23;

/// A rate in parts a tick.
fn rate(numerator: u32, denominator: u32) -> u64 {
    let parts = TICK * u64::from(numerator);
    assert!(parts.is_multiple_of(u64::from(denominator)), "{numerator}/{denominator} of a tick is not whole");
    parts / u64::from(denominator)
}

struct Message {
    /// The lane whose link it takes.
    queue: ClusterLane,
    /// Rank and index; of a transfer the sender first.
    ends: Vec<(usize, usize)>,
    cost: MessageCost,
    num_issued: usize,
    /// Parts of ticks for which it still occupies its link; `None` before it is sent.
    left: Option<u64>,
    gone: Option<u64>,
}

impl Message {
    fn is_under_way(&self) -> bool {
        self.left.is_some_and(|left| left > 0)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Land,
    Issue,
    Compute,
    Join,
}

#[derive(Clone, Copy)]
struct Task {
    kind: Kind,
    index: usize,
    ticks: u64,
}

#[derive(Default)]
struct Rank {
    tasks: Vec<Task>,
    next: usize,
    /// Parts of ticks that are left of the task that it is at.
    left: Option<u64>,
    joined: BTreeMap<usize, u64>,
    ended: u64,
}

impl Rank {
    /// The task on which it spends this tick.
    fn at_work(&self) -> Option<Kind> {
        self.left.filter(|&left| left > 0).map(|_| self.tasks[self.next].kind)
    }
}

pub(super) struct Naive<'a> {
    program: &'a CheckedProgram,
    costs: &'a Costs,
    cluster: &'a Cluster,
    messages: Vec<Message>,
    ranks: Vec<Rank>,
    spans: Vec<Vec<Span>>,
    now: u64,
}

impl<'a> Naive<'a> {
    /// `[rank]`: spans, and when the row had ended.
    pub(super) fn play(
        program: &'a CheckedProgram,
        costs: &'a Costs,
        cluster: &'a Cluster,
    ) -> Vec<(Vec<Span>, u64)> {
        let (messages, ranks, spans) = Default::default();
        let mut naive = Self { program, costs, cluster, messages, ranks, spans, now: 0 };
        for rank in 0..program.num_ranks() * cluster.data_degree as usize {
            naive.ranks.push(naive.unroll(rank));
            let row = naive.row(rank);
            naive.spans.push(std::vec![Span { start: 0, end: 0 }; row.len()]);
            for index in 0..row.len() {
                naive.push_message(rank, index);
            }
        }
        while naive.ranks.iter().any(|rank| rank.next < rank.tasks.len()) {
            if !naive.happen() {
                naive.tick();
            }
        }
        naive.spans.into_iter().zip(naive.ranks.iter().map(|rank| rank.ended)).collect()
    }

    fn data_rank(&self, rank: usize) -> usize {
        rank % self.cluster.data_degree as usize
    }

    fn pipeline_rank(&self, rank: usize) -> PipelineRank {
        PipelineRank(rank as u32 / self.cluster.data_degree)
    }

    fn row(&self, rank: usize) -> &'a [Instruction] {
        self.program.row(self.pipeline_rank(rank))
    }

    /// Rank and index of the other end of a transfer.
    fn peer(&self, rank: usize, index: usize) -> Option<(usize, usize)> {
        let peer = self.program.peer(self.pipeline_rank(rank).at(index))?;
        Some((peer.rank.index() * self.cluster.data_degree as usize + self.data_rank(rank), peer.index))
    }

    fn node(&self, rank: usize) -> usize {
        self.cluster.ranks_per_node.map_or(0, |num_ranks| rank / num_ranks.get() as usize)
    }

    fn is_far(&self, mut ranks: impl Iterator<Item = usize>) -> bool {
        let first = ranks.next().map(|rank| self.node(rank));
        ranks.any(|rank| Some(self.node(rank)) != first)
    }

    fn cost(&self, rank: usize, index: usize) -> MessageCost {
        let instruction = self.row(rank)[index];
        match (instruction.lane(), self.peer(rank, index), &self.cluster.far_edges) {
            (Lane::Edge(edge), Some((peer, _)), Some(far)) if self.is_far([rank, peer].into_iter()) => {
                far[edge.index()]
            }
            _ => self.costs.message(instruction),
        }
    }

    /// All that a rank does, one after the other: what it completes before each instruction is known from the row.
    fn unroll(&self, rank: usize) -> Rank {
        let (here, row) = (self.pipeline_rank(rank), self.row(rank));
        let own = OwnTime { speeds: &self.cluster.speeds, jitter: self.cluster.jitter };
        let mut completed = BTreeSet::new();
        let mut tasks = Vec::new();
        let mut complete = |lane: Lane, until: usize, tasks: &mut Vec<Task>| {
            for index in (0..=until).filter(|&index| row[index].lane() == lane) {
                if lane != Lane::Compute && completed.insert(index) {
                    let ticks = own.of(rank, self.cost(rank, index).landing);
                    tasks.push(Task { kind: Kind::Land, index, ticks });
                }
            }
        };
        for (index, &instruction) in row.iter().enumerate() {
            for &wait in self.program.waits(here.at(index)) {
                complete(row[wait].lane(), wait, &mut tasks);
            }
            let (kind, cost) = match instruction {
                Instruction::GradientNorm => {
                    let units = self.program.chain().units_on(here);
                    (Kind::Join, units.map(|unit| self.costs.units[unit.index()].gradient_norm).sum())
                }
                Instruction::AddTied { .. } if self.is_tied_on_one_rank() => {
                    (Kind::Join, self.costs.add_tied)
                }
                Instruction::AddTied { .. } => (Kind::Join, 0),
                _ if instruction.lane() == Lane::Compute => (Kind::Compute, self.costs.compute(instruction)),
                _ => (Kind::Issue, self.cost(rank, index).issue),
            };
            let is_message = kind == Kind::Issue;
            let ticks = if is_message { own.of(rank, cost) } else { own.of_compute(rank, index, cost) };
            tasks.push(Task { kind, index, ticks });
        }
        for lane in row.iter().map(|of| of.lane()).collect::<BTreeSet<_>>() {
            complete(lane, row.len() - 1, &mut tasks);
        }
        Rank { tasks, ..Rank::default() }
    }

    fn is_tied_on_one_rank(&self) -> bool {
        let chain = self.program.chain();
        chain.tied_pairs().first().is_some_and(|&(embedding, head)| chain.rank(embedding) == chain.rank(head))
    }

    /// Notes a message once: with the first data rank of a collective, and with a sender.
    fn push_message(&mut self, rank: usize, index: usize) {
        let (here, data_rank) = (self.pipeline_rank(rank), self.data_rank(rank));
        let group = || (rank..rank + self.cluster.data_degree as usize).map(|rank| (rank, index)).collect();
        let instruction = self.row(rank)[index];
        let (lane, ends) = match (instruction, instruction.lane()) {
            (Instruction::Send { edge, .. }, _) => {
                let ends = std::vec![(rank, index), self.peer(rank, index).unwrap()];
                (ClusterLane::Edge { edge, data_rank: data_rank as u32 }, ends)
            }
            (_, Lane::Gather) if data_rank == 0 => (ClusterLane::Gather(here), group()),
            (_, Lane::Reduce) if data_rank == 0 => (ClusterLane::Reduce(here), group()),
            _ => return,
        };
        let queue = match (lane, self.costs.links) {
            (ClusterLane::Reduce(of), Links::SharedByCollectives) => ClusterLane::Gather(of),
            _ => lane,
        };
        let cost = self.cost(rank, index);
        self.messages.push(Message { queue, ends, cost, num_issued: 0, left: None, gone: None });
    }

    /// Everything that can happen at this tick, once; whether anything did.
    fn happen(&mut self) -> bool {
        let mut happened = false;
        for number in 0..self.messages.len() {
            let (before, rest) = self.messages.split_at_mut(number);
            let message = &mut rest[0];
            let is_first = !before.iter().any(|of| of.queue == message.queue && of.gone.is_none());
            if message.left.is_none() && is_first && message.num_issued == message.ends.len() {
                message.left = Some(TICK * message.cost.occupied);
                message.ends.iter().for_each(|&(rank, index)| self.spans[rank][index].start = self.now);
                happened = true;
            }
            if message.left == Some(0) && message.gone.is_none() {
                message.gone = Some(self.now);
                happened = true;
            }
        }
        (0..self.ranks.len()).fold(happened, |happened, rank| self.happen_on(rank) || happened)
    }

    /// When a message has arrived at a rank.
    fn arrival(&self, rank: usize, index: usize) -> Option<u64> {
        let message = self.messages.iter().find(|message| message.ends.contains(&(rank, index))).unwrap();
        let is_sender = matches!(self.row(rank)[index], Instruction::Send { .. });
        Some(message.gone? + if is_sender { 0 } else { message.cost.latency })
    }

    fn happen_on(&mut self, rank: usize) -> bool {
        let Some(&task) = self.ranks[rank].tasks.get(self.ranks[rank].next) else { return false };
        match self.ranks[rank].left {
            None => {
                match task.kind {
                    Kind::Land => match self.arrival(rank, task.index) {
                        Some(arrival) if arrival <= self.now => self.spans[rank][task.index].end = arrival,
                        _ => return false,
                    },
                    Kind::Issue => {}
                    Kind::Compute | Kind::Join => self.spans[rank][task.index].start = self.now,
                }
                self.ranks[rank].left = Some(TICK * task.ticks);
                true
            }
            Some(0) => self.end_task(rank, task),
            Some(_) => false,
        }
    }

    fn end_task(&mut self, rank: usize, Task { kind, index, .. }: Task) -> bool {
        match kind {
            Kind::Land => {}
            Kind::Compute => self.spans[rank][index].end = self.now,
            Kind::Issue => {
                let of = self.messages.iter_mut().find(|message| message.ends.contains(&(rank, index)));
                of.unwrap().num_issued += 1;
            }
            Kind::Join => {
                let is_new = !self.ranks[rank].joined.contains_key(&index);
                self.ranks[rank].joined.entry(index).or_insert(self.now);
                match self.all_joined(rank, index) {
                    Some(end) if end <= self.now => self.spans[rank][index].end = end,
                    _ => return is_new,
                }
            }
        }
        let at = &mut self.ranks[rank];
        (at.left, at.next, at.ended) = (None, at.next + 1, self.now);
        true
    }

    /// When the synchronization at an index of a rank's row is over, if all have joined.
    fn all_joined(&self, rank: usize, index: usize) -> Option<u64> {
        let instruction = self.row(rank)[index];
        let is_norm = instruction == Instruction::GradientNorm;
        let mut last = 0;
        for (other, at) in self.ranks.iter().enumerate() {
            if (is_norm || self.data_rank(other) == self.data_rank(rank))
                && let Some(index) = self.row(other).iter().position(|&of| of == instruction)
            {
                last = last.max(*at.joined.get(&index)?);
            }
        }
        let together = match instruction {
            Instruction::GradientNorm => self.costs.gradient_norm,
            _ if self.is_tied_on_one_rank() => 0,
            _ => self.costs.add_tied,
        };
        Some(last + together)
    }

    /// The ports of a message: rank or node, whether it is the one to other nodes, and whether it is the one inwards.
    fn ports(&self, message: &Message) -> BTreeSet<(usize, bool, bool)> {
        let is_far = self.is_far(message.ends.iter().map(|&(rank, _)| rank));
        let (duplex, of_node) = match self.cluster.sharing {
            Sharing::RankPort(duplex) => (duplex, false),
            Sharing::NodePort(duplex) if is_far => (duplex, true),
            Sharing::Own | Sharing::NodePort(_) => return BTreeSet::new(),
        };
        let is_edge = matches!(message.queue, ClusterLane::Edge { .. });
        let mut ports = BTreeSet::new();
        for (place, &(rank, _)) in message.ends.iter().enumerate() {
            let owner = if of_node { self.node(rank) } else { rank };
            if duplex == Duplex::Half || !is_edge || place == 0 {
                ports.insert((owner, is_far, false));
            }
            if duplex == Duplex::Full && (!is_edge || place == 1) {
                ports.insert((owner, is_far, true));
            }
        }
        ports
    }

    /// How fast a rank proceeds with its task, if it is at work.
    fn rank_rate(&self, rank: usize) -> u64 {
        let is_at_compute = |kind| matches!(kind, Kind::Compute | Kind::Join);
        let is_message = |of: &Message| of.is_under_way() && of.ends.iter().any(|end| end.0 == rank);
        let (mut numerator, mut denominator) = (1, 1);
        if self.ranks[rank].at_work().is_some_and(is_at_compute) && self.messages.iter().any(is_message) {
            (numerator, denominator) = (self.cluster.slowdown.denominator, self.cluster.slowdown.numerator);
        }
        if let Some(Cores { ranks_per_host, num_cores, computes }) = self.cluster.cores {
            let host = |rank: usize| rank / ranks_per_host as usize;
            let needs_core = |of: usize| {
                let kind = self.ranks[of].at_work();
                kind.is_some_and(|kind| computes == Computes::OccupyCores || !is_at_compute(kind))
            };
            if needs_core(rank) {
                let on_host = (0..self.ranks.len()).filter(|&other| host(other) == host(rank));
                let at_work = on_host.filter(|&other| needs_core(other)).count() as u32;
                (numerator, denominator) = (numerator * num_cores.min(at_work), denominator * at_work);
            }
        }
        rate(numerator, denominator)
    }

    fn tick(&mut self) {
        let of_messages: Vec<_> = self.messages.iter().map(|of| self.ports(of)).collect();
        let mut at_port: BTreeMap<_, u32> = BTreeMap::new();
        for (_, ports) in self.messages.iter().zip(&of_messages).filter(|(of, _)| of.is_under_way()) {
            ports.iter().for_each(|&port| *at_port.entry(port).or_default() += 1);
        }
        let rates: Vec<u64> = (0..self.ranks.len()).map(|rank| self.rank_rate(rank)).collect();
        for (message, ports) in self.messages.iter_mut().zip(of_messages) {
            let most = ports.iter().filter_map(|port| at_port.get(port)).max().copied().unwrap_or(1);
            message.left = message.left.map(|left| left.saturating_sub(rate(1, most)));
        }
        for (rank, rate) in self.ranks.iter_mut().zip(rates) {
            rank.left = rank.left.map(|left| left.saturating_sub(rate));
        }
        self.now += 1;
    }
}
