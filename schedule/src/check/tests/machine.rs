//! A machine that holds the dependency graph to its word: it starts and ends instructions in random order, as far as
//! lanes and waits alone allow, and watches every buffer for a reader or writer too early.

use std::collections::{BTreeMap, VecDeque};
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::check::CheckedProgram;
use crate::id::{PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction, InstructionKind, Lane};
use crate::options::{Reduction, Weights};
use crate::program::Purpose;
use crate::testing::{Random, all_programs};

/// A buffer of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Buffer {
    /// Of a slot: what forward leaves for backward, and what is sent to the next stage.
    Saved(Stage, usize),
    Output(Stage, usize),
    Received(Edge, usize),
    GradientToSend(Edge, usize),
    Gradient(PipelineRank, usize),
    Accumulator(Unit),
    ReducedGradient(Unit),
    Copy(PipelineRank, usize),
    Weights(Unit),
}

/// What a buffer holds: a micro-batch, a unit, or both; whatever tells contents apart.
type Content = (u32, u32);

#[derive(Clone, Copy, Debug)]
enum Access {
    /// Fills the buffer, or changes it in place.
    Write(Buffer, Content),
    /// Needs this content.
    Read(Buffer, Content),
}

#[derive(Default)]
struct State {
    content: Option<Content>,
    num_readers: usize,
    is_written: bool,
}

