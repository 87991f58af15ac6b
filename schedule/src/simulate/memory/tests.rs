//! Curves against counting what is held at every moment, and against what the checker proved.

use std::vec::Vec;

use super::{MemoryBytes, MemoryCategory, MemoryCosts, MemoryError, UnitMemory, memory};
use crate::check::CheckedProgram;
use crate::dataflow::weight_gradient;
use crate::generate::one_f_one_b;
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::{LowerOptions, Reduction};
use crate::program::Purpose;
use crate::protocol::RECEIVE_BUFFERS;
use crate::simulate::{Span, Timeline, simulate};
use crate::testing::{Random, checked, generated_programs, uneven_costs};

fn random_sizes(program: &CheckedProgram, seed: u64) -> MemoryCosts {
    let mut random = Random(seed);
    let mut below = |bound| random.below(bound) as u64;
    let mut costs = MemoryCosts::uniform(program, UnitMemory::default(), 0);
    for unit in &mut costs.units {
        *unit =
            UnitMemory { saved_bytes: below(50), weight_input_bytes: below(20), gradient_bytes: below(90) };
    }
    costs.message_bytes.iter_mut().for_each(|bytes| *bytes = below(30));
    for fixed in &mut costs.fixed {
        MemoryCategory::ALL.iter().for_each(|&category| fixed[category] = below(100));
    }
    costs
}

/// A program, when it ran, and what it takes: all that a count needs.
struct Count<'a> {
    program: &'a CheckedProgram,
    timeline: &'a Timeline,
    costs: &'a MemoryCosts,
}

