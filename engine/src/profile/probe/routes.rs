//! Between whom messages of a kind are sent: one for every group of ranks that has any, all at once as in a step.

use std::collections::BTreeSet;

use pipezero_schedule::{Instruction, PipelineRank};

use crate::costs::MessageKind;
use crate::profile::facts::Facts;

/// The messages of one round.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// `[pipeline rank]`: the run's first message of the kind over each of its routes.
    pub(super) rows: Vec<Vec<Instruction>>,
}

impl Routes {
    /// Those of a kind of message; `None` where the size is always the same, as the norm's is, or nothing is sent.
    pub(super) fn of(facts: &Facts<'_>, kind: MessageKind) -> Option<Self> {
        if kind == MessageKind::GradientNorm {
            return None;
        }
        let program = facts.program();
        let mut rows = vec![Vec::new(); facts.plan.grid().pipeline_degree];
        // Stages that take turns on a rank have an edge each, but one neighbour: in a step they do not send at once.
        let mut pairs = BTreeSet::new();
        for rank in facts.pipeline_ranks() {
            for (index, &instruction) in program.row(rank).iter().enumerate() {
                match instruction {
                    _ if facts.kind(instruction) != Some(kind) => {}
                    Instruction::Send { .. } => {
                        let receive = program.peer(rank.at(index)).expect("a checked send has a receive");
                        if pairs.insert((rank, receive.rank)) {
                            rows[rank.index()].push(instruction);
                            rows[receive.rank.index()].push(program.instruction(receive));
                        }
                    }
                    Instruction::Receive { .. } => {}
                    _ if rows[rank.index()].is_empty() => rows[rank.index()].push(instruction),
                    _ => {}
                }
            }
        }
        rows.iter().any(|row| !row.is_empty()).then_some(Self { rows })
    }

    /// One of the messages, which are of one kind of element.
    pub(super) fn first(&self) -> Instruction {
        *self.rows.iter().flatten().next().expect("a kind of message is that of an instruction")
    }

    /// Every message with the rank that has it and its place there.
    pub(super) fn messages(&self) -> impl Iterator<Item = (PipelineRank, usize, Instruction)> {
        self.rows.iter().enumerate().flat_map(|(rank, row)| {
            row.iter()
                .enumerate()
                .map(move |(place, &instruction)| (PipelineRank(rank as u32), place, instruction))
        })
    }

    /// Where the receive of a send stands: rank and place.
    ///
    /// # Panics
    /// If it is no send of these routes.
    pub(super) fn receive_of(&self, facts: &Facts<'_>, send: Instruction) -> (PipelineRank, usize) {
        let Instruction::Send { edge, micro_batch } = send else { unreachable!("only sends have a receive") };
        let receiver = facts.plan.pipeline_rank_of(edge.receiver());
        let receive = Instruction::Receive { edge, micro_batch };
        let place = self.rows[receiver.index()].iter().position(|of| *of == receive);
        (receiver, place.expect("a send is put into the routes together with its receive"))
    }

    /// What the slowest of the imitated links takes for messages of a size, nanoseconds.
    pub(super) fn longest_on_its_link(&self, facts: &Facts<'_>, bytes: u64) -> u64 {
        let on_its_link =
            |of: &Instruction| facts.over_its_link(&facts.message(*of).with_bytes(bytes)).total();
        self.rows.iter().flatten().map(on_its_link).max().unwrap_or(0)
    }

    /// Buffers of the size of a message that all ranks need together at the most: the message, and what it is copied from or
    /// added to.
    pub(super) fn num_buffers(&self, facts: &Facts<'_>) -> u64 {
        let num_messages: usize = self.rows.iter().map(Vec::len).sum();
        2 * num_messages as u64 * facts.plan.grid().data_degree as u64
    }
}
