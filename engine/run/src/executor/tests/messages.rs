//! A program without its computes: each rank issues its messages and waits for them as the executor does.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use pipezero_comm::testing::{buffer, values};
use pipezero_comm::{Channel, Communicator, Group, Pending};
use pipezero_schedule::{CheckedProgram, Instruction, Lane, PipelineRank, Program, Stage, Unit};

/// What is played of a program.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    program: Program,
    num_data_ranks: usize,
    /// `[pipeline rank][index]`: the instructions of the row that an instruction waits for.
    waits: Vec<Vec<Vec<usize>>>,
}

/// A message that was issued.
struct Issued {
    index: usize,
    pending: Box<dyn Pending>,
    expected: Expected,
}

/// Which elements of a buffer come back as what.
struct Expected {
    range: Range<usize>,
    values: Vec<f32>,
}

impl Messages {
    /// With all waits of the executor.
    pub(super) fn of_checked(program: &CheckedProgram, num_data_ranks: usize) -> Self {
        let waits_of = |rank: PipelineRank| -> Vec<Vec<usize>> {
            (0..program.row(rank).len()).map(|index| program.waits(rank.at(index)).to_vec()).collect()
        };
        let waits = program.ranks().map(waits_of).collect();
        Self { program: program.program().clone(), num_data_ranks, waits }
    }

    /// With no wait but those of computes for what they read from other ranks. No executor can do with less, however many buffers it has,
    /// so a program that hangs here hangs everywhere.
    pub(super) fn with_fewest_waits(program: &Program, num_data_ranks: usize) -> Self {
        let waits_of = |row: &Vec<Instruction>| -> Vec<Vec<usize>> {
            row.iter().map(|&of| receive_of(program, row, of).into_iter().collect()).collect()
        };
        let waits = program.rows.iter().map(waits_of).collect();
        Self { program: program.clone(), num_data_ranks, waits }
    }

    pub(super) fn world_size(&self) -> usize {
        self.program.rows.len() * self.num_data_ranks
    }

    /// Plays the row of one rank to its end. Every message says what it is, and is compared where it arrives.
    pub(super) fn play(&self, mut comm: Box<dyn Communicator>) {
        let pipeline_rank = comm.rank() / self.num_data_ranks;
        let row = &self.program.rows[pipeline_rank];
        let mut in_flight: BTreeMap<Lane, VecDeque<Issued>> = BTreeMap::new();
        for (index, &instruction) in row.iter().enumerate() {
            for &earlier in &self.waits[pipeline_rank][index] {
                complete_up_to(&mut in_flight, row[earlier].lane(), earlier);
            }
            if let Some((pending, expected)) = self.issue(&mut *comm, instruction) {
                let issued = Issued { index, pending, expected };
                in_flight.entry(instruction.lane()).or_default().push_back(issued);
            }
        }
        let lanes: Vec<Lane> = in_flight.keys().copied().collect();
        lanes.into_iter().for_each(|lane| complete_up_to(&mut in_flight, lane, usize::MAX));
    }

    /// Issues what an instruction sends, or carries it out where the executor waits for it at once.
    fn issue(
        &self,
        comm: &mut dyn Communicator,
        instruction: Instruction,
    ) -> Option<(Box<dyn Pending>, Expected)> {
        let num = self.num_data_ranks;
        let (first, own) = (comm.rank() / num * num, comm.rank() % num);
        let group = Group::new(first..first + num);
        let mine = |tag: usize| buffer(&vec![(tag * num + own) as f32; num]);
        let all = |tag: usize| -> Vec<f32> { (0..num).map(|rank| (tag * num + rank) as f32).collect() };
        let sum = |tag: usize| all(tag).iter().sum::<f32>();
        let (started, range, values) = match instruction {
            Instruction::Unshard { unit } | Instruction::GatherAfterStep { unit } => {
                let tag = unit.index();
                (comm.start_all_gather(&group, mine(tag), 0..num), 0..num, all(tag))
            }
            Instruction::Reduce { unit, .. } | Instruction::ReduceLast { unit } => {
                let tag = unit.index();
                (comm.start_reduce_scatter(&group, mine(tag), 0..num), own..own + 1, vec![sum(tag)])
            }
            Instruction::AllReduce { unit } => {
                let tag = unit.index();
                let started = comm.start_all_reduce(&group, Channel::Reduce, mine(tag), 0..num);
                (started, 0..num, vec![sum(tag); num])
            }
            Instruction::Send { edge, micro_batch } => {
                let message = buffer(&[edge.index() as f32, micro_batch.0 as f32, own as f32]);
                let to = self.rank(edge.receiver(), own);
                (comm.start_send(to, edge.index() as u32, message), 0..0, Vec::new())
            }
            Instruction::Receive { edge, micro_batch } => {
                let message = vec![edge.index() as f32, micro_batch.0 as f32, own as f32];
                let from = self.rank(edge.sender(), own);
                (comm.start_receive(from, edge.index() as u32, buffer(&[0.0; 3])), 0..3, message)
            }
            Instruction::AddTied { embedding, head } => {
                let mut ends = [embedding, head].map(|unit| self.rank(self.stage(unit), own));
                ends.sort_unstable();
                if ends[0] != ends[1] {
                    let both = Group::new(ends);
                    let sum = comm.start_all_reduce(&both, Channel::Tied, buffer(&[1.0; 2]), 0..2);
                    assert_eq!(values(&sum.unwrap().wait().unwrap()), [2.0; 2]);
                }
                return None;
            }
            Instruction::GradientNorm => {
                let mut sums = [1];
                comm.all_reduce_words(&Group::new(0..self.world_size()), &mut sums).unwrap();
                assert_eq!(sums, [self.world_size() as u64]);
                return None;
            }
            Instruction::Forward { .. }
            | Instruction::Recompute { .. }
            | Instruction::Backward { .. }
            | Instruction::BackwardInput { .. }
            | Instruction::BackwardWeight { .. }
            | Instruction::Reshard { .. }
            | Instruction::OptimizerStep { .. } => return None,
        };
        Some((started.unwrap(), Expected { range, values }))
    }

    fn stage(&self, unit: Unit) -> Stage {
        self.program.chain.stage(unit)
    }

    fn rank(&self, stage: Stage, data_rank: usize) -> usize {
        self.program.chain.placement().rank(stage).index() * self.num_data_ranks + data_rank
    }
}

fn complete_up_to(in_flight: &mut BTreeMap<Lane, VecDeque<Issued>>, lane: Lane, index: usize) {
    let Some(queue) = in_flight.get_mut(&lane) else { return };
    while let Some(first) = queue.pop_front_if(|first| first.index <= index) {
        let (buffer, Expected { range, values: expected }) = (first.pending.wait().unwrap(), first.expected);
        assert_eq!(values(&buffer)[range], expected, "on {lane:?}");
    }
}

/// Where the row receives what a compute reads from another rank, if it does.
fn receive_of(program: &Program, row: &[Instruction], compute: Instruction) -> Option<usize> {
    let (edge, micro_batch) = match compute {
        Instruction::Forward { unit, micro_batch } => (program.chain.forward_input(unit)?, micro_batch),
        Instruction::Backward { unit, micro_batch } | Instruction::BackwardInput { unit, micro_batch } => {
            (program.chain.backward_input(unit)?, micro_batch)
        }
        _ => return None,
    };
    row.iter().position(|&instruction| instruction == Instruction::Receive { edge, micro_batch })
}