impl Count<'_> {
    /// When an instruction of a rank ran; panics if the row does not have it.
    fn span(&self, rank: PipelineRank, is_it: impl Fn(Instruction) -> bool) -> Span {
        let index = self.program.row(rank).iter().position(|&of| is_it(of)).unwrap();
        self.timeline.row(rank)[index]
    }

    /// From the first start to the last end of the computes of a rank that one asks for, if there are any.
    fn extent(&self, rank: PipelineRank, is_it: impl Fn(Instruction) -> bool) -> Option<Span> {
        let row = self.program.row(rank).iter().zip(self.timeline.row(rank));
        let spans = row.filter(|(of, _)| is_it(**of)).map(|(_, &span)| span);
        spans.reduce(|a, b| Span { start: a.start.min(b.start), end: a.end.max(b.end) })
    }

    /// What a rank holds at a moment, counted buffer by buffer.
    fn held(&self, rank: PipelineRank, time: u64) -> MemoryBytes {
        let mut held = self.costs.fixed[rank.index()];
        let mut add = |category, num_bytes: u64, from: u64, until: u64| {
            if from <= time && time < until {
                held[category] += num_bytes;
            }
        };
        self.copies(rank, &mut add);
        let chain = self.program.chain();
        for stage in chain.placement().stages(rank) {
            for micro_batch in (0..self.program.num_micro_batches()).map(MicroBatch) {
                self.activations(rank, stage, micro_batch, &mut add);
                self.messages(rank, stage, micro_batch, &mut add);
            }
        }
        if self.program.options().reduction == Reduction::ScatterEvery {
            for (&of, span) in self.program.row(rank).iter().zip(self.timeline.row(rank)) {
                if let Some((unit, micro_batch)) = weight_gradient(of) {
                    let reduced = self.span(rank, |of| of == Instruction::Reduce { unit, micro_batch });
                    let num_bytes = self.costs.units[unit.index()].gradient_bytes;
                    add(MemoryCategory::Gradients, num_bytes, span.start, reduced.end);
                }
            }
        }
        held
    }

    fn copies(&self, rank: PipelineRank, add: &mut impl FnMut(MemoryCategory, u64, u64, u64)) {
        let times = |wanted: Instruction| {
            let row = self.program.row(rank).iter().zip(self.timeline.row(rank));
            row.filter(move |(of, _)| **of == wanted).map(|(_, &span)| span)
        };
        for unit in self.program.chain().units_on(rank) {
            let pairs = times(Instruction::Unshard { unit }).zip(times(Instruction::Reshard { unit }));
            for (gathered, freed) in pairs {
                let num_bytes = self.program.chain().facts(unit).num_bytes;
                add(MemoryCategory::Gathered, num_bytes, gathered.start, freed.end);
            }
        }
    }

    fn activations(
        &self,
        rank: PipelineRank,
        stage: Stage,
        of: MicroBatch,
        add: &mut impl FnMut(MemoryCategory, u64, u64, u64),
    ) {
        let chain = self.program.chain();
        let is_here = |unit: Unit| chain.stage(unit) == stage;
        let sum = |bytes: fn(&UnitMemory) -> u64| -> u64 {
            chain.units_of(stage).map(|unit| bytes(&self.costs.units[unit as usize])).sum()
        };
        let slot = self.extent(rank, |instruction| match instruction {
            Instruction::Forward { unit, micro_batch } => {
                // In an evaluation the next stage may read the slot where it lies.
                let reads = self.program.purpose() == Purpose::Evaluation
                    && chain.first_unit(chain.stage(unit)) == unit
                    && chain.stage(unit).0 == stage.0 + 1;
                micro_batch == of && (is_here(unit) || reads)
            }
            Instruction::Backward { unit, micro_batch }
            | Instruction::BackwardInput { unit, micro_batch }
            | Instruction::BackwardWeight { unit, micro_batch } => micro_batch == of && is_here(unit),
            Instruction::Send { edge, micro_batch } => {
                self.program.purpose() == Purpose::Evaluation && edge == Edge::Up(stage) && micro_batch == of
            }
            _ => false,
        });
        let slot = slot.unwrap();
        add(MemoryCategory::Activations, sum(|unit| unit.saved_bytes), slot.start, slot.end);
        let weight_inputs = self.extent(rank, |instruction| match instruction {
            Instruction::BackwardInput { unit, micro_batch }
            | Instruction::BackwardWeight { unit, micro_batch } => micro_batch == of && is_here(unit),
            _ => false,
        });
        if let Some(weight_inputs) = weight_inputs {
            add(
                MemoryCategory::Activations,
                sum(|unit| unit.weight_input_bytes),
                weight_inputs.start,
                weight_inputs.end,
            );
        }
    }

    fn messages(
        &self,
        rank: PipelineRank,
        stage: Stage,
        of: MicroBatch,
        add: &mut impl FnMut(MemoryCategory, u64, u64, u64),
    ) {
        let chain = self.program.chain();
        let input_gradient = |unit: Unit| {
            self.span(rank, |instruction| {
                [
                    Instruction::Backward { unit, micro_batch: of },
                    Instruction::BackwardInput { unit, micro_batch: of },
                ]
                .contains(&instruction)
            })
        };
        let trains = self.program.purpose() == Purpose::Training;
        let before = stage.0.checked_sub(1).map(Stage);
        let below = before.filter(|&before| chain.crosses_ranks(Edge::Up(before)));
        let above = Some(stage).filter(|&stage| chain.crosses_ranks(Edge::Up(stage)));
        let mut hold = |edge: Edge, from: u64, until: u64| {
            add(MemoryCategory::Communication, self.costs.message_bytes[edge.index()], from, until);
        };
        if let Some(before) = below {
            let edge = Edge::Up(before);
            let received = self.span(rank, |at| at == Instruction::Receive { edge, micro_batch: of });
            let unit = chain.first_unit(stage);
            let read = self.span(rank, |at| at == Instruction::Forward { unit, micro_batch: of });
            hold(edge, received.start, read.end);
        }
        if let Some(before) = below.filter(|_| trains) {
            let edge = Edge::Down(before);
            let sent = self.span(rank, |at| at == Instruction::Send { edge, micro_batch: of });
            hold(edge, input_gradient(chain.first_unit(stage)).start, sent.end);
        }
        if let Some(stage) = above.filter(|_| trains) {
            let edge = Edge::Down(stage);
            let received = self.span(rank, |at| at == Instruction::Receive { edge, micro_batch: of });
            hold(edge, received.start, input_gradient(chain.last_unit(stage)).end);
        }
    }
}

#[test]
fn curves_are_what_counting_at_every_moment_says() {
    let mut num_moments = 0;
    for (seed, program) in generated_programs().into_iter().enumerate().step_by(5) {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        let costs = random_sizes(&program, seed as u64);
        let count = Count { program: &program, timeline: &timeline, costs: &costs };
        for (rank, curve) in program.ranks().zip(&memory(&program, &timeline, &costs).unwrap()) {
            let mut times: Vec<u64> =
                timeline.row(rank).iter().flat_map(|span| [span.start, span.end]).collect();
            times.push(0);
            times.sort_unstable();
            times.dedup();
            let held: Vec<_> = times.iter().map(|&time| (time, count.held(rank, time))).collect();
            for &(time, held) in &held {
                assert_eq!(curve.at(time), held, "rank {rank:?}, time {time}\n{}", program.program());
            }
            let most = held.iter().rev().max_by_key(|(_, held)| held.total()).unwrap();
            assert_eq!(curve.peak(), *most, "the first time of the largest sum");
            for category in MemoryCategory::ALL {
                let most = held.iter().map(|(_, held)| held[category]).max().unwrap();
                assert_eq!(curve.peak_of_each()[category], most);
            }
            assert_eq!(curve.points().last().unwrap().1, costs.fixed[rank.index()], "all is given back");
            assert!(curve.points().is_sorted_by(|a, b| a.0 < b.0 && a.1 != b.1));
            num_moments += held.len();
        }
    }
    assert!(num_moments > 5_000, "{num_moments}");
}

