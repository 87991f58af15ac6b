//! A machine that holds the dependency graph to its word: it starts and ends instructions in random order, as far as
//! lanes and waits alone allow, and watches every buffer for a reader or writer too early.

mod accesses;

use std::collections::BTreeMap;
use std::string::String;
use std::vec::Vec;

use self::accesses::{Access, Buffer, Content, accesses};
use crate::check::CheckedProgram;
use crate::generate::{bfs, zb_h1, zb_h2, zb_v};
use crate::id::{PipelineRank, Stage};
use crate::instruction::{Instruction, InstructionKind, Lane};
use crate::lower::lower;
use crate::options::{LowerOptions, Residency};
use crate::program::Purpose;
use crate::testing::{Random, all_orders, all_programs, mixed_units, options_in_turn, units};
use crate::unit_facts::UnitFacts;

#[derive(Default)]
struct State {
    content: Option<Content>,
    num_readers: usize,
    is_written: bool,
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
    let ranks: Vec<_> = program.ranks().collect();
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
        let waits = self.program.waits(rank.at(index)).iter().copied();
        waits.filter(move |&wait| !(self.ignores)(kind(index), kind(wait)))
    }

    /// The instructions of other ranks without which this one cannot end.
    fn partners(&self, rank: usize, index: usize) -> Vec<(usize, usize)> {
        let instruction = self.program.row(PipelineRank(rank as u32))[index];
        match instruction {
            Instruction::Send { .. } | Instruction::Receive { .. } => {
                let peer = self.program.peer(PipelineRank(rank as u32).at(index)).unwrap();
                vec![(peer.rank.index(), peer.index)]
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
            if !starts {
                state.end(access);
                continue;
            }
            state.start(access).map_err(|hazard| {
                format!("rank {rank}, step {index}, `{instruction}`: {hazard} at {buffer:?}")
            })?;
        }
        match instruction {
            Instruction::Unshard { .. } if starts => self.copies_held[rank] += 1,
            Instruction::Reshard { .. } if !starts => self.copies_held[rank] -= 1,
            _ => {}
        }
        let num_buffers = self.program.gather_buffers(PipelineRank(rank as u32)).len();
        if self.copies_held[rank] > num_buffers {
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

    fn end(&mut self, access: Access) {
        match access {
            Access::Read(..) => self.num_readers -= 1,
            Access::Write(..) => self.is_written = false,
        }
    }
}

#[test]
fn no_random_order_that_the_graph_allows_touches_a_buffer_too_early() {
    let mut num_programs = 0;
    for (seed, program) in all_programs(3, 4, 2).enumerate() {
        let text = format!("{program}");
        let program = CheckedProgram::new(program).unwrap();
        if let Err(hazard) = run(&program, seed as u64) {
            panic!("{hazard}\n{text}");
        }
        num_programs += 1;
    }
    assert!(num_programs > 500, "{num_programs}");
}

/// A large unit at the end of each stage of three: its gradient has a buffer of its own, and the others take turns in two.
#[test]
fn gradients_of_unlike_units_lie_in_three_buffers() {
    let options = LowerOptions::zero_3(Residency::Strict, 1);
    for (p, m) in (1..=3).flat_map(|p| (2..=5).map(move |m| (p, m))) {
        for order in all_orders(p, m) {
            let num_bytes = |unit: u32| if unit % 3 == 2 { 64 } else { 8 };
            let num_units = 3 * order.placement.num_stages() as u32;
            let unit = |unit| UnitFacts::new(Stage(unit / 3), num_bytes(unit));
            let units: Vec<UnitFacts> = (0..num_units).map(unit).collect();
            let program = CheckedProgram::new(lower(&order, &units, &options).unwrap()).unwrap();
            for rank in program.ranks().filter(|_| program.purpose() == Purpose::Training) {
                assert_eq!(program.gradient_buffers(rank), [64, 8, 8], "{p} x {m}");
                assert_eq!(program.high_water(rank).gradient_buffers, 3);
            }
            for seed in 0..8 {
                run(&program, seed).unwrap_or_else(|hazard| panic!("{hazard}\n{}", program.program()));
            }
        }
    }
}

/// With one gradient buffer, whether gradients come from a `B` or, later than their `I`, from a `W`: the most that is held is one, and without the
/// wait for the reduction before it some order writes the buffer while it is reduced.
#[test]
fn every_gradient_waits_for_the_one_buffer() {
    let sizes = [(1, 3), (2, 4), (3, 4)];
    let orders = sizes.into_iter().flat_map(|(p, m)| {
        let mut orders = all_orders(p, m).to_vec();
        orders.extend([zb_h1(p, m), zb_h2(p, m), zb_v(p, m), bfs(p, 2, m)].map(Result::unwrap));
        orders
    });
    let mut num_hazards = [0; 2];
    for (order, options) in
        orders.flat_map(|of| options_in_turn().into_iter().map(move |with| (of.clone(), with)))
    {
        let num_stages = order.placement.num_stages() as u32;
        for units in [units(num_stages, 2, false), units(num_stages, 2, true), mixed_units(num_stages, 2)] {
            // What recomputes has full backwards.
            let Ok(program) = lower(&order, &units, &options) else { continue };
            let program = CheckedProgram::new(program).unwrap();
            for rank in program.ranks().filter(|_| program.purpose() == Purpose::Training) {
                let largest = program.filled_gradient_buffers(rank).filter_map(|(at, _)| {
                    let unit = program.row(rank)[at].unit()?;
                    Some(options.unreduced_bytes(program.chain().facts(unit)))
                });
                assert_eq!(program.gradient_buffers(rank), largest.max().as_slice());
            }
            for seed in 0..4 {
                run(&program, seed).unwrap_or_else(|hazard| panic!("{hazard}\n{}", program.program()));
                for (num, of) in num_hazards.iter_mut().zip([Ignored::Backward, Ignored::BackwardWeight]) {
                    *num += usize::from(run_without(&program, seed, of.wait_for_reduction()).is_err());
                }
            }
        }
    }
    assert!(num_hazards.iter().all(|&num| num > 20), "{num_hazards:?}");
}

#[derive(Clone, Copy)]
enum Ignored {
    Backward,
    BackwardWeight,
}

impl Ignored {
    fn wait_for_reduction(self) -> fn(InstructionKind, InstructionKind) -> bool {
        use InstructionKind::{Backward, BackwardWeight, Reduce};
        match self {
            Self::Backward => |of, wait| (of, wait) == (Backward, Reduce),
            Self::BackwardWeight => |of, wait| (of, wait) == (BackwardWeight, Reduce),
        }
    }
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
    assert!(is_needed(|of, wait| (of, wait) == (Recompute, Unshard)));
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