/// What each instruction of a row touches; who uses which buffer is counted along the row.
fn accesses(program: &CheckedProgram, rank: PipelineRank) -> Vec<Vec<Access>> {
    use Access::{Read, Write};
    let chain = program.chain();
    let mut received: BTreeMap<Edge, Vec<u32>> = BTreeMap::new();
    let mut made: BTreeMap<Edge, Vec<u32>> = BTreeMap::new();
    let mut copies: BTreeMap<Unit, VecDeque<usize>> = BTreeMap::new();
    let mut gradients: Vec<Content> = Vec::new();
    let position = |list: &[u32], m: u32| list.iter().position(|&of| of == m).unwrap() % 2;
    let every = program.options().reduction == Reduction::ScatterEvery;
    let sharded = program.options().weights != Weights::Replicated;
    let mut row = Vec::new();
    for (index, &instruction) in program.row(rank).iter().enumerate() {
        let mut touched = Vec::new();
        let (forward, compute) = match instruction {
            Instruction::Forward { unit, micro_batch } => (true, Some((unit, micro_batch))),
            Instruction::Backward { unit, micro_batch }
            | Instruction::BackwardInput { unit, micro_batch }
            | Instruction::BackwardWeight { unit, micro_batch } => (false, Some((unit, micro_batch))),
            _ => (false, None),
        };
        let is_weight = matches!(instruction, Instruction::BackwardWeight { .. });
        let is_input = matches!(instruction, Instruction::BackwardInput { .. });
        if let Some((unit, m)) = compute {
            let stage = chain.stage(unit);
            let slot = Buffer::Saved(stage, program.slot(stage, m));
            let output = Buffer::Output(stage, program.slot(stage, m));
            let is_first = unit == chain.first_unit(stage);
            let is_last = unit == chain.last_unit(stage);
            if !(forward && is_first) {
                touched.push(Read(slot, (m.0, 0)));
            }
            touched.push(Write(slot, (m.0, 0)));
            if forward && (is_first || is_last) {
                touched.push(Write(output, (m.0, u32::from(!is_last))));
            }
            let facts = chain.facts(unit);
            let reads = if forward {
                facts.forward_reads_weights
            } else {
                facts.backward_reads_weights && !is_weight
            };
            if sharded && reads {
                touched.push(Read(Buffer::Copy(rank, copies[&unit][0]), (unit.0, 0)));
            }
            let input = if forward { chain.forward_input(unit) } else { chain.backward_input(unit) };
            if let Some(edge) = input.filter(|_| !is_weight && if forward { is_first } else { is_last }) {
                touched.push(Read(Buffer::Received(edge, position(&received[&edge], m.0)), (m.0, 0)));
            }
            if let Some(edge) = chain.backward_output(unit).filter(|_| !forward && !is_weight) {
                let made = made.entry(edge).or_default();
                touched.push(Write(Buffer::GradientToSend(edge, made.len() % 2), (m.0, 0)));
                made.push(m.0);
            }
            if !forward && !is_input {
                if every {
                    touched.push(Write(Buffer::Gradient(rank, gradients.len() % 2), (unit.0, m.0)));
                    gradients.push((unit.0, m.0));
                } else {
                    touched.push(Write(Buffer::Accumulator(unit), (0, 0)));
                }
            }
        }
        match instruction {
            Instruction::Unshard { unit } => {
                copies.entry(unit).or_default().push_back(index);
                touched.push(Write(Buffer::Copy(rank, index), (unit.0, 0)));
            }
            Instruction::Reshard { unit } => {
                let copy = copies.get_mut(&unit).unwrap().pop_front().unwrap();
                touched.push(Write(Buffer::Copy(rank, copy), (u32::MAX, 0)));
            }
            Instruction::Reduce { unit, micro_batch } => {
                let made = (unit.0, micro_batch.0);
                let buffer = gradients.iter().position(|&of| of == made).unwrap() % 2;
                touched.push(Read(Buffer::Gradient(rank, buffer), made));
                touched.push(Write(Buffer::ReducedGradient(unit), (0, 0)));
            }
            Instruction::ReduceLast { unit } | Instruction::AllReduce { unit } => {
                touched.push(Read(Buffer::Accumulator(unit), (0, 0)));
                touched.push(Write(Buffer::ReducedGradient(unit), (0, 0)));
            }
            Instruction::Send { edge: Edge::Up(stage), micro_batch } => {
                let slot = program.slot(stage, micro_batch);
                touched.push(Read(Buffer::Output(stage, slot), (micro_batch.0, 0)));
            }
            Instruction::Send { edge, micro_batch } => {
                let buffer = position(&made[&edge], micro_batch.0);
                touched.push(Read(Buffer::GradientToSend(edge, buffer), (micro_batch.0, 0)));
            }
            Instruction::Receive { edge, micro_batch } => {
                let received = received.entry(edge).or_default();
                touched.push(Write(Buffer::Received(edge, received.len() % 2), (micro_batch.0, 0)));
                received.push(micro_batch.0);
            }
            Instruction::AddTied { embedding, head } => {
                let here = [embedding, head].into_iter().filter(|&unit| chain.rank(unit) == rank);
                touched.extend(here.map(|unit| Write(Buffer::ReducedGradient(unit), (1, 0))));
            }
            Instruction::GradientNorm => {
                let is_tied = |unit| chain.tied().is_some_and(|(a, b)| unit == a || unit == b);
                let units = chain.units_on(rank);
                touched.extend(
                    units.map(|unit| Read(Buffer::ReducedGradient(unit), (u32::from(is_tied(unit)), 0))),
                );
            }
            Instruction::OptimizerStep { unit } => touched.push(Write(Buffer::Weights(unit), (0, 0))),
            Instruction::GatherAfterStep { unit } => touched.push(Read(Buffer::Weights(unit), (0, 0))),
            _ => {}
        }
        row.push(touched);
    }
    row
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waiting,
    Running,
    Ended,
}

struct Machine<'a> {
    program: &'a CheckedProgram,
    accesses: Vec<Vec<Vec<Access>>>,
    progress: Vec<Vec<Progress>>,
    /// The instruction before each on its lane.
    lane_before: Vec<Vec<Option<usize>>>,
    buffers: BTreeMap<Buffer, State>,
    copies_held: Vec<usize>,
    ignores: fn(InstructionKind, InstructionKind) -> bool,
}

/// Runs a program in a random order to its end; the error names the hazard.
pub(super) fn run(program: &CheckedProgram, seed: u64) -> Result<(), String> {
    run_without(program, seed, |_, _| false)
}

