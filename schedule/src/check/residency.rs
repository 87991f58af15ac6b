//! Weights are gathered where they are read, within the budget of copies and of bytes, and never without a use.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Checked, GatherFault, Rule, Violation};
use crate::chain::Chain;
use crate::dataflow::reads_weights;
use crate::gather_buffers::{self, GatherBuffers, NoBuffer};
use crate::id::Unit;
use crate::instruction::{Instruction, Lane};
use crate::options::{Residency, Weights};
use crate::program::Program;

/// Checks every row, and returns the buffers of its copies.
pub(super) fn check(program: &Program) -> Checked<Vec<GatherBuffers>> {
    if program.options.weights == Weights::Replicated {
        return Ok(vec![GatherBuffers::default(); program.rows.len()]);
    }
    let mut buffers = Vec::with_capacity(program.rows.len());
    let mut walk = Walk::new(program);
    for (rank, row) in program.ranks().zip(&program.rows) {
        let violation = |step, rule| Violation::new(program, rank, step, rule);
        let allowed = gather_buffers::allowed(&program.chain, rank, &program.options.weights);
        walk.budget = allowed.len();
        for (step, &instruction) in row.iter().enumerate() {
            walk.step(step, instruction).map_err(|rule| violation(step, rule))?;
        }
        if let Some((unit, gathered_at)) = walk.first_held() {
            let fault = GatherFault::NeverResharded;
            return Err(violation(gathered_at, Rule::Gathering { unit, fault }));
        }
        let of_row = GatherBuffers::assign(&program.chain, row, &allowed).map_err(|error| {
            let NoBuffer { step, unit, held_bytes } = error;
            let num_bytes = program.chain.facts(unit).num_bytes;
            let budget_bytes = allowed.iter().copied().fold(0, u64::saturating_add);
            violation(step, Rule::NoGatherBuffer { unit, num_bytes, held_bytes, budget_bytes })
        })?;
        buffers.push(of_row);
    }
    Ok(buffers)
}

/// A gathered copy.
#[derive(Clone, Copy)]
struct Copy {
    gathered_at: usize,
    last_use: Option<(usize, Instruction)>,
}

struct Walk<'a> {
    chain: &'a Chain,
    budget: usize,
    /// `[unit]`: copies held, oldest first.
    copies: Vec<VecDeque<Copy>>,
    held: usize,
    is_strict: bool,
    /// `[unit]`: whether it has been gathered, where that may be only once.
    is_gathered: Option<Vec<bool>>,
    /// The last instruction on the compute lane other than a reshard.
    last_compute: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program) -> Self {
        let chain = &program.chain;
        let residency = match &program.options.weights {
            Weights::Replicated => None,
            Weights::Sharded { residency, .. } => Some(residency),
        };
        Self {
            chain,
            budget: 0,
            copies: vec![VecDeque::new(); chain.num_units()],
            held: 0,
            is_strict: residency == Some(&Residency::Strict),
            is_gathered: (residency == Some(&Residency::All)).then(|| vec![false; chain.num_units()]),
            last_compute: None,
        }
    }

    fn step(&mut self, step: usize, instruction: Instruction) -> Result<(), Rule> {
        match instruction {
            Instruction::Unshard { unit } => return self.unshard(step, unit),
            Instruction::Reshard { unit } => return self.reshard(unit),
            _ => {}
        }
        if let Some(unit) = reads_weights(self.chain, instruction) {
            let Some(copy) = self.copies[unit.index()].front_mut() else {
                let fault = GatherFault::NotGathered { reader: instruction };
                return Err(Rule::Gathering { unit, fault });
            };
            if self.is_strict && copy.last_use.is_some_and(|(_, last)| !is_one_use(last, instruction)) {
                let fault = GatherFault::UsedAgain { reader: instruction };
                return Err(Rule::Gathering { unit, fault });
            }
            copy.last_use = Some((step, instruction));
        }
        if instruction.lane() == Lane::Compute {
            self.last_compute = Some(step);
        }
        Ok(())
    }

    fn unshard(&mut self, step: usize, unit: Unit) -> Result<(), Rule> {
        if let Some(is_gathered) = &mut self.is_gathered
            && core::mem::replace(&mut is_gathered[unit.index()], true)
        {
            return Err(Rule::Gathering { unit, fault: GatherFault::GatheredAgain });
        }
        self.held += 1;
        if self.held > self.budget {
            return Err(Rule::OverBudget { held: self.held, budget: self.budget });
        }
        self.copies[unit.index()].push_back(Copy { gathered_at: step, last_use: None });
        Ok(())
    }

    fn reshard(&mut self, unit: Unit) -> Result<(), Rule> {
        let fault = |fault| Err(Rule::Gathering { unit, fault });
        let Some(copy) = self.copies[unit.index()].pop_front() else { return fault(GatherFault::NotHeld) };
        self.held -= 1;
        match copy.last_use {
            None => fault(GatherFault::Unused),
            Some((_, Instruction::Recompute { unit, micro_batch }))
                if self.chain.facts(unit).backward_reads_weights =>
            {
                fault(GatherFault::RecomputeNotUsed { reader: Instruction::Backward { unit, micro_batch } })
            }
            Some((last_use, _)) if self.last_compute != Some(last_use) => {
                fault(GatherFault::HeldPastLastUse { last_use })
            }
            Some(_) => Ok(()),
        }
    }

    /// A copy that is still held, with the position of its gather.
    fn first_held(&self) -> Option<(Unit, usize)> {
        let held =
            |(unit, copies): (usize, &VecDeque<Copy>)| Some((Unit(unit as u32), copies.front()?.gathered_at));
        self.copies.iter().enumerate().find_map(held)
    }
}

/// A recompute and its backward are one use of the weights.
fn is_one_use(first: Instruction, second: Instruction) -> bool {
    match first {
        Instruction::Recompute { unit, micro_batch } => second == Instruction::Backward { unit, micro_batch },
        _ => false,
    }
}
