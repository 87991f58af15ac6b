//! Every gradient is reduced as the policy says, after its last contribution.

use alloc::vec::Vec;

use super::{Checked, Rule, Violation};
use crate::dataflow::{unreduced_gradient, weight_gradient};
use crate::id::{MicroBatch, PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::options::Reduction;
use crate::program::{Program, Purpose};

pub(super) fn check(program: &Program) -> Checked {
    if program.purpose == Purpose::Evaluation {
        return Ok(());
    }
    for rank in program.ranks() {
        every(program, rank)?;
        last(program, rank)?;
    }
    Ok(())
}

/// Of what is reduced after every micro-batch the n-th reduction reduces the n-th gradient, and comes before the gradient
/// that takes its buffer.
fn every(program: &Program, rank: PipelineRank) -> Checked {
    let row = program.row(rank);
    let fail = |step, rule| Err(Violation::new(program, rank, step, rule));
    let reduction = |(unit, micro_batch): (Unit, MicroBatch)| Instruction::Reduce { unit, micro_batch };
    let mut gradients: Vec<(Unit, MicroBatch)> = Vec::new();
    let mut num_reduced = 0;
    for (step, &instruction) in row.iter().enumerate() {
        if let Some(gradient) = unreduced_gradient(&program.chain, &program.options, instruction) {
            if gradients.len() == num_reduced + program.options.unreduced.count() {
                let freed_by = reduction(gradients[num_reduced]);
                return fail(step, Rule::BufferTaken { instruction, freed_by });
            }
            gradients.push(gradient);
        }
        if let Instruction::Reduce { unit, micro_batch } = instruction {
            let Some(&gradient) = gradients.get(num_reduced) else {
                let needed = Instruction::Backward { unit, micro_batch };
                return fail(step, Rule::RunsBefore { instruction, needed });
            };
            if gradient != (unit, micro_batch) {
                return fail(step, Rule::ReducedOutOfTurn { instruction, expected: reduction(gradient) });
            }
            num_reduced += 1;
        }
    }
    match gradients.get(num_reduced) {
        None => Ok(()),
        Some(&gradient) => fail(row.len(), Rule::Missing(reduction(gradient))),
    }
}

/// Of each unit with gradients that are reduced once, that reduction, after its last gradient.
fn last(program: &Program, rank: PipelineRank) -> Checked {
    let row = program.row(rank);
    let reduces = |unit: Unit, reduction| program.options.reduces(program.chain.facts(unit), reduction);
    let reduction = |unit| match reduces(unit, Reduction::AllReduceLast) {
        true => Instruction::AllReduce { unit },
        false => Instruction::ReduceLast { unit },
    };
    let fail = |step, rule| Err(Violation::new(program, rank, step, rule));
    let mut reduced_at: Vec<Option<usize>> = vec![None; program.chain.num_units()];
    for (step, &instruction) in row.iter().enumerate() {
        if let Some((unit, _)) = weight_gradient(&program.chain, instruction)
            && let Some(reduced_at) = reduced_at[unit.index()]
        {
            let rule = Rule::RunsBefore { instruction: reduction(unit), needed: instruction };
            return fail(reduced_at, rule);
        }
        if let Instruction::ReduceLast { unit } | Instruction::AllReduce { unit } = instruction
            && let Some(first) = reduced_at[unit.index()].replace(step)
        {
            return fail(step, Rule::Repeated { instruction, first });
        }
    }
    let accumulates = |unit| program.options.accumulates(program.chain.facts(unit));
    let mut accumulating = program.chain.units_on(rank).filter(|&unit| accumulates(unit));
    match accumulating.find(|unit| reduced_at[unit.index()].is_none()) {
        None => Ok(()),
        Some(unit) => fail(row.len(), Rule::Missing(reduction(unit))),
    }
}