#[test]
fn no_peak_exceeds_the_buffers_that_the_checker_proved_enough() {
    for (seed, program) in generated_programs().into_iter().enumerate() {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        let unit = UnitMemory { saved_bytes: 0, weight_input_bytes: 0, gradient_bytes: 1 };
        let mut costs = MemoryCosts::uniform(&program, unit, 0);
        // One byte for each slot, whatever the number of units.
        for stage in (0..program.chain().num_stages() as u32).map(Stage) {
            costs.units[program.chain().first_unit(stage).index()].saved_bytes = 1;
        }
        for (rank, curve) in program.ranks().zip(&memory(&program, &timeline, &costs).unwrap()) {
            let (peak, high_water) = (curve.peak_of_each(), program.high_water(rank));
            let buffers = program.gather_buffers(rank).iter().sum::<u64>();
            assert!(peak[MemoryCategory::Gathered] <= high_water.gathered_bytes.min(buffers));
            let activations = peak[MemoryCategory::Activations];
            match program.purpose() {
                Purpose::Training => assert_eq!(activations, high_water.activations as u64),
                Purpose::Evaluation => {
                    let stages = program.placement().stages(rank);
                    assert!(activations <= stages.map(|stage| program.num_slots(stage) as u64).sum());
                }
            }
            assert!(peak[MemoryCategory::Gradients] <= high_water.gradient_buffers as u64);
        }
    }
}

#[test]
fn every_edge_and_weight_input_buffer_stays_within_its_buffers() {
    for (seed, program) in generated_programs().into_iter().enumerate().step_by(3) {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        for stage in (0..program.chain().num_stages() as u32).map(Stage) {
            let mut costs = MemoryCosts::uniform(&program, UnitMemory::default(), 0);
            costs.units[program.chain().first_unit(stage).index()].weight_input_bytes = 1;
            let curves = memory(&program, &timeline, &costs).unwrap();
            let peaks = curves[program.placement().rank(stage).index()].peak_of_each();
            assert!(peaks[MemoryCategory::Activations] <= program.num_weight_input_buffers(stage) as u64);
        }
        for edge in program.chain().edges() {
            let mut costs = MemoryCosts::uniform(&program, UnitMemory::default(), 0);
            costs.message_bytes[edge.index()] = 1;
            let curves = memory(&program, &timeline, &costs).unwrap();
            let of = |stage: Stage| curves[program.placement().rank(stage).index()].peak_of_each();
            let most = |stage: Stage| of(stage)[MemoryCategory::Communication];
            assert!(most(edge.receiver()) <= RECEIVE_BUFFERS as u64);
            let sends = match edge {
                Edge::Up(_) => 0,
                Edge::Down(_) => program.num_gradient_send_buffers(edge) as u64,
            };
            assert!(most(edge.sender()) <= sends);
        }
    }
}

#[test]
fn sizes_of_another_program_are_errors() {
    let program = checked(&one_f_one_b(2, 2).unwrap(), 2, &LowerOptions::ZERO_2);
    let timeline = simulate(&program, &uneven_costs(&program, 1)).unwrap();
    let fit = MemoryCosts::uniform(&program, UnitMemory::default(), 1);
    let of = |costs: MemoryCosts| memory(&program, &timeline, &costs).unwrap_err();
    let units = MemoryCosts { units: Vec::new(), ..fit.clone() };
    assert_eq!(of(units), MemoryError::NumUnits { num_units: 0, expected: 4 });
    let edges = MemoryCosts { message_bytes: Vec::new(), ..fit.clone() };
    assert_eq!(of(edges), MemoryError::NumEdges { num_edges: 0, expected: 2 });
    let ranks = MemoryCosts { fixed: Vec::new(), ..fit.clone() };
    assert_eq!(of(ranks), MemoryError::NumRanks { num_ranks: 0, expected: 2 });
    let huge = UnitMemory { saved_bytes: u64::MAX, ..UnitMemory::default() };
    let huge = MemoryCosts::uniform(&program, huge, 0);
    assert!(matches!(of(huge), MemoryError::TooLarge { rank: PipelineRank(0), .. }));
    let mut full = fit;
    full.fixed[1][MemoryCategory::Parameters] = u64::MAX;
    assert!(matches!(of(full), MemoryError::TooLarge { rank: PipelineRank(1), .. }));
}
