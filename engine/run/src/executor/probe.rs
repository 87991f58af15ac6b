//! Messages only, of any size: what a rank runs when links are probed.
//!
//! It is the one thing that a rank does without a checked program. It cannot hang: all ranks begin a round together, each
//! starts all its messages before it waits for any, and starting never blocks. So every message that a rank waits for has been
//! started by all ranks that take part in it, or will be by ranks that wait for nothing. The caller that makes the rows must put
//! a message into the rows of all these ranks; where one lacks it, the communicator's timeout reports it.
//!
//! A probe sends its messages as a program does: the rank's part is copied in, the operation is started, waited for and
//! completed. But there is no compute between them, and their buffers are the probe's own, since those of the
//! plan are of the plan's sizes. Rejected: a program of only messages, which the checker refuses for good reasons (nothing uses
//! what is gathered), and the run's program over another model, whose units would have optimizers and memory too.

use std::sync::Arc;

use pipezero_comm::memory::{Allocator, Category, Lendable, TrackedBuffer};
use pipezero_comm::world::{Position, instruction_text};
use pipezero_comm::{Channel, Communicator, Pending};
use pipezero_models::layer::WriteMode;
use pipezero_models::{ElementType, ModelError, Queue};
use pipezero_partition::ShardLayout;
use pipezero_plan::costs::MessageKind;
use pipezero_schedule::Instruction;
use serde::{Deserialize, Serialize};

use super::error::Cause;
use super::rank::Rank;
use super::recorder::EventKind;
use super::step::RankOutcome;
use super::sums::use_up;

/// Messages to send.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// `[pipeline rank]`: what it issues at once in every round, before it waits for all of it. A message is in the rows of all
    /// ranks that take part in it: each send has its receive, and a collective is in the rows of all of its ranks.
    pub rows: Vec<Vec<ProbedMessage>>,
    /// The type of the elements.
    pub element_type: ElementType,
    /// Elements of each message, padding included: of a collective a multiple of its ranks.
    pub num_elements: usize,
    /// How often all messages are sent. All ranks begin a round together. In the events, the message at `index` of a row has
    /// index `round * row.len() + index`.
    pub num_rounds: usize,
}

/// An instruction that sends a message of any size: all that send but the norm, whose record has one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbedMessage(#[serde(with = "instruction_text")] Instruction);

impl ProbedMessage {
    /// `None` of instructions that send nothing, and of the norm.
    pub fn of(instruction: Instruction) -> Option<Self> {
        let kind = MessageKind::of(instruction)?;
        (kind != MessageKind::GradientNorm).then_some(Self(instruction))
    }

    /// The instruction of the run's program.
    pub fn instruction(self) -> Instruction {
        self.0
    }
}

/// The buffers of one message of a probe.
#[derive(Debug)]
struct Buffers {
    whole: Lendable<TrackedBuffer>,
    /// What is copied in before the message is sent, or added to when it has arrived.
    own: TrackedBuffer,
}

impl Rank {
    /// Sends what a probe says and records when it was sent and came.
    pub(crate) fn probe(&mut self, probe: &Probe) -> Result<RankOutcome, Cause> {
        self.recorder.begin(true);
        let row = probe.rows[self.pipeline_rank.index()].as_slice();
        let Probe { num_elements, element_type, .. } = *probe;
        let instruction = row.first().map(|message| message.instruction());
        self.set_position(Position::Probing { instruction, num_elements });
        let layout = ShardLayout::new(num_elements, self.groups.data.size());
        let memory = Allocator::new(Arc::clone(&self.queue), Arc::default());
        let buffers = row.iter().map(|message| {
            let own_len = self.own_len(*message, layout, num_elements);
            Buffers::new(&memory, &*self.queue, num_elements, own_len, element_type)
        });
        let mut buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        for round in 0..probe.num_rounds {
            self.comm.all_reduce_words(&self.groups.world, &mut [0])?;
            self.probe_once(row, round * row.len(), layout, &mut buffers)?;
        }
        self.set_position(Position::Idle);
        self.outcome()
    }

