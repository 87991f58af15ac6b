//! The reference: every row unrolled into what the rank does, then played tick by tick. At each tick all that can
//! happen does, rates are worked out from nothing, as quotients, and everything under way gets on by one tick.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::PipelineRank;
use crate::instruction::{Instruction, Lane};
use crate::simulate::cluster::grid::ClusterLane;
use crate::simulate::cluster::own_time::OwnTime;
use crate::simulate::cluster::{Cluster, Computes, Duplex, Ratio, Sharing};
use crate::simulate::{Costs, Links, MessageCost, Span};

/// What is left of a work: a quotient in lowest terms.
#[derive(Clone, Copy)]
struct Left(u128, u128);

impl Left {
    fn less(self, Ratio { numerator, denominator }: Ratio) -> Self {
        let (n, d) = (u128::from(numerator), u128::from(denominator));
        let above = (self.0 * d).saturating_sub(n * self.1);
        let below = self.1 * d;
        let (mut a, mut b) = (above, below);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self(above / a, below / a)
    }
}

struct Message {
    lane: ClusterLane,
    queue: ClusterLane,
    /// Rank and place; of a transfer the sender first.
    ends: Vec<(usize, usize)>,
    cost: MessageCost,
    num_issued: usize,
    started: Option<u64>,
    left: Left,
    gone: Option<u64>,
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
    /// What is left of the task that it is at.
    left: Option<Left>,
    joined: BTreeMap<usize, u64>,
    ended: u64,
}

/// `[rank]`: spans, and when the row had ended.
pub(super) type Played = Vec<(Vec<Span>, u64)>;

pub(super) struct Naive<'a> {
    program: &'a CheckedProgram,
    costs: &'a Costs,
    cluster: &'a Cluster,
    degree: usize,
    messages: Vec<Message>,
    ranks: Vec<Rank>,
    spans: Vec<Vec<Span>>,
    now: u64,
}

impl<'a> Naive<'a> {
    pub(super) fn play(program: &'a CheckedProgram, costs: &'a Costs, cluster: &'a Cluster) -> Played {
        let degree = cluster.data_degree as usize;
        let num_ranks = program.num_ranks() * degree;
        let row = |rank: usize| program.row(PipelineRank((rank / degree) as u32));
        let mut naive = Self {
            program,
            costs,
            cluster,
            degree,
            messages: Vec::new(),
            ranks: Vec::new(),
            spans: (0..num_ranks).map(|rank| std::vec![Span { start: 0, end: 0 }; row(rank).len()]).collect(),
            now: 0,
        };
        naive.ranks = (0..num_ranks).map(|rank| naive.unroll(rank)).collect();
        for rank in 0..num_ranks {
            for index in 0..row(rank).len() {
                naive.push_message(rank, index);
            }
        }
        while !naive.is_done() {
            while naive.happen() {}
            if !naive.is_done() {
                naive.tick();
            }
        }
        naive.spans.into_iter().zip(naive.ranks.iter().map(|rank| rank.ended)).collect()
    }

    fn is_done(&self) -> bool {
        self.ranks.iter().all(|rank| rank.next == rank.tasks.len())
    }

    fn instruction(&self, rank: usize, index: usize) -> Instruction {
        self.program.row(PipelineRank((rank / self.degree) as u32))[index]
    }

    fn nodes(&self, rank: usize) -> usize {
        self.cluster.ranks_per_node.map_or(0, |num_ranks| rank / num_ranks.get() as usize)
    }

    fn is_far(&self, ranks: &[usize]) -> bool {
        ranks.iter().any(|&rank| self.nodes(rank) != self.nodes(ranks[0]))
    }

    fn message(&self, rank: usize, index: usize) -> MessageCost {
        let instruction = self.instruction(rank, index);
        let here = PipelineRank((rank / self.degree) as u32);
        match (self.program.peer(here.at(index)), instruction, &self.cluster.far_edges) {
            (Some(peer), Instruction::Send { edge, .. } | Instruction::Receive { edge, .. }, Some(far))
                if self.is_far(&[rank, peer.rank.index() * self.degree + rank % self.degree]) =>
            {
                far[edge.index()]
            }
            _ => self.costs.message(instruction),
        }
    }