/// The same with some waits ignored: those of the first kind for the second.
fn run_without(
    program: &CheckedProgram,
    seed: u64,
    ignores: fn(InstructionKind, InstructionKind) -> bool,
) -> Result<(), String> {
    let ranks: Vec<_> = (0..program.num_ranks() as u32).map(PipelineRank).collect();
    let lane_before = ranks.iter().map(|&rank| {
        let mut last: BTreeMap<Lane, usize> = BTreeMap::new();
        let row = program.row(rank).iter().enumerate();
        row.map(|(index, instruction)| last.insert(instruction.lane(), index)).collect()
    });
    let mut machine = Machine {
        program,
        accesses: ranks.iter().map(|&rank| accesses(program, rank)).collect(),
        progress: ranks.iter().map(|&rank| vec![Progress::Waiting; program.row(rank).len()]).collect(),
        lane_before: lane_before.collect(),
        buffers: BTreeMap::new(),
        copies_held: vec![0; ranks.len()],
        ignores,
    };
    let mut random = Random(seed);
    loop {
        let moves = machine.moves();
        if moves.is_empty() {
            break;
        }
        let (rank, index) = moves[random.below(moves.len())];
        machine.advance(rank, index)?;
    }
    let all_ended = machine.progress.iter().flatten().all(|&progress| progress == Progress::Ended);
    if all_ended { Ok(()) } else { Err(String::from("the machine stopped before the end")) }
}

impl Machine<'_> {
    /// The instructions that may start or end now.
    fn moves(&self) -> Vec<(usize, usize)> {
        let mut moves = Vec::new();
        for (rank, progress) in self.progress.iter().enumerate() {
            for (index, &state) in progress.iter().enumerate() {
                let ended = |before: usize| progress[before] == Progress::Ended;
                let may = match state {
                    Progress::Ended => false,
                    Progress::Running => self
                        .partners(rank, index)
                        .iter()
                        .all(|&(r, i)| self.progress[r][i] != Progress::Waiting),
                    Progress::Waiting => {
                        self.lane_before[rank][index].is_none_or(ended) && self.waits(rank, index).all(ended)
                    }
                };
                if may {
                    moves.push((rank, index));
                }
            }
        }
        moves
    }

    fn waits(&self, rank: usize, index: usize) -> impl Iterator<Item = usize> {
        let rank = PipelineRank(rank as u32);
        let kind = move |index: usize| self.program.row(rank)[index].kind();
        let waits = self.program.waits(rank, index).iter().copied();
        waits.filter(move |&wait| !(self.ignores)(kind(index), kind(wait)))
    }

    /// The instructions of other ranks without which this one cannot end.
    fn partners(&self, rank: usize, index: usize) -> Vec<(usize, usize)> {
        let instruction = self.program.row(PipelineRank(rank as u32))[index];
        match instruction {
            Instruction::Send { .. } | Instruction::Receive { .. } => {
                let (peer, step) = self.program.peer(PipelineRank(rank as u32), index).unwrap();
                vec![(peer.index(), step)]
            }
            Instruction::AddTied { .. } | Instruction::GradientNorm => {
                let rows = (0..self.program.num_ranks()).filter_map(|rank| {
                    let row = self.program.row(PipelineRank(rank as u32));
                    Some((rank, row.iter().position(|&other| other == instruction)?))
                });
                rows.collect()
            }
            _ => Vec::new(),
        }
    }

    fn advance(&mut self, rank: usize, index: usize) -> Result<(), String> {
        let instruction = self.program.row(PipelineRank(rank as u32))[index];
        let starts = self.progress[rank][index] == Progress::Waiting;
        for &access in &self.accesses[rank][index] {
            let (Access::Write(buffer, _) | Access::Read(buffer, _)) = access;
            let state = self.buffers.entry(buffer).or_default();
            let step = if starts { state.start(access) } else { state.end(access) };
            step.map_err(|hazard| {
                format!("rank {rank}, step {index}, `{instruction}`: {hazard} at {buffer:?}")
            })?;
        }
        match instruction {
            Instruction::Unshard { .. } if starts => self.copies_held[rank] += 1,
            Instruction::Reshard { .. } if !starts => self.copies_held[rank] -= 1,
            _ => {}
        }
        let budget = self.program.options().weights.budget().unwrap_or(0);
        if self.copies_held[rank] > budget as usize {
            return Err(format!("rank {rank}, step {index}: over budget"));
        }
        self.progress[rank][index] = if starts { Progress::Running } else { Progress::Ended };
        Ok(())
    }
}

