//! Every instruction names things that exist, on the rank that holds them, and belongs to the policies.

use super::{Checked, Rule, Violation, check_each};
use crate::id::{PipelineRank, Unit};
use crate::instruction::{Instruction, InstructionKind, Operands};
use crate::options::{Reduction, Weights};
use crate::program::{Program, Purpose};

pub(super) fn check(program: &Program) -> Checked {
    let whole = |rule| Violation::new(program, PipelineRank(0), 0, rule);
    let (num_rows, num_ranks) = (program.rows.len(), program.chain.num_ranks());
    if num_rows != num_ranks {
        return Err(whole(Rule::NumRows { num_rows, num_ranks }));
    }
    if program.num_micro_batches == 0 {
        return Err(whole(Rule::NoMicroBatch));
    }
    let trains = program.purpose == Purpose::Training;
    program.options.check(program.chain.num_ranks(), trains).map_err(|error| whole(Rule::Options(error)))?;
    check_each(program, |rank, _, instruction| match holder(program, rank, instruction) {
        None => Err(Rule::NotThere(instruction)),
        Some(holder) if holder != rank => Err(Rule::WrongRank { instruction, belongs_on: holder }),
        Some(_) if !is_of_policy(program, instruction) => Err(Rule::NotOfPolicy(instruction)),
        Some(_) => Ok(()),
    })
}

/// The rank that holds what an instruction names; its own if several or all do. `None` if no rank does.
fn holder(program: &Program, own: PipelineRank, instruction: Instruction) -> Option<PipelineRank> {
    let chain = &program.chain;
    if instruction.micro_batch().is_some_and(|micro_batch| micro_batch.0 >= program.num_micro_batches) {
        return None;
    }
    match instruction.operands() {
        Operands::UnitAndMicroBatch(unit, _) | Operands::Unit(unit) => {
            (unit.index() < chain.num_units()).then(|| chain.rank(unit))
        }
        Operands::Message(edge, _) => chain.is_sent_over(edge).then(|| {
            let is_send = instruction.kind() == InstructionKind::Send;
            chain.placement().rank(if is_send { edge.sender() } else { edge.receiver() })
        }),
        Operands::TiedUnits { embedding, head } => {
            let is_tied = chain.summed_pairs().any(|pair| pair == (embedding, head));
            let is_here = is_tied && chain.rank(head) == own;
            is_tied.then(|| if is_here { own } else { chain.rank(embedding) })
        }
        Operands::None => Some(own),
    }
}

fn is_of_policy(program: &Program, instruction: Instruction) -> bool {
    let trains = program.purpose == Purpose::Training;
    let is_reduced =
        |unit: Unit, reduction| trains && program.options.reduces(program.chain.facts(unit), reduction);
    match instruction {
        Instruction::Forward { .. } | Instruction::Send { .. } | Instruction::Receive { .. } => true,
        Instruction::Backward { .. }
        | Instruction::BackwardInput { .. }
        | Instruction::BackwardWeight { .. }
        | Instruction::AddTied { .. }
        | Instruction::GradientNorm => trains,
        Instruction::OptimizerStep { unit } => trains && !program.chain.facts(unit).is_frozen,
        Instruction::Recompute { unit, .. } => trains && program.chain.facts(unit).recomputes,
        Instruction::Unshard { unit } | Instruction::Reshard { unit } => {
            program.options.weights != Weights::Replicated && program.chain.facts(unit).is_gathered()
        }
        Instruction::Reduce { unit, .. } => is_reduced(unit, Reduction::ScatterEvery),
        Instruction::ReduceLast { unit } => is_reduced(unit, Reduction::ScatterLast),
        Instruction::AllReduce { unit } => is_reduced(unit, Reduction::AllReduceLast),
        Instruction::GatherAfterStep { unit } => {
            trains && program.options.gathers_after_step(program.chain.facts(unit))
        }
    }
}