    /// All that a rank does, one after the other: what it takes in before each instruction is known from the row.
    fn unroll(&self, rank: usize) -> Rank {
        let here = PipelineRank((rank / self.degree) as u32);
        let row = self.program.row(here);
        let own = OwnTime { speeds: &self.cluster.speeds, jitter: self.cluster.jitter };
        let mut taken_in = BTreeSet::new();
        let mut tasks = Vec::new();
        let mut take_in = |lane: Lane, until: usize, tasks: &mut Vec<Task>| {
            for index in (0..=until).filter(|&index| row[index].lane() == lane) {
                if taken_in.insert(index) {
                    let ticks = own.of(rank, self.message(rank, index).landing);
                    tasks.push(Task { kind: Kind::Land, index, ticks });
                }
            }
        };
        for (index, &instruction) in row.iter().enumerate() {
            for &wait in
                self.program.waits(here.at(index)).iter().filter(|&&wait| row[wait].lane() != Lane::Compute)
            {
                take_in(row[wait].lane(), wait, &mut tasks);
            }
            let (kind, ticks) = match instruction {
                Instruction::GradientNorm => {
                    let units = self.program.chain().units_on(here);
                    let part: u64 = units.map(|unit| self.costs.units[unit.index()].gradient_norm).sum();
                    (Kind::Join, own.of_compute(rank, index, part))
                }
                Instruction::AddTied { .. } => {
                    let part = if self.num_tied() == 1 { self.costs.add_tied } else { 0 };
                    (Kind::Join, own.of_compute(rank, index, part))
                }
                _ if instruction.lane() == Lane::Compute => {
                    (Kind::Compute, own.of_compute(rank, index, self.costs.compute(instruction)))
                }
                _ => (Kind::Issue, own.of(rank, self.message(rank, index).issue)),
            };
            tasks.push(Task { kind, index, ticks });
        }
        let lanes: BTreeSet<Lane> =
            row.iter().map(|of| of.lane()).filter(|&of| of != Lane::Compute).collect();
        for lane in lanes {
            take_in(lane, row.len() - 1, &mut tasks);
        }
        Rank { tasks, ..Rank::default() }
    }

    fn num_tied(&self) -> usize {
        let Some((embedding, head)) = self.program.chain().tied() else { return 0 };
        BTreeSet::from([embedding, head].map(|unit| self.program.chain().rank(unit))).len()
    }

    /// Notes a message once: with the first data rank of a collective, and with a sender.
    fn push_message(&mut self, rank: usize, index: usize) {
        let (here, data_rank) = (PipelineRank((rank / self.degree) as u32), rank % self.degree);
        let instruction = self.instruction(rank, index);
        let (lane, ends) = match (instruction, instruction.lane()) {
            (Instruction::Send { edge, .. }, _) => {
                let receive = self.program.peer(here.at(index)).unwrap();
                let receiver = (receive.rank.index() * self.degree + data_rank, receive.index);
                let lane = ClusterLane::Edge { edge, data_rank: data_rank as u32 };
                (lane, std::vec![(rank, index), receiver])
            }
            (_, lane @ (Lane::Gather | Lane::Reduce)) if data_rank == 0 => {
                let lane = if lane == Lane::Gather { ClusterLane::Gather } else { ClusterLane::Reduce };
                (lane(here), (rank..rank + self.degree).map(|rank| (rank, index)).collect())
            }
            _ => return,
        };
        let queue = match lane {
            ClusterLane::Reduce(of) if self.costs.links == Links::SharedByCollectives => {
                ClusterLane::Gather(of)
            }
            own => own,
        };
        let cost = self.message(rank, index);
        let left = Left(u128::from(cost.occupied), 1);
        self.messages.push(Message {
            lane,
            queue,
            ends,
            cost,
            num_issued: 0,
            started: None,
            left,
            gone: None,
        });
    }

    /// Everything that can happen at this tick, once; whether anything did.
    fn happen(&mut self) -> bool {
        let mut happened = false;
        for number in 0..self.messages.len() {
            let is_first = !self.messages[..number]
                .iter()
                .any(|before| before.queue == self.messages[number].queue && before.gone.is_none());
            let message = &mut self.messages[number];
            if message.started.is_none() && is_first && message.num_issued == message.ends.len() {
                message.started = Some(self.now);
                message.ends.iter().for_each(|&(rank, index)| self.spans[rank][index].start = self.now);
                happened = true;
            }
            if message.started.is_some() && message.gone.is_none() && message.left.0 == 0 {
                message.gone = Some(self.now);
                happened = true;
            }
        }
        for rank in 0..self.ranks.len() {
            happened |= self.happen_on(rank);
        }
        happened
    }

    /// When a message has arrived at a rank.
    fn arrival(&self, rank: usize, index: usize) -> Option<u64> {
        let message = self.messages.iter().find(|message| message.ends.contains(&(rank, index))).unwrap();
        let is_sender = matches!(self.instruction(rank, index), Instruction::Send { .. });
        Some(message.gone? + if is_sender { 0 } else { message.cost.latency })
    }