impl State {
    /// An instruction may touch a buffer twice (read, then change in place): its own accesses do not clash.
    fn start(&mut self, access: Access) -> Result<(), &'static str> {
        match access {
            Access::Read(_, content) => {
                if self.is_written {
                    return Err("reads what is being written");
                }
                if self.content != Some(content) {
                    return Err("reads what is not there");
                }
                self.num_readers += 1;
            }
            Access::Write(_, content) => {
                let own_read = usize::from(self.content == Some(content) && self.num_readers == 1);
                if self.is_written || self.num_readers > own_read {
                    return Err("writes what is in use");
                }
                self.is_written = true;
                self.content = Some(content);
            }
        }
        Ok(())
    }

    fn end(&mut self, access: Access) -> Result<(), &'static str> {
        match access {
            Access::Read(..) => self.num_readers -= 1,
            Access::Write(..) => self.is_written = false,
        }
        Ok(())
    }
}

#[test]
fn no_random_order_that_the_graph_allows_touches_a_buffer_too_early() {
    let mut num_programs = 0;
    for (seed, program) in all_programs(3, 4, 2).enumerate() {
        let text = format!("{program}");
        let program = CheckedProgram::new(program).unwrap();
        assert!(
            program.purpose() == Purpose::Training
                || program.high_water(PipelineRank(0)).gradient_buffers == 0
        );
        if let Err(hazard) = run(&program, seed as u64) {
            panic!("{hazard}\n{text}");
        }
        num_programs += 1;
    }
    assert!(num_programs > 500, "{num_programs}");
}

#[test]
fn every_kind_of_wait_is_needed() {
    use InstructionKind::*;
    let programs: Vec<_> =
        all_programs(3, 4, 2).map(|program| CheckedProgram::new(program).unwrap()).collect();
    let is_needed = |ignores: fn(InstructionKind, InstructionKind) -> bool| {
        let runs = (0..4).flat_map(|seed| programs.iter().map(move |program| (program, seed)));
        runs.into_iter().any(|(program, seed)| run_without(program, seed, ignores).is_err())
    };
    // Each row of the table in `Dependencies`, and each of the operands that share a row.
    assert!(is_needed(|of, wait| (of, wait) == (Forward, Unshard)));
    assert!(is_needed(|of, wait| (of, wait) == (Backward, Unshard)));
    assert!(is_needed(|of, wait| (of, wait) == (Forward, Receive)));
    assert!(is_needed(|of, wait| (of, wait) == (Backward, Receive)));
    assert!(is_needed(|of, wait| (of, wait) == (Forward, Send)));
    assert!(is_needed(|of, wait| (of, wait) == (Backward, Send)));
    assert!(is_needed(|of, wait| (of, wait) == (Backward, Reduce)));
    assert!(is_needed(|of, wait| (of, wait) == (Send, Forward)));
    assert!(is_needed(|of, wait| (of, wait) == (Send, Backward)));
    assert!(is_needed(|of, wait| (of, wait) == (Receive, Forward)));
    assert!(is_needed(|of, wait| (of, wait) == (Receive, Backward)));
    assert!(is_needed(|of, _| of == Unshard));
    assert!(is_needed(|of, wait| (of, wait) == (Reduce, Backward)));
    assert!(is_needed(|of, wait| (of, wait) == (ReduceLast, Backward)));
    assert!(is_needed(|of, wait| (of, wait) == (AllReduce, Backward)));
    assert!(is_needed(|of, wait| of == AddTied && matches!(wait, Reduce | ReduceLast | AllReduce)));
    assert!(is_needed(|of, wait| of == GradientNorm && matches!(wait, Reduce | ReduceLast | AllReduce)));
    assert!(is_needed(|of, wait| (of, wait) == (GatherAfterStep, OptimizerStep)));
    assert!(!is_needed(|of, _| matches!(of, Reshard | OptimizerStep)), "these wait for their lane alone");
}
