//! Forward before backward, and the units of a stage together and in order.
//!
//! A rank has one buffer each for the running activation, the running gradient and recomputed activations. So between
//! two units of a stage, and between a recompute and its backward, no other forward, recompute or input gradient may
//! come. Weight gradients may: their operands lie in other buffers.

use alloc::boxed::Box;

use super::{Rule, Violation};
use crate::by_micro_batch::ByMicroBatch;
use crate::chain::Chain;
use crate::id::{MicroBatch, Stage, Unit};
use crate::instruction::{Edge, Instruction};
use crate::program::Program;

pub(super) fn check(program: &Program) -> Result<(), Box<Violation>> {
    let mut walk = Walk::new(program);
    for (rank, row) in program.ranks().zip(&program.rows) {
        for (step, &instruction) in row.iter().enumerate() {
            walk.step(instruction).map_err(|rule| Violation::new(program, rank, step, rule))?;
        }
    }
    Ok(())
}

/// What has run; a stage and a unit lie on one rank, so one walk serves all rows.
struct Walk<'a> {
    chain: &'a Chain,
    /// `[stage, micro-batch]`
    forward_ended: ByMicroBatch<bool>,
    /// `[stage, micro-batch]`
    input_gradient_ended: ByMicroBatch<bool>,
    /// `[unit, micro-batch]`
    input_gradient: ByMicroBatch<bool>,
    /// `[unit, micro-batch]`
    weight_gradient: ByMicroBatch<bool>,
    /// The forward, recompute or input gradient that must be the next; an input gradient stands here as a `B`.
    due: Option<Instruction>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program) -> Self {
        let by_stage = ByMicroBatch::new(program.chain.num_stages(), program.num_micro_batches, false);
        let by_unit = ByMicroBatch::new(program.chain.num_units(), program.num_micro_batches, false);
        Self {
            chain: &program.chain,
            forward_ended: by_stage.clone(),
            input_gradient_ended: by_stage,
            input_gradient: by_unit.clone(),
            weight_gradient: by_unit,
            due: None,
        }
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
                if !self.input_gradient[(unit.index(), micro_batch)] {
                    let needed = Instruction::BackwardInput { unit, micro_batch };
                    return Err(Rule::RunsBefore { instruction, needed });
                }
                self.weight_gradient(instruction, unit, micro_batch)
            }
            _ => Ok(()),
        }
    }

    fn forward(&mut self, unit: Unit, micro_batch: MicroBatch) -> Result<(), Rule> {
        let instruction = Instruction::Forward { unit, micro_batch };
        let stage = self.chain.stage(unit);
        self.take_turn(Instruction::Forward { unit, micro_batch }, instruction, self.chain.is_first(unit))?;
        if self.chain.is_first(unit)
            && let Some(before) = stage.0.checked_sub(1).map(Stage)
            && !self.chain.crosses_ranks(Edge::Up(before))
            && !self.forward_ended[(before.index(), micro_batch)]
        {
            let needed = Instruction::Forward { unit: Unit(unit.0 - 1), micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        if self.chain.is_last(unit) {
            self.forward_ended[(stage.index(), micro_batch)] = true;
        } else {
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
        let stage = self.chain.stage(unit);
        if !self.forward_ended[(stage.index(), micro_batch)] {
            let needed = Instruction::Forward { unit, micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        let is_last = self.chain.is_last(unit);
        let begins = is_last && !self.chain.facts(unit).recomputes;
        self.take_turn(Instruction::Backward { unit, micro_batch }, instruction, begins)?;
        if is_last
            && stage.index() + 1 < self.chain.num_stages()
            && !self.chain.crosses_ranks(Edge::Down(stage))
            && !self.input_gradient_ended[(Stage(stage.0 + 1).index(), micro_batch)]
        {
            let needed = Instruction::Backward { unit: Unit(unit.0 + 1), micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        self.input_gradient[(unit.index(), micro_batch)] = true;
        if self.chain.is_first(unit) {
            self.input_gradient_ended[(stage.index(), micro_batch)] = true;
        } else {
            self.due = Some(self.backward_of(Unit(unit.0 - 1), micro_batch));
        }
        Ok(())
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
        let stage = self.chain.stage(unit);
        if !self.forward_ended[(stage.index(), micro_batch)] {
            let needed = Instruction::Forward { unit, micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        self.take_turn(Instruction::Recompute { unit, micro_batch }, instruction, self.chain.is_last(unit))?;
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
        let is_last = self.chain.is_last(unit);
        if !is_last && !self.weight_gradient[(Unit(unit.0 + 1).index(), micro_batch)] {
            let needed = Instruction::BackwardWeight { unit: Unit(unit.0 + 1), micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        self.weight_gradient[(unit.index(), micro_batch)] = true;
        Ok(())
    }
}
