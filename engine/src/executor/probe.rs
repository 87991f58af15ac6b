//! Messages alone, of any size: what a rank does when links are probed.
//!
//! A probe's messages go the way that a program's go: the rank's part is copied in, the operation is started, waited for, and
//! what it brought is taken in. Only there is no compute between them, and their buffers are the probe's own, since those of the
//! plan are of the plan's sizes. Rejected: a program of only messages, which the checker refuses for good reasons (nothing uses
//! what is gathered), and the run's program over another model, whose units would have optimizers and memory too.

use std::sync::Arc;
use std::time::Instant;

use pipezero_models::{Buffer, ElementType, ModelError};
use pipezero_schedule::Instruction;

use super::error::Cause;
use super::lanes::add_reduced;
use super::position::Position;
use super::rank::{Rank, RankOutcome};
use super::recorder::{EventKind, Recorder};
use super::tail::add_second;
use crate::comm::{Channel, Communicator, Pending};
use crate::memory::{Category, Tagged};
use crate::plan::Plan;
use crate::shard::{Loan, ShardLayout};

/// Messages to send.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// `[pipeline rank]`: what it issues at once in every round, before it waits for all of it. Messages of a program, the same
    /// ones for all ranks that take part.
    pub(crate) rows: Vec<Vec<Instruction>>,
    /// Elements of each message, padding included: of a collective a multiple of its ranks.
    pub(crate) num_elements: usize,
    /// How often all of it is sent. All ranks begin a round together. In its events, the message at `place` of a row has index
    /// `round * row.len() + place`.
    pub(crate) num_rounds: usize,
}

impl Probe {
    /// What the elements of a message are.
    pub(crate) fn element_type(plan: &Plan, instruction: Instruction) -> ElementType {
        match instruction {
            Instruction::Reduce { .. }
            | Instruction::ReduceLast { .. }
            | Instruction::AllReduce { .. }
            | Instruction::AddTied { .. } => ElementType::F32,
            _ => plan.element_type(),
        }
    }
}

/// What a message of a probe is sent from.
#[derive(Debug)]
struct Buffers {
    whole: Loan<Tagged>,
    /// What is copied in before it is sent, or added to once it is there.
    own: Tagged,
}

impl<C: Communicator> Rank<C> {
    /// Sends what a probe says and tells when it was sent and came.
    pub(crate) fn probe(&mut self, probe: &Probe, recorded_since: Instant) -> Result<RankOutcome, Cause> {
        let start = Instant::now();
        self.recorder = Recorder::new(Some(recorded_since));
        let row = probe.rows[self.pipeline_rank.index()].as_slice();
        let num_elements = probe.num_elements;
        let position = Position::Probing { instruction: row.first().copied(), num_elements };
        self.positions.set(self.comm.rank(), position);
        let layout = ShardLayout::new(num_elements, self.groups.data.size());
        let buffers = row.iter().map(|&instruction| self.buffers(instruction, num_elements, layout));
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
        row: &[Instruction],
        first: usize,
        layout: ShardLayout,
        buffers: &mut [Buffers],
    ) -> Result<(), Cause> {
        let mut in_flight = Vec::with_capacity(row.len());
        for (place, &instruction) in row.iter().enumerate() {
            self.recorder.record(first + place, EventKind::Started);
            let pending = self.start_probed(instruction, layout, &mut buffers[place])?;
            let kind = if pending.is_some() { EventKind::Issued } else { EventKind::Ended };
            self.recorder.record(first + place, kind);
            in_flight.extend(pending.map(|pending| (place, pending)));
        }
        for (place, pending) in in_flight {
            self.recorder.record(first + place, EventKind::Awaited);
            let mut whole = pending.wait()?;
            self.recorder.record(first + place, EventKind::Arrived);
            if let Instruction::Reduce { .. } = row[place] {
                add_reduced(&mut buffers[place].own, &mut whole, layout.shard(self.data_rank));
            }
            buffers[place].whole.give_back(whole);
            self.recorder.record(first + place, EventKind::Ended);
        }
        Ok(())
    }

    /// Starts a message; `None` if it was done within the rank.
    fn start_probed(
        &mut self,
        instruction: Instruction,
        layout: ShardLayout,
        buffers: &mut Buffers,
    ) -> Result<Option<C::Pending>, Cause> {
        let mut buffer = buffers.whole.lend();
        let data = &self.groups.data;
        let padded = 0..layout.padded_len();
        let pending = match instruction {
            Instruction::Unshard { .. } => {
                let start = layout.shard(self.data_rank).start;
                buffer.copy_from(start, &buffers.own, 0..layout.shard_len());
                self.comm.start_all_gather(data, buffer, padded)?
            }
            Instruction::GatherAfterStep { .. } => self.comm.start_all_gather(data, buffer, padded)?,
            Instruction::Reduce { .. } | Instruction::ReduceLast { .. } => {
                self.comm.start_reduce_scatter(data, buffer, padded)?
            }
            Instruction::AllReduce { .. } => {
                self.comm.start_all_reduce(data, Channel::Reduce, buffer, padded)?
            }
            Instruction::Send { edge, .. } => {
                let to = self.peer(edge.receiver());
                self.comm.start_send(to, edge.index() as u32, buffer)?
            }
            Instruction::Receive { edge, .. } => {
                let from = self.peer(edge.sender());
                self.comm.start_receive(from, edge.index() as u32, buffer)?
            }
            Instruction::AddTied { .. } => {
                let owned = 0..buffer.len();
                let Some(group) = &self.groups.tied else {
                    add_second(&mut buffer, &mut buffers.own, owned);
                    buffers.whole.give_back(buffer);
                    return Ok(None);
                };
                self.comm.start_all_reduce(group, Channel::Tied, buffer, owned)?
            }
            _ => unreachable!("only messages are probed"),
        };
        Ok(Some(pending))
    }

    fn buffers(
        &self,
        instruction: Instruction,
        num_elements: usize,
        layout: ShardLayout,
    ) -> Result<Buffers, ModelError> {
        let element_type = Probe::element_type(&self.plan, instruction);
        let own_len = match instruction {
            Instruction::Unshard { .. } | Instruction::Reduce { .. } => layout.shard_len(),
            Instruction::AddTied { .. } if self.groups.tied.is_none() => num_elements,
            _ => 0,
        };
        Ok(Buffers {
            whole: Loan::new(touched(num_elements, element_type)?),
            own: touched(own_len, element_type)?,
        })
    }
}

/// A buffer beside the rank's account, which is the plan's, and whose memory is there: reading what was never written is faster.
fn touched(len: usize, element_type: ElementType) -> Result<Tagged, ModelError> {
    let mut buffer = Tagged::zeros_of(len, element_type, Category::Communication, &Arc::default())?;
    buffer.copy_from(0, &Buffer::zeros_of(len, element_type)?, 0..len);
    Ok(buffer)
}
