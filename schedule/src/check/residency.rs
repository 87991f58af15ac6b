//! Weights are gathered where they are read, within the budget, and never for nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::{GatherFault, Rule, Violation};
use crate::chain::Chain;
use crate::id::{PipelineRank, Unit};
use crate::instruction::{Instruction, Lane};
use crate::program::Program;
use crate::protocol::reads_weights;

pub(super) fn check(program: &Program) -> Result<(), Box<Violation>> {
    let Some(budget) = program.options.weights.budget() else { return Ok(()) };
    let mut walk = Walk::new(&program.chain, budget);
    for (rank, row) in program.rows.iter().enumerate() {
        let fail = |step, rule| Err(Violation::new(program, PipelineRank(rank as u32), step, rule));
        for (step, &instruction) in row.iter().enumerate() {
            walk.step(step, instruction).or_else(|rule| fail(step, rule))?;
        }
        if let Some((unit, gathered_at)) = walk.first_held() {
            return fail(gathered_at, Rule::Gathering { unit, fault: GatherFault::NeverResharded });
        }
    }
    Ok(())
}

/// A gathered copy.
#[derive(Clone, Copy)]
struct Copy {
    gathered_at: usize,
    last_use: Option<usize>,
}

struct Walk<'a> {
    chain: &'a Chain,
    budget: u32,
    /// `[unit]`: copies held, oldest first.
    copies: Vec<VecDeque<Copy>>,
    held: usize,
    /// The last instruction on the compute lane other than a reshard.
    last_compute: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(chain: &'a Chain, budget: u32) -> Self {
        let copies = vec![VecDeque::new(); chain.num_units()];
        Self { chain, budget, copies, held: 0, last_compute: None }
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
            copy.last_use = Some(step);
        }
        if instruction.lane() == Lane::Compute {
            self.last_compute = Some(step);
        }
        Ok(())
    }

    fn unshard(&mut self, step: usize, unit: Unit) -> Result<(), Rule> {
        self.held += 1;
        if self.held as u64 > u64::from(self.budget) {
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
            Some(last_use) if self.last_compute != Some(last_use) => {
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
