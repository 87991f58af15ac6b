//! Messages only, of any size: what a rank runs when links are probed.
//!
//! A probe is the one thing that a rank runs without a checked program. It cannot hang: all ranks begin a round together, each
//! starts all its messages before it waits for any, and starting never blocks. So every message that a rank waits for has been
//! started by all of its members, or will be by ranks that wait for nothing. The caller has to put each message into the rows of
//! all of its members; if one is missing, the wait ends with the communicator's timeout.
//!
//! A probe sends its messages as a program does: the rank's part is copied in, the operation is started and waited for, and what
//! arrives is added or kept. Only there is no compute between them, and the probe allocates its buffers itself, since those of the
//! plan have the plan's sizes. Rejected: a program of only messages, which the checker refuses for good reasons (nothing uses
//! what is gathered), and the run's program over another model, whose units would have optimizers and memory too.

use std::sync::Arc;
use std::time::Instant;

use pipezero_models::{Buffer, ElementType, ModelError};
use pipezero_partition::ShardLayout;
use pipezero_schedule::{Edge, Instruction};

use super::error::Cause;
use super::position::Position;
use super::rank::Rank;
use super::recorder::{EventKind, Recorder};
use super::step::RankOutcome;
use super::sums::{add_reduced, add_second_use};
use crate::run::comm::{Channel, Communicator, Pending};
use crate::run::memory::{Category, Lendable, TrackedBuffer};

/// Messages to send.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// `[pipeline rank]`: what it issues at once in every round, before it waits for all of it. A message is in the rows of all
    /// of its members: each send has its receive, and a collective is in the rows of all of its ranks.
    pub(crate) rows: Vec<Vec<ProbedMessage>>,
    /// The type of the elements.
    pub(crate) element_type: ElementType,
    /// Elements of each message, padding included: of a collective a multiple of its ranks.
    pub(crate) num_elements: usize,
    /// How often all messages are sent. All ranks begin a round together. In the events, the message at `index` of a row has
    /// index `round * row.len() + index`.
    pub(crate) num_rounds: usize,
}

/// An instruction whose message a probe can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbedMessage {
    instruction: Instruction,
    transfer: Transfer,
}

/// How the executor sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    /// An all-gather; each rank first copies its shard into the buffer.
    Gather,
    /// An all-gather of a buffer that holds the shard already.
    GatherInPlace,
    /// A reduce-scatter; each rank then adds its shard to a sum.
    Reduce,
    /// A reduce-scatter that leaves the shard in the buffer.
    ReduceInPlace,
    /// An all-reduce over the data ranks.
    AllReduce,
    /// An all-reduce between the ranks of a tied weight's uses, or a sum within the rank that has both.
    AddTied,
    /// The sender's end of an edge.
    Send(Edge),
    /// The receiver's end of an edge.
    Receive(Edge),
}

impl ProbedMessage {
    /// `None` for instructions that send nothing, and for the norm, whose record has a fixed size.
    pub(crate) fn of(instruction: Instruction) -> Option<Self> {
        let transfer = match instruction {
            Instruction::Unshard { .. } => Transfer::Gather,
            Instruction::GatherAfterStep { .. } => Transfer::GatherInPlace,
            Instruction::Reduce { .. } => Transfer::Reduce,
            Instruction::ReduceLast { .. } => Transfer::ReduceInPlace,
            Instruction::AllReduce { .. } => Transfer::AllReduce,
            Instruction::AddTied { .. } => Transfer::AddTied,
            Instruction::Send { edge, .. } => Transfer::Send(edge),
            Instruction::Receive { edge, .. } => Transfer::Receive(edge),
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Recompute { .. }
            | Instruction::Reshard { .. }
            | Instruction::GradientNorm
            | Instruction::OptimizerStep { .. } => return None,
        };
        Some(Self { instruction, transfer })
    }

    /// The instruction of the run's program.
    pub(crate) fn instruction(self) -> Instruction {
        self.instruction
    }

    /// How it is sent.
    pub(crate) fn transfer(self) -> Transfer {
        self.transfer
    }
}

/// The buffers of one message of a probe.
#[derive(Debug)]
struct Buffers {
    whole: Lendable<TrackedBuffer>,
    /// What is copied in before the message is sent, or added to when it has arrived.
    own: TrackedBuffer,
}

