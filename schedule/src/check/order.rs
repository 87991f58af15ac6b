//! Forward before backward, and the units of a stage together and in order.
//!
//! A rank has one buffer each for the running activation, the running gradient and recomputed activations. So between
//! two units of a stage, and between a recompute and its backward, no other forward, recompute or input gradient may
//! come. Weight gradients may: their operands lie in other buffers.

use super::{Checked, Rule, check_each, runs_after};
use crate::by_micro_batch::ByMicroBatch;
use crate::chain::Chain;
use crate::id::{MicroBatch, Unit};
use crate::instruction::{Edge, Instruction};
use crate::program::Program;

pub(super) fn check(program: &Program) -> Checked {
    let mut walk = Walk::new(program);
    check_each(program, |_, _, instruction| walk.step(instruction))
}

/// What has run; a unit lies on one rank, so one walk serves all rows.
struct Walk<'a> {
    chain: &'a Chain,
    /// `[unit, micro-batch]`
    forward: ByMicroBatch<bool>,
    /// `[unit, micro-batch]`
    input_gradient: ByMicroBatch<bool>,
    /// `[unit, micro-batch]`
    weight_gradient: ByMicroBatch<bool>,
    /// The forward, recompute or input gradient that must be the next; an input gradient stands here as a `B`.
    due: Option<Instruction>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program) -> Self {
        let none = ByMicroBatch::new(program.chain.num_units(), program.num_micro_batches, false);
        let (forward, input_gradient, weight_gradient) = (none.clone(), none.clone(), none);
        Self { chain: &program.chain, forward, input_gradient, weight_gradient, due: None }
    }

    fn step(&mut self, instruction: Instruction) -> Result<(), Rule> {
        match instruction {
            Instruction::Forward { unit, micro_batch } => self.forward(unit, micro_batch),
            Instruction::Backward { unit, micro_batch } => {
                self.input_gradient(instruction, unit, micro_batch)?;
                self.weight_gradient(instruction, unit, micro_batch)
            }
            Instruction::BackwardInput { unit, micro_batch } => {
                self.input_gradient(instruction, unit, micro_batch)
            }
            Instruction::Recompute { unit, micro_batch } => self.recompute(unit, micro_batch),
            Instruction::BackwardWeight { unit, micro_batch } => {
                let needed = Instruction::BackwardInput { unit, micro_batch };
                runs_after(self.input_gradient[(unit.index(), micro_batch)], instruction, needed)?;
                self.weight_gradient(instruction, unit, micro_batch)
            }
            _ => Ok(()),
        }
    }

    fn forward(&mut self, unit: Unit, micro_batch: MicroBatch) -> Result<(), Rule> {
        let instruction = Instruction::Forward { unit, micro_batch };
        let is_first = self.chain.is_first(unit);
        self.take_turn(instruction, instruction, is_first)?;
        // The stage before, if it lies on the same rank.
        if is_first && unit.0 > 0 && self.chain.forward_input(unit).is_none() {
            let before = Unit(unit.0 - 1);
            let needed = Instruction::Forward { unit: before, micro_batch };
            runs_after(self.forward[(before.index(), micro_batch)], instruction, needed)?;
        }
        self.forward[(unit.index(), micro_batch)] = true;
        if !self.chain.is_last(unit) {
            self.due = Some(Instruction::Forward { unit: Unit(unit.0 + 1), micro_batch });
        }
        Ok(())
    }

    fn input_gradient(
        &mut self,
        instruction: Instruction,
        unit: Unit,
        micro_batch: MicroBatch,
    ) -> Result<(), Rule> {
        self.runs_after_forward(instruction, unit, micro_batch)?;
        let (is_last, after) = (self.chain.is_last(unit), Unit(unit.0 + 1));
        let begins = is_last && !self.chain.facts(unit).recomputes;
        self.take_turn(Instruction::Backward { unit, micro_batch }, instruction, begins)?;
        // The stage after, if it lies on the same rank.
        let is_here = !self.chain.crosses_ranks(Edge::Down(self.chain.stage(unit)));
        if is_last && after.index() < self.chain.num_units() && is_here {
            let needed = Instruction::Backward { unit: after, micro_batch };
            runs_after(self.input_gradient[(after.index(), micro_batch)], instruction, needed)?;
        }
        self.input_gradient[(unit.index(), micro_batch)] = true;
        if !self.chain.is_first(unit) {
            self.due = Some(self.backward_of(Unit(unit.0 - 1), micro_batch));
        }
        Ok(())
    }

    /// A backward and its recompute run after the forward of the whole stage.
    fn runs_after_forward(
        &self,
        instruction: Instruction,
        unit: Unit,
        micro_batch: MicroBatch,
    ) -> Result<(), Rule> {
        let last = self.chain.last_unit(self.chain.stage(unit));
        let needed = Instruction::Forward { unit: last, micro_batch };
        runs_after(self.forward[(last.index(), micro_batch)], instruction, needed)
    }

    /// What the backward of a unit begins with.
    fn backward_of(&self, unit: Unit, micro_batch: MicroBatch) -> Instruction {
        if self.chain.facts(unit).recomputes {
            Instruction::Recompute { unit, micro_batch }
        } else {
            Instruction::Backward { unit, micro_batch }
        }
    }

    /// Fills the buffer from which the unit's backward reads; that backward must be next.
    fn recompute(&mut self, unit: Unit, micro_batch: MicroBatch) -> Result<(), Rule> {
        let instruction = Instruction::Recompute { unit, micro_batch };
        self.runs_after_forward(instruction, unit, micro_batch)?;
        self.take_turn(instruction, instruction, self.chain.is_last(unit))?;
        self.due = Some(Instruction::Backward { unit, micro_batch });
        Ok(())
    }

    /// A forward or input gradient is the one that is due; if none is due, it is the first of its stage.
    fn take_turn(&mut self, turn: Instruction, instruction: Instruction, begins: bool) -> Result<(), Rule> {
        match self.due.take() {
            Some(due) if due == turn => Ok(()),
            Some(due) => Err(Rule::Interrupted { instruction, expected: due }),
            None if begins => Ok(()),
            None => {
                let needed = match turn {
                    Instruction::Forward { unit, micro_batch } => {
                        Instruction::Forward { unit: Unit(unit.0 - 1), micro_batch }
                    }
                    Instruction::Backward { unit, micro_batch } if self.chain.facts(unit).recomputes => {
                        Instruction::Recompute { unit, micro_batch }
                    }
                    Instruction::Recompute { unit, micro_batch }
                    | Instruction::Backward { unit, micro_batch } => {
                        Instruction::Backward { unit: Unit(unit.0 + 1), micro_batch }
                    }
                    other => unreachable!("`{other}` has no turn"),
                };
                Err(Rule::RunsBefore { instruction, needed })
            }
        }
    }

    /// The weight gradients of a stage come against the chain, so that the first unit's is the last to read the slot.
    fn weight_gradient(
        &mut self,
        instruction: Instruction,
        unit: Unit,
        micro_batch: MicroBatch,
    ) -> Result<(), Rule> {
        if !self.chain.is_last(unit) {
            let after = Unit(unit.0 + 1);
            let needed = Instruction::BackwardWeight { unit: after, micro_batch };
            runs_after(self.weight_gradient[(after.index(), micro_batch)], instruction, needed)?;
        }
        self.weight_gradient[(unit.index(), micro_batch)] = true;
        Ok(())
    }
}
