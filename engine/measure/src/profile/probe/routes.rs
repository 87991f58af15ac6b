//! Between which ranks messages of a kind are sent: one for every group of ranks that has any, all at once as in a step.

use std::collections::BTreeSet;
use std::time::Duration;

use pipezero_models::ElementType;
use pipezero_plan::costs::MessageKind;
use pipezero_run::executor::ProbedMessage;
use pipezero_schedule::{Edge, Instruction, PipelineRank};

use crate::profile::facts::Facts;

/// The messages of one round.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// `[pipeline rank]`: the run's first message of the kind over each of its routes.
    pub(super) rows: Vec<Vec<ProbedMessage>>,
    /// What the elements of all of them are.
    pub(super) element_type: ElementType,
}

impl Routes {
    /// Those of a kind of message; `None` where the size is always the same, as the norm's is, or nothing is sent.
    pub(super) fn of(facts: &Facts<'_>, kind: MessageKind) -> Option<Self> {
        let program = facts.program();
        let mut rows = vec![Vec::new(); facts.plan.grid().pipeline_degree];
        // Stages that take turns on a rank have an edge each, but one neighbour: in a step they do not send at once.
        let mut pairs = BTreeSet::new();
        for rank in facts.pipeline_ranks() {
            for (index, &instruction) in program.row(rank).iter().enumerate() {
                if MessageKind::of(instruction) != Some(kind) {
                    continue;
                }
                let message = ProbedMessage::of(instruction)?;
                match instruction {
                    Instruction::Send { .. } => {
                        let receive = program.peer(rank.at(index)).expect("a checked send has a receive");
                        if pairs.insert((rank, receive.rank)) {
                            rows[rank.index()].push(message);
                            rows[receive.rank.index()]
                                .extend(ProbedMessage::of(program.instruction(receive)));
                        }
                    }
                    // With its send.
                    Instruction::Receive { .. } => {}
                    _ if rows[rank.index()].is_empty() => rows[rank.index()].push(message),
                    _ => {}
                }
            }
        }
        let first: &ProbedMessage = rows.iter().flatten().next()?;
        let element_type = facts.message(first.instruction()).element_type?;
        Some(Self { rows, element_type })
    }

    /// Every message with the rank that has it and its index there.
    pub(super) fn messages(&self) -> impl Iterator<Item = (PipelineRank, usize, ProbedMessage)> {
        self.rows.iter().enumerate().flat_map(|(rank, row)| {
            row.iter().enumerate().map(move |(index, &message)| (PipelineRank(rank as u32), index, message))
        })
    }

    /// Where what is sent over an edge is received: rank and index.
    ///
    /// # Panics
    /// If these routes send nothing over it.
    pub(super) fn receive_of(&self, facts: &Facts<'_>, edge: Edge) -> (PipelineRank, usize) {
        let receiver = facts.plan.pipeline_rank_of(edge.receiver());
        let mut row = self.rows[receiver.index()].iter();
        let index = row.position(
            |message| matches!(message.instruction(), Instruction::Receive { edge: of, .. } if of == edge),
        );
        (receiver, index.expect("a send is put into the routes together with its receive"))
    }

    /// Time that messages of a size take on the slowest of the emulated links.
    pub(super) fn longest_on_its_link(&self, facts: &Facts<'_>, bytes: u64) -> Duration {
        let on_its_link = |of: &ProbedMessage| {
            facts.over_its_link(&facts.message(of.instruction()).with_bytes(bytes)).total()
        };
        Duration::from_nanos(self.rows.iter().flatten().map(on_its_link).max().unwrap_or(0))
    }

    /// Buffers of the size of a message that all ranks need together at the most: the message, and what it is copied from or
    /// added to.
    pub(super) fn num_buffers(&self, facts: &Facts<'_>) -> u64 {
        let num_messages: usize = self.rows.iter().map(Vec::len).sum();
        2 * num_messages as u64 * facts.plan.grid().data_degree as u64
    }
}
