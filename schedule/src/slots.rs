//! Activation slots: which set of saved activations each micro-batch of a stage uses.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::by_micro_batch::ByMicroBatch;
use crate::chain::Chain;
use crate::dataflow::filled_slot;
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::program::{Program, Purpose};
use crate::protocol::FORWARD_SLOTS;
use crate::send_buffers::SendBuffers;

/// The slots of every stage.
///
/// A slot is taken by the forward of the stage's first unit and given back by the last compute that reads it: when
/// training, the first unit's `B` or `W`; else the forward of the stage's last unit, or, where the next stage lies on
/// the same rank and reads it there, of the next stage's first. Of the free slots, the one that has been free longest
/// is taken: the send out of it has had the most time to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// `[stage, micro-batch]`.
    slot: ByMicroBatch<usize>,
    /// `[stage, micro-batch]`: the micro-batch that had the slot before.
    previous: ByMicroBatch<Option<MicroBatch>>,
    /// `[stage]`.
    num_slots: Vec<usize>,
    /// `[stage]`: the most slots in use at once.
    in_flight: Vec<usize>,
    /// `[rank]`: the same, over all stages of the rank.
    in_flight_on: Vec<usize>,
}

impl Slots {
    /// The slots of a program in which every forward and backward stands once, in order.
    pub(crate) fn assign(program: &Program, send_buffers: &SendBuffers) -> Self {
        let num_stages = program.chain.num_stages();
        let (in_flight, in_flight_on) = in_flight(program);
        let num_slots = (0..num_stages)
            .map(|stage| {
                // Without a backward to wait for, a second slot lets a stage compute while it sends.
                let of = Stage(stage as u32);
                let least = match program.purpose {
                    Purpose::Training if program.chain.ends_with_send(of) => send_buffers.num_slots(of),
                    Purpose::Evaluation if program.chain.crosses_ranks(Edge::Up(of)) => FORWARD_SLOTS,
                    Purpose::Training | Purpose::Evaluation => 0,
                };
                in_flight[stage].max(least).min(program.num_micro_batches as usize)
            })
            .collect();
        let slot = ByMicroBatch::new(num_stages, program.num_micro_batches, 0);
        let previous = ByMicroBatch::new(num_stages, program.num_micro_batches, None);
        let mut slots = Self { slot, previous, num_slots, in_flight, in_flight_on };
        let mut free = vec![VecDeque::new(); num_stages];
        let mut num_touched = vec![0; num_stages];
        for &instruction in program.rows.iter().flatten() {
            if let Some((stage, micro_batch)) = filled_slot(&program.chain, instruction) {
                let at = (stage.index(), micro_batch);
                if num_touched[stage.index()] < slots.num_slots[stage.index()] {
                    slots.slot[at] = num_touched[stage.index()];
                    num_touched[stage.index()] += 1;
                } else {
                    let previous: MicroBatch =
                        free[stage.index()].pop_front().expect("as many slots as are in use at once");
                    slots.slot[at] = slots.slot(stage, previous);
                    slots.previous[at] = Some(previous);
                }
            }
            for (stage, micro_batch) in freed_slots(program, instruction) {
                free[stage.index()].push_back(micro_batch);
            }
        }
        slots
    }

    /// The slot of a stage that a micro-batch uses.
    pub(crate) fn slot(&self, stage: Stage, micro_batch: MicroBatch) -> usize {
        self.slot[(stage.index(), micro_batch)]
    }

    /// The micro-batch that had the slot before, if any.
    pub(crate) fn previous(&self, stage: Stage, micro_batch: MicroBatch) -> Option<MicroBatch> {
        self.previous[(stage.index(), micro_batch)]
    }

    /// Slots of a stage.
    pub(crate) fn num_slots(&self, stage: Stage) -> usize {
        self.num_slots[stage.index()]
    }

    /// The most micro-batches in flight on a stage.
    pub(crate) fn in_flight(&self, stage: Stage) -> usize {
        self.in_flight[stage.index()]
    }

    /// The most activations in flight on a rank, over all its stages.
    pub(crate) fn in_flight_on(&self, rank: PipelineRank) -> usize {
        self.in_flight_on[rank.index()]
    }
}

/// The most slots taken and not given back, `[stage]` and `[rank]`.
fn in_flight(program: &Program) -> (Vec<usize>, Vec<usize>) {
    let mut in_use = vec![0usize; program.chain.num_stages()];
    let mut most_of_stage = in_use.clone();
    let mut most_on_rank = Vec::with_capacity(program.rows.len());
    for row in &program.rows {
        let (mut here, mut most_here) = (0usize, 0);
        for &instruction in row {
            if let Some((stage, _)) = filled_slot(&program.chain, instruction) {
                in_use[stage.index()] += 1;
                most_of_stage[stage.index()] = most_of_stage[stage.index()].max(in_use[stage.index()]);
                here += 1;
                most_here = most_here.max(here);
            }
            for (stage, _) in freed_slots(program, instruction) {
                in_use[stage.index()] -= 1;
                here -= 1;
            }
        }
        most_on_rank.push(most_here);
    }
    (most_of_stage, most_on_rank)
}

/// The stages whose activations of a micro-batch are needed no longer after an instruction.
///
/// Two at most: an evaluating unit that is a whole stage can end its own stage's need and, by reading it, that of the
/// stage before on the same rank.
fn freed_slots(program: &Program, instruction: Instruction) -> impl Iterator<Item = (Stage, MicroBatch)> {
    let chain = &program.chain;
    let freed = match (program.purpose, instruction) {
        (
            Purpose::Training,
            Instruction::Backward { unit, micro_batch } | Instruction::BackwardWeight { unit, micro_batch },
        ) => [chain.is_first(unit).then(|| (chain.stage(unit), micro_batch)), None],
        (Purpose::Evaluation, Instruction::Forward { unit, micro_batch }) => {
            evaluated_stages(chain, unit).map(|stage| Some((stage?, micro_batch)))
        }
        _ => [None, None],
    };
    freed.into_iter().flatten()
}

fn evaluated_stages(chain: &Chain, unit: Unit) -> [Option<Stage>; 2] {
    let stage = chain.stage(unit);
    let next_reads_here =
        |stage: Stage| stage.index() + 1 < chain.num_stages() && !chain.crosses_ranks(Edge::Up(stage));
    let own = (chain.is_last(unit) && !next_reads_here(stage)).then_some(stage);
    let before = stage.0.checked_sub(1).map(Stage).filter(|&before| next_reads_here(before));
    [before.filter(|_| chain.is_first(unit)), own]
}