    /// One round, whose first message has index `first`.
    fn probe_once(
        &mut self,
        row: &[ProbedMessage],
        first: usize,
        layout: ShardLayout,
        buffers: &mut [Buffers],
    ) -> Result<(), Cause> {
        let mut in_flight = Vec::with_capacity(row.len());
        for (index, &message) in row.iter().enumerate() {
            self.recorder.record(first + index, EventKind::Started);
            let pending = self.start_probed(message, layout, &mut buffers[index])?;
            let kind = if pending.is_some() { EventKind::Issued } else { EventKind::Ended };
            self.recorder.record(first + index, kind);
            in_flight.extend(pending.map(|pending| (index, pending)));
        }
        for (index, pending) in in_flight {
            self.recorder.record(first + index, EventKind::Awaited);
            let mut whole = pending.wait()?;
            self.recorder.record(first + index, EventKind::Arrived);
            if matches!(row[index].0, Instruction::Reduce { .. }) {
                let shard = layout.shard(self.data_rank);
                let sum = buffers[index].own.view_mut().range(0..shard.len());
                use_up(&*self.queue, &mut whole, shard, sum, WriteMode::Add);
            }
            buffers[index].whole.give_back(whole);
            self.recorder.record(first + index, EventKind::Ended);
        }
        Ok(())
    }

    /// Starts a message; `None` if it was done within the rank.
    fn start_probed(
        &mut self,
        message: ProbedMessage,
        layout: ShardLayout,
        buffers: &mut Buffers,
    ) -> Result<Option<Box<dyn Pending>>, Cause> {
        let mut buffer = buffers.whole.lend();
        let data = &self.groups.data;
        let padded = 0..layout.padded_len();
        let pending = match message.0 {
            Instruction::Unshard { .. } => {
                let own = buffer.view_mut().range(layout.shard(self.data_rank));
                self.queue.copy(buffers.own.view().range(0..layout.shard_len()), own);
                self.comm.start_all_gather(data, buffer, padded)?
            }
            Instruction::GatherAfterStep { .. } => self.comm.start_all_gather(data, buffer, padded)?,
            Instruction::Reduce { .. } | Instruction::ReduceLast { .. } => {
                self.comm.start_reduce_scatter(data, buffer, padded)?
            }
            Instruction::AllReduce { .. } => {
                self.comm.start_all_reduce(data, Channel::Reduce, buffer, padded)?
            }
            Instruction::AddTied { .. } => {
                let owned = 0..buffer.len();
                let Some(group) = &self.groups.tied else {
                    let sum = buffer.view_mut().range(owned.clone());
                    use_up(&*self.queue, &mut buffers.own, owned, sum, WriteMode::Add);
                    buffers.whole.give_back(buffer);
                    return Ok(None);
                };
                self.comm.start_all_reduce(group, Channel::Tied, buffer, owned)?
            }
            Instruction::Send { edge, .. } => {
                let to = self.peer(edge.receiver());
                self.comm.start_send(to, edge.index() as u32, buffer)?
            }
            Instruction::Receive { edge, .. } => {
                let from = self.peer(edge.sender());
                self.comm.start_receive(from, edge.index() as u32, buffer)?
            }
            instruction => unreachable!("`{instruction}` is no probed message"),
        };
        Ok(Some(pending))
    }

    /// Elements that are copied into a message, or added to when it has arrived.
    fn own_len(&self, message: ProbedMessage, layout: ShardLayout, num_elements: usize) -> usize {
        match message.0 {
            Instruction::Unshard { .. } | Instruction::Reduce { .. } => layout.shard_len(),
            Instruction::AddTied { .. } if self.groups.tied.is_none() => num_elements,
            _ => 0,
        }
    }
}

impl Buffers {
    fn new(
        memory: &Allocator,
        queue: &dyn Queue,
        num_elements: usize,
        own_len: usize,
        element_type: ElementType,
    ) -> Result<Self, ModelError> {
        Ok(Self {
            whole: Lendable::new(touched(memory, queue, num_elements, element_type)?),
            own: touched(memory, queue, own_len, element_type)?,
        })
    }
}

/// A buffer outside the rank's ledger, which counts what is planned. It is written once, since reading memory that was never written
/// is faster than a step's reads.
fn touched(
    memory: &Allocator,
    queue: &dyn Queue,
    len: usize,
    element_type: ElementType,
) -> Result<TrackedBuffer, ModelError> {
    let mut buffer = memory.zeros_of(len, element_type, Category::Communication)?;
    queue.clear(buffer.view_mut());
    Ok(buffer)
}