impl<C: Communicator> Rank<C> {
    /// Sends the messages of a probe and records when each was sent and arrived.
    pub(crate) fn probe(&mut self, probe: &Probe, recorded_since: Instant) -> Result<RankOutcome, Cause> {
        let start = Instant::now();
        self.recorder = Recorder::new(Some(recorded_since));
        let row = probe.rows[self.pipeline_rank.index()].as_slice();
        let Probe { num_elements, element_type, .. } = *probe;
        let instruction = row.first().map(|message| message.instruction);
        self.positions.set(self.comm.rank(), Position::Probing { instruction, num_elements });
        let layout = ShardLayout::new(num_elements, self.groups.data.size());
        let buffers = row.iter().map(|message| {
            let own_len = self.own_len(message.transfer, layout, num_elements);
            Buffers::new(num_elements, own_len, element_type)
        });
        let mut buffers = buffers.collect::<Result<Vec<_>, _>>()?;
        for round in 0..probe.num_rounds {
            self.comm.all_reduce_words(&self.groups.world, &mut [0])?;
            self.probe_once(row, round * row.len(), layout, &mut buffers)?;
        }
        self.positions.set(self.comm.rank(), Position::Idle);
        Ok(self.outcome(start))
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
        for (index, message) in row.iter().enumerate() {
            self.recorder.record(first + index, EventKind::Started);
            let pending = self.start_probed(message.transfer, layout, &mut buffers[index])?;
            let kind = if pending.is_some() { EventKind::Issued } else { EventKind::Ended };
            self.recorder.record(first + index, kind);
            in_flight.extend(pending.map(|pending| (index, pending)));
        }
        for (index, pending) in in_flight {
            self.recorder.record(first + index, EventKind::Awaited);
            let mut whole = pending.wait()?;
            self.recorder.record(first + index, EventKind::Arrived);
            if row[index].transfer == Transfer::Reduce {
                add_reduced(&mut buffers[index].own, &mut whole, layout.shard(self.data_rank));
            }
            buffers[index].whole.give_back(whole);
            self.recorder.record(first + index, EventKind::Ended);
        }
        Ok(())
    }

    /// Starts a message; `None` if it was done within the rank.
    fn start_probed(
        &mut self,
        transfer: Transfer,
        layout: ShardLayout,
        buffers: &mut Buffers,
    ) -> Result<Option<C::Pending>, Cause> {
        let mut buffer = buffers.whole.lend();
        let data = &self.groups.data;
        let padded = 0..layout.padded_len();
        let pending = match transfer {
            Transfer::Gather => {
                let start = layout.shard(self.data_rank).start;
                buffer.copy_from(start, &buffers.own, 0..layout.shard_len());
                self.comm.start_all_gather(data, buffer, padded)?
            }
            Transfer::GatherInPlace => self.comm.start_all_gather(data, buffer, padded)?,
            Transfer::Reduce | Transfer::ReduceInPlace => {
                self.comm.start_reduce_scatter(data, buffer, padded)?
            }
            Transfer::AllReduce => self.comm.start_all_reduce(data, Channel::Reduce, buffer, padded)?,
            Transfer::AddTied => {
                let owned = 0..buffer.len();
                let Some(group) = &self.groups.tied else {
                    add_second_use(&mut buffer, &mut buffers.own, owned);
                    buffers.whole.give_back(buffer);
                    return Ok(None);
                };
                self.comm.start_all_reduce(group, Channel::Tied, buffer, owned)?
            }
            Transfer::Send(edge) => {
                let to = self.peer(edge.receiver());
                self.comm.start_send(to, edge.index() as u32, buffer)?
            }
            Transfer::Receive(edge) => {
                let from = self.peer(edge.sender());
                self.comm.start_receive(from, edge.index() as u32, buffer)?
            }
        };
        Ok(Some(pending))
    }

    /// Elements that are copied in before the message is sent, or added to when it has arrived.
    fn own_len(&self, transfer: Transfer, layout: ShardLayout, num_elements: usize) -> usize {
        match transfer {
            Transfer::Gather | Transfer::Reduce => layout.shard_len(),
            Transfer::AddTied if self.groups.tied.is_none() => num_elements,
            Transfer::GatherInPlace
            | Transfer::ReduceInPlace
            | Transfer::AllReduce
            | Transfer::AddTied
            | Transfer::Send(_)
            | Transfer::Receive(_) => 0,
        }
    }
}

impl Buffers {
    fn new(num_elements: usize, own_len: usize, element_type: ElementType) -> Result<Self, ModelError> {
        Ok(Self {
            whole: Lendable::new(touched(num_elements, element_type)?),
            own: touched(own_len, element_type)?,
        })
    }
}

/// A buffer outside the rank's ledger, which counts what is planned. It is written once, since reading memory that was never written
/// is faster than a step's reads.
fn touched(len: usize, element_type: ElementType) -> Result<TrackedBuffer, ModelError> {
    let mut buffer = TrackedBuffer::zeros_of(len, element_type, Category::Communication, &Arc::default())?;
    buffer.copy_from(0, &Buffer::zeros_of(len, element_type)?, 0..len);
    Ok(buffer)
}
