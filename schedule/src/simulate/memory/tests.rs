//! Curves against counting what is held at every moment, and against what the checker proved.

use std::string::ToString;
use std::vec::Vec;

use super::{MemoryCategory, MemoryCosts, MemoryError, UnitMemory, memory};
use crate::check::CheckedProgram;
use crate::dataflow::weight_gradient;
use crate::generate::one_f_one_b;
use crate::id::{MicroBatch, PipelineRank, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::options::{LowerOptions, Reduction};
use crate::program::Purpose;
use crate::protocol::RECEIVE_BUFFERS;
use crate::simulate::{Listed, Span, Timeline, WrongLength, simulate};
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

/// Every buffer that a rank holds, by what the table in this module says of it: from the first start to the last end of the
/// instructions that use it.
fn buffers(
    program: &CheckedProgram,
    timeline: &Timeline,
    costs: &MemoryCosts,
    rank: PipelineRank,
) -> Vec<(MemoryCategory, u64, Span)> {
    let chain = program.chain();
    let row = || program.row(rank).iter().zip(timeline.row(rank));
    let mut buffers = Vec::new();
    for unit in chain.units_on(rank) {
        let times = |wanted| row().filter(move |(of, _)| **of == wanted).map(|(_, span)| span);
        let pairs = times(Instruction::Unshard { unit }).zip(times(Instruction::Reshard { unit }));
        buffers.extend(pairs.map(|(gathered, freed)| {
            let span = Span { start: gathered.start, end: freed.end };
            (MemoryCategory::Gathered, chain.facts(unit).num_bytes, span)
        }));
    }
    let mut add = |category, num_bytes, uses: &dyn Fn(Instruction) -> bool| {
        let spans = row().filter(|(of, _)| uses(**of)).map(|(_, &span)| span);
        let extent = spans.reduce(|a, b| Span { start: a.start.min(b.start), end: a.end.max(b.end) });
        buffers.extend(extent.map(|extent| (category, num_bytes, extent)));
    };
    let micro_batches = || (0..program.num_micro_batches()).map(MicroBatch);
    for (unit, micro_batch) in chain.units_on(rank).flat_map(|unit| micro_batches().map(move |of| (unit, of)))
    {
        if program.options().reduces(chain.facts(unit), Reduction::ScatterEvery) {
            add(MemoryCategory::Gradients, costs.units[unit.index()].gradient_bytes, &|of| {
                weight_gradient(chain, of) == Some((unit, micro_batch))
                    || of == Instruction::Reduce { unit, micro_batch }
            });
        }
    }
    let stages = chain.placement().stages(rank);
    for (stage, micro_batch) in stages.flat_map(|stage| micro_batches().map(move |of| (stage, of))) {
        let sum = |bytes: fn(&UnitMemory) -> u64| -> u64 {
            chain.units_of(stage).map(|unit| bytes(&costs.units[unit as usize])).sum()
        };
        let is_here = |unit: Unit| chain.stage(unit) == stage;
        // In an evaluation the next stage may read the slot where it lies.
        let evaluates = program.purpose() == Purpose::Evaluation;
        let reads = |unit: Unit| evaluates && chain.is_first(unit) && chain.stage(unit).0 == stage.0 + 1;
        add(MemoryCategory::Activations, sum(|unit| unit.saved_bytes), &|of| match of {
            Instruction::Forward { unit, .. } if reads(unit) => of.micro_batch() == Some(micro_batch),
            Instruction::Send { edge, .. } => {
                edge == Edge::Up(stage) && of.micro_batch() == Some(micro_batch)
            }
            Instruction::Forward { unit, .. }
            | Instruction::Backward { unit, .. }
            | Instruction::BackwardInput { unit, .. }
            | Instruction::BackwardWeight { unit, .. } => {
                is_here(unit) && of.micro_batch() == Some(micro_batch)
            }
            _ => false,
        });
        add(MemoryCategory::Activations, sum(|unit| unit.weight_input_bytes), &|of| match of {
            Instruction::BackwardInput { unit, .. } | Instruction::BackwardWeight { unit, .. } => {
                is_here(unit) && of.micro_batch() == Some(micro_batch)
            }
            _ => false,
        });
        let mut add_message = |edge: Edge, uses: &dyn Fn(Instruction) -> bool| {
            if chain.is_sent_over(edge) {
                add(MemoryCategory::Communication, costs.message_bytes[edge.index()], uses);
            }
        };
        let is_input_gradient = |of: Instruction, unit: Unit| {
            of == Instruction::Backward { unit, micro_batch }
                || of == Instruction::BackwardInput { unit, micro_batch }
        };
        let (first, last) = (chain.first_unit(stage), chain.last_unit(stage));
        if let Some(before) = stage.0.checked_sub(1).map(Stage) {
            let edge = Edge::Up(before);
            add_message(edge, &|of| {
                of == Instruction::Receive { edge, micro_batch }
                    || of == Instruction::Forward { unit: first, micro_batch }
            });
            let edge = Edge::Down(before);
            add_message(edge, &|of| {
                of == Instruction::Send { edge, micro_batch } || is_input_gradient(of, first)
            });
        }
        let edge = Edge::Down(stage);
        add_message(edge, &|of| {
            of == Instruction::Receive { edge, micro_batch } || is_input_gradient(of, last)
        });
    }
    buffers
}

#[test]
fn curves_are_what_counting_at_every_moment_says() {
    let mut num_moments = 0;
    for (seed, program) in generated_programs().into_iter().enumerate().step_by(5) {
        let timeline = simulate(&program, &uneven_costs(&program, seed as u64)).unwrap();
        let costs = random_sizes(&program, seed as u64);
        for (rank, curve) in program.ranks().zip(&memory(&program, &timeline, &costs).unwrap()) {
            let mut times: Vec<u64> =
                timeline.row(rank).iter().flat_map(|span| [span.start, span.end]).collect();
            times.push(0);
            times.sort_unstable();
            times.dedup();
            let buffers = buffers(&program, &timeline, &costs, rank);
            let held_at = |time| {
                let mut held = costs.fixed[rank.index()];
                let at = buffers.iter().filter(|(.., span)| span.start <= time && time < span.end);
                at.for_each(|&(category, num_bytes, _)| held[category] += num_bytes);
                held
            };
            let held: Vec<_> = times.iter().map(|&time| (time, held_at(time))).collect();
            for &(time, held) in &held {
                let (_, at) = curve.points().iter().rfind(|(from, _)| *from <= time).unwrap();
                assert_eq!(*at, held, "rank {rank:?}, time {time}\n{}", program.program());
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
            let is_freed_by_send =
                |stage| program.purpose() == Purpose::Evaluation || program.chain().ends_with_send(stage);
            if program.placement().stages(rank).any(is_freed_by_send) {
                let stages = program.placement().stages(rank);
                assert!(activations <= stages.map(|stage| program.num_slots(stage) as u64).sum());
            } else {
                assert_eq!(activations, high_water.activations as u64);
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
    let wrong = |what, of, expected| MemoryError::Length(WrongLength { what, of, length: 0, expected });
    let units = MemoryCosts { units: Vec::new(), ..fit.clone() };
    assert_eq!(of(units), wrong("sizes", Listed::Units, 4));
    let edges = MemoryCosts { message_bytes: Vec::new(), ..fit.clone() };
    assert_eq!(of(edges), wrong("message sizes", Listed::Edges, 2));
    let ranks = MemoryCosts { fixed: Vec::new(), ..fit.clone() };
    assert_eq!(of(ranks), wrong("memory at rest", Listed::Ranks, 2));
    let text = "memory at rest of 0 ranks for a program of 2: give one for each pipeline rank";
    assert_eq!(wrong("memory at rest", Listed::Ranks, 2).to_string(), text);
    let huge = UnitMemory { saved_bytes: u64::MAX, ..UnitMemory::default() };
    let huge = MemoryCosts::uniform(&program, huge, 0);
    assert!(matches!(of(huge), MemoryError::TooLarge { rank: PipelineRank(0), .. }));
    let mut full = fit;
    full.fixed[1][MemoryCategory::Parameters] = u64::MAX;
    assert!(matches!(of(full), MemoryError::TooLarge { rank: PipelineRank(1), .. }));
}