    fn happen_on(&mut self, rank: usize) -> bool {
        let Some(&task) = self.ranks[rank].tasks.get(self.ranks[rank].next) else { return false };
        let index = task.index;
        match self.ranks[rank].left {
            None => {
                if task.kind == Kind::Land {
                    match self.arrival(rank, index) {
                        Some(arrival) if arrival <= self.now => self.spans[rank][index].end = arrival,
                        _ => return false,
                    }
                } else if task.kind != Kind::Issue {
                    self.spans[rank][index].start = self.now;
                }
                self.ranks[rank].left = Some(Left(u128::from(task.ticks), 1));
                true
            }
            Some(Left(0, _)) => self.end_task(rank, task),
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
                match self.met(rank, index) {
                    Some(end) if end <= self.now => self.spans[rank][index].end = end,
                    _ => return is_new,
                }
            }
        }
        self.ranks[rank].left = None;
        self.ranks[rank].next += 1;
        self.ranks[rank].ended = self.now;
        true
    }

    /// When the synchronization at a place of a rank's row is over, if all have come.
    fn met(&self, rank: usize, index: usize) -> Option<u64> {
        let instruction = self.instruction(rank, index);
        let is_norm = instruction == Instruction::GradientNorm;
        let members =
            (0..self.ranks.len()).filter(|&other| is_norm || other % self.degree == rank % self.degree);
        let mut last = 0;
        for other in members {
            let row = self.program.row(PipelineRank((other / self.degree) as u32));
            if let Some(place) = row.iter().position(|&of| of == instruction) {
                last = last.max(*self.ranks[other].joined.get(&place)?);
            }
        }
        Some(
            last + if is_norm {
                self.costs.gradient_norm
            } else if self.num_tied() == 1 {
                0
            } else {
                self.costs.add_tied
            },
        )
    }

    /// The ports of a lane, each by a unique key.
    fn ports(&self, message: &Message) -> BTreeSet<(usize, bool, bool)> {
        let ranks: Vec<usize> = message.ends.iter().map(|&(rank, _)| rank).collect();
        let is_far = self.is_far(&ranks);
        let sides = |duplex: Duplex| {
            let mut sides = Vec::new();
            for (place, &rank) in ranks.iter().enumerate() {
                let is_edge = matches!(message.lane, ClusterLane::Edge { .. });
                if duplex == Duplex::Half || !is_edge || place == 0 {
                    sides.push((rank, false));
                }
                if duplex == Duplex::Full && (!is_edge || place == 1) {
                    sides.push((rank, true));
                }
            }
            sides
        };
        match self.cluster.sharing {
            Sharing::Own => BTreeSet::new(),
            Sharing::RankPort(duplex) => {
                sides(duplex).into_iter().map(|(rank, inwards)| (rank, is_far, inwards)).collect()
            }
            Sharing::NodePort(_) if !is_far => BTreeSet::new(),
            Sharing::NodePort(duplex) => {
                sides(duplex).into_iter().map(|(rank, inwards)| (self.nodes(rank), true, inwards)).collect()
            }
        }
    }

    fn needs_core(&self, rank: usize) -> bool {
        let at = &self.ranks[rank];
        at.left.is_some_and(|left| left.0 > 0)
            && match at.tasks[at.next].kind {
                Kind::Land | Kind::Issue => true,
                Kind::Compute | Kind::Join => {
                    self.cluster.cores.is_some_and(|cores| cores.computes == Computes::OccupyCores)
                }
            }
    }

    /// How fast a rank's work gets on.
    fn rank_rate(&self, rank: usize) -> Ratio {
        let mut rate = Ratio::ONE;
        let at = &self.ranks[rank];
        let under_way = |message: &&Message| message.started.is_some() && message.left.0 > 0;
        let talks = self
            .messages
            .iter()
            .filter(under_way)
            .any(|message| message.ends.iter().any(|end| end.0 == rank));
        if talks && matches!(at.tasks[at.next].kind, Kind::Compute | Kind::Join) {
            let Ratio { numerator, denominator } = self.cluster.slowdown;
            rate = Ratio::new(denominator, numerator);
        }
        if let Some(cores) = self.cluster.cores
            && self.needs_core(rank)
        {
            let host = |rank: usize| rank / cores.ranks_per_host as usize;
            let others =
                (0..self.ranks.len()).filter(|&other| host(other) == host(rank) && self.needs_core(other));
            let at_work = others.count() as u32;
            rate.numerator *= cores.num_cores.min(at_work);
            rate.denominator *= at_work;
        }
        rate
    }

    fn tick(&mut self) {
        let mut at_port: BTreeMap<_, u32> = BTreeMap::new();
        let ports: Vec<_> = self
            .messages
            .iter()
            .map(|message| {
                let is_under_way = message.started.is_some() && message.left.0 > 0;
                if is_under_way { Some(self.ports(message)) } else { None }
            })
            .collect();
        ports.iter().flatten().flatten().for_each(|&port| *at_port.entry(port).or_default() += 1);
        let rates: Vec<Ratio> = (0..self.ranks.len())
            .map(|rank| if self.ranks[rank].left.is_some() { self.rank_rate(rank) } else { Ratio::ONE })
            .collect();
        for (message, ports) in self.messages.iter_mut().zip(ports) {
            if let Some(ports) = ports {
                let crowd = ports.iter().map(|port| at_port[port]).max().unwrap_or(1);
                message.left = message.left.less(Ratio::new(1, crowd));
            }
        }
        for (rank, rate) in self.ranks.iter_mut().zip(rates) {
            rank.left = rank.left.map(|left| if left.0 > 0 { left.less(rate) } else { left });
        }
        self.now += 1;
    }
}
