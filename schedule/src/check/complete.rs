//! Every compute and every transfer of the step stands exactly once.
//!
//! Rows are sorted by what they name and walked beside what a step must have, so that neither time nor space depends
//! on the sizes that a hand-written program states.

use alloc::vec::Vec;
use core::iter::Peekable;

use super::{Checked, Rule, Violation};
use crate::id::{MicroBatch, PipelineRank, Stage};
use crate::instruction::{Edge, Instruction, InstructionKind};
use crate::program::{Program, Purpose};

pub(super) fn check(program: &Program) -> Checked {
    let carries = |edge: &Edge| program.purpose == Purpose::Training || matches!(edge, Edge::Up(_));
    let sent_over = program.chain.edges().filter(|&edge| program.chain.is_sent_over(edge));
    let mut edges: Vec<Edge> = sent_over.filter(carries).collect();
    edges.sort_unstable();
    for rank in program.ranks() {
        let units = || program.chain.units_on(rank);
        let forward = |unit, micro_batch| Instruction::Forward { unit, micro_batch };
        once(program, rank, units(), InstructionKind::Forward, forward)?;
        if program.purpose == Purpose::Training {
            backwards(program, rank)?;
            let recomputed = units().filter(|&unit| program.chain.facts(unit).recomputes);
            let recompute = |unit, micro_batch| Instruction::Recompute { unit, micro_batch };
            once(program, rank, recomputed, InstructionKind::Recompute, recompute)?;
        }
        let is_here = |stage: Stage| program.chain.placement().rank(stage) == rank;
        let send = |edge, micro_batch| Instruction::Send { edge, micro_batch };
        let sent = edges.iter().copied().filter(|edge| is_here(edge.sender()));
        once(program, rank, sent, InstructionKind::Send, send)?;
        let receive = |edge, micro_batch| Instruction::Receive { edge, micro_batch };
        let received = edges.iter().copied().filter(|edge| is_here(edge.receiver()));
        once(program, rank, received, InstructionKind::Receive, receive)?;
    }
    Ok(())
}

/// A row's instructions of one kind with their positions, sorted by what they name.
fn sorted(program: &Program, rank: PipelineRank, kind: InstructionKind) -> Vec<(Instruction, usize)> {
    let row = program.row(rank).iter().enumerate();
    let of_kind = row.filter(|(_, instruction)| instruction.kind() == kind);
    let mut sorted: Vec<_> = of_kind.map(|(step, &instruction)| (instruction, step)).collect();
    sorted.sort_unstable();
    sorted
}

/// Every operand with every micro-batch, once. `operands` ascend.
fn once<T: core::marker::Copy>(
    program: &Program,
    rank: PipelineRank,
    operands: impl Iterator<Item = T>,
    kind: InstructionKind,
    instruction: impl Fn(T, MicroBatch) -> Instruction,
) -> Checked {
    let mut found = sorted(program, rank, kind).into_iter().peekable();
    for operand in operands {
        for micro_batch in (0..program.num_micro_batches).map(MicroBatch) {
            let expected = instruction(operand, micro_batch);
            take_one(program, rank, expected, &mut found)?;
        }
    }
    Ok(())
}

/// Takes the expected instruction off the sorted list: one, not two.
fn take_one(
    program: &Program,
    rank: PipelineRank,
    expected: Instruction,
    found: &mut Peekable<impl Iterator<Item = (Instruction, usize)>>,
) -> Checked {
    let Some((_, first)) = found.next_if(|&(instruction, _)| instruction == expected) else {
        let end = program.row(rank).len();
        return Err(Violation::new(program, rank, end, Rule::Missing(expected)));
    };
    if let Some((instruction, step)) = found.next_if(|&(instruction, _)| instruction == expected) {
        return Err(Violation::new(program, rank, step, Rule::Repeated { instruction, first }));
    }
    Ok(())
}

/// Every unit and micro-batch has one `B`, or one `I` and one `W`.
fn backwards(program: &Program, rank: PipelineRank) -> Checked {
    let list = |kind| sorted(program, rank, kind).into_iter().peekable();
    let mut full = list(InstructionKind::Backward);
    let mut inputs = list(InstructionKind::BackwardInput);
    let mut weights = list(InstructionKind::BackwardWeight);
    for unit in program.chain.units_on(rank) {
        for micro_batch in (0..program.num_micro_batches).map(MicroBatch) {
            let backward = Instruction::Backward { unit, micro_batch };
            let input = Instruction::BackwardInput { unit, micro_batch };
            let weight = Instruction::BackwardWeight { unit, micro_batch };
            let half = [inputs.peek(), weights.peek()]
                .into_iter()
                .flatten()
                .find(|&&(half, _)| half == input || half == weight)
                .copied();
            let is_full = full.peek().is_some_and(|&(next, _)| next == backward);
            match half {
                Some((_, step)) if is_full => {
                    return Err(Violation::new(
                        program,
                        rank,
                        step,
                        Rule::BothBackwards { unit, micro_batch },
                    ));
                }
                Some((half, step)) if program.chain.facts(unit).recomputes => {
                    return Err(Violation::new(program, rank, step, Rule::SplitRecompute(half)));
                }
                Some(_) => {
                    take_one(program, rank, input, &mut inputs)?;
                    take_one(program, rank, weight, &mut weights)?;
                }
                None => take_one(program, rank, backward, &mut full)?,
            }
        }
    }
    Ok(())
}
