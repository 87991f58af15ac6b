//! The messages of a step, and the queues in which they wait for their links.

use alloc::vec;
use alloc::vec::Vec;

use super::grid::{ClusterLane, Grid};
use super::message_costs::MessageCosts;
use crate::id::{InstructionId, PipelineRank};
use crate::instruction::{Edge, Instruction, Lane};
use crate::simulate::{Links, MessageCost};

/// Marks an instruction that is no message: one of the compute lane.
const NONE: u32 = u32::MAX;

/// An instruction of a world rank, by its position in the row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) rank: usize,
    pub(super) index: usize,
}

/// The ranks that issue a message and wait for it.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// All data ranks of a pipeline rank, at the same position of their rows.
    Group { of: PipelineRank, index: usize },
    /// The two ends of an edge.
    Pair { sender: Site, receiver: Site },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    ends: Ends,
    pub(super) lane: usize,
    pub(super) cost: MessageCost,
    /// Ranks that have not issued it.
    num_missing: usize,
}

impl Message {
    /// Each of its ends, and how long after leaving its link it ends there: at its sender, at once.
    pub(super) fn for_each_end(self, grid: Grid<'_>, mut of: impl FnMut(Site, u64)) {
        match self.ends {
            Ends::Group { of: pipeline_rank, index } => {
                grid.data_ranks(pipeline_rank).for_each(|rank| of(Site { rank, index }, self.cost.latency));
            }
            Ends::Pair { sender, receiver } => {
                of(sender, 0);
                of(receiver, self.cost.latency);
            }
        }
    }
}

/// The messages of a link in the order of their issue: one at a time is under way.
#[derive(Clone, Default)]
struct Queue {
    messages: Vec<u32>,
    next: usize,
    is_busy: bool,
}

pub(super) struct Messages {
    /// `[pipeline rank][index]`: the number of a message, of a transfer's that of the first data rank.
    numbers: Vec<Vec<u32>>,
    messages: Vec<Message>,
    /// `[lane]`
    queues: Vec<Queue>,
    /// `[lane]`: whose queue its messages are in.
    queue_of: Vec<usize>,
}

impl Messages {
    pub(super) fn new(grid: Grid<'_>, message_costs: &MessageCosts<'_>, links: Links) -> Self {
        let rows = &grid.program.program().rows;
        let mut queue_of: Vec<usize> = (0..grid.num_lanes()).collect();
        if links == Links::SharedByCollectives {
            for rank in grid.program.ranks() {
                queue_of[grid.lane_index(ClusterLane::Reduce(rank))] =
                    grid.lane_index(ClusterLane::Gather(rank));
            }
        }
        let mut messages = Self {
            numbers: rows.iter().map(|row| vec![NONE; row.len()]).collect(),
            messages: Vec::new(),
            queues: vec![Queue::default(); grid.num_lanes()],
            queue_of,
        };
        for (rank, row) in grid.program.ranks().zip(rows) {
            for index in 0..row.len() {
                messages.push_instruction(grid, message_costs, rank.at(index));
            }
        }
        messages
    }

    /// A collective is added once for all its ranks, a transfer with its send.
    fn push_instruction(&mut self, grid: Grid<'_>, message_costs: &MessageCosts<'_>, at: InstructionId) {
        let instruction = grid.program.instruction(at);
        let cost = |data_rank| message_costs.of(data_rank, instruction);
        match (instruction.lane(), instruction) {
            (Lane::Gather, _) => self.push_collective(grid, cost(0), ClusterLane::Gather(at.rank), at),
            (Lane::Reduce, _) => self.push_collective(grid, cost(0), ClusterLane::Reduce(at.rank), at),
            (Lane::Edge(edge), Instruction::Send { .. }) => self.push_transfers(grid, cost, edge, at),
            (Lane::Edge(_) | Lane::Compute, _) => {}
        }
    }

    fn push_collective(&mut self, grid: Grid<'_>, cost: MessageCost, lane: ClusterLane, at: InstructionId) {
        self.numbers[at.rank.index()][at.index] = self.messages.len() as u32;
        let ends = Ends::Group { of: at.rank, index: at.index };
        self.push(Message { ends, lane: grid.lane_index(lane), cost, num_missing: grid.data_degree });
    }

    fn push_transfers(
        &mut self,
        grid: Grid<'_>,
        cost: impl Fn(usize) -> MessageCost,
        edge: Edge,
        at: InstructionId,
    ) {
        let to = grid.program.peer(at).expect("a checked transfer has two ends");
        for end in [at, to] {
            self.numbers[end.rank.index()][end.index] = self.messages.len() as u32;
        }
        for data_rank in 0..grid.data_degree {
            let site = |end: InstructionId| Site { rank: grid.rank(end.rank, data_rank), index: end.index };
            let ends = Ends::Pair { sender: site(at), receiver: site(to) };
            let lane = grid.lane_index(ClusterLane::Edge { edge, data_rank: data_rank as u32 });
            self.push(Message { ends, lane, cost: cost(data_rank), num_missing: 2 });
        }
    }

    fn push(&mut self, message: Message) {
        let number = self.messages.len() as u32;
        self.queues[self.queue_of[message.lane]].messages.push(number);
        self.messages.push(message);
    }

    /// The message that a rank issues at a position of its row.
    pub(super) fn at(&self, grid: Grid<'_>, Site { rank, index }: Site) -> u32 {
        let number = self.numbers[grid.pipeline_rank(rank).index()][index];
        match self.messages[number as usize].ends {
            Ends::Group { .. } => number,
            Ends::Pair { .. } => number + grid.data_rank(rank) as u32,
        }
    }

    pub(super) fn message(&self, number: u32) -> Message {
        self.messages[number as usize]
    }

    /// One of its ranks has issued a message; whether it was the last.
    pub(super) fn issue(&mut self, number: u32) -> bool {
        let message = &mut self.messages[number as usize];
        message.num_missing -= 1;
        message.num_missing == 0
    }

    /// The first message that waits for a lane's link, if the link is free and all of its ranks have issued it; it then
    /// has the link until [`Messages::leave`].
    pub(super) fn take_link(&mut self, lane: usize) -> Option<u32> {
        let queue = &mut self.queues[self.queue_of[lane]];
        let number = *queue.messages.get(queue.next)?;
        if queue.is_busy || self.messages[number as usize].num_missing > 0 {
            return None;
        }
        queue.is_busy = true;
        Some(number)
    }

    /// The message under way on a lane's link leaves it.
    pub(super) fn leave(&mut self, lane: usize) -> u32 {
        let queue = &mut self.queues[self.queue_of[lane]];
        let number = queue.messages[queue.next];
        queue.next += 1;
        queue.is_busy = false;
        number
    }
}
