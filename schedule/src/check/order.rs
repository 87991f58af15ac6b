//! Forward before backward, and the units of a stage together and in order.
//!
//! A rank has one running activation, one running gradient and one room for what is recomputed, so between two units
//! of a stage, and between a recompute and its backward, no other forward, recompute or input gradient may come.
//! Weight gradients have operands of their own and may.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::{Rule, Violation};
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
    num_micro_batches: usize,
    /// `[stage, micro-batch]`
    forward_ended: Vec<bool>,
    /// `[stage, micro-batch]`
    input_gradient_ended: Vec<bool>,
    /// `[unit, micro-batch]`
    input_gradient: Vec<bool>,
    /// `[unit, micro-batch]`
    weight_gradient: Vec<bool>,
    /// The forward, recompute or input gradient that must be the next; by unit and micro-batch.
    due: Option<Due>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Forward(Unit, MicroBatch),
    Recompute(Unit, MicroBatch),
    InputGradient(Unit, MicroBatch),
}

impl Due {
    fn instruction(self) -> Instruction {
        match self {
            Self::Forward(unit, micro_batch) => Instruction::Forward { unit, micro_batch },
            Self::Recompute(unit, micro_batch) => Instruction::Recompute { unit, micro_batch },
            Self::InputGradient(unit, micro_batch) => Instruction::Backward { unit, micro_batch },
        }
    }
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program) -> Self {
        let num_micro_batches = program.num_micro_batches as usize;
        let by_stage = vec![false; program.chain.num_stages() * num_micro_batches];
        let by_unit = vec![false; program.chain.num_units() * num_micro_batches];
        Self {
            chain: &program.chain,
            num_micro_batches,
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
                if !self.input_gradient[self.of_unit(unit, micro_batch)] {
                    let needed = Instruction::BackwardInput { unit, micro_batch };
                    return Err(Rule::RunsBefore { instruction, needed });
                }
                self.weight_gradient(instruction, unit, micro_batch)
            }
            _ => Ok(()),
        }
    }

    fn of_stage(&self, stage: Stage, micro_batch: MicroBatch) -> usize {
        stage.index() * self.num_micro_batches + micro_batch.index()
    }

    fn of_unit(&self, unit: Unit, micro_batch: MicroBatch) -> usize {
        unit.index() * self.num_micro_batches + micro_batch.index()
    }

    fn forward(&mut self, unit: Unit, micro_batch: MicroBatch) -> Result<(), Rule> {
        let instruction = Instruction::Forward { unit, micro_batch };
        let stage = self.chain.stage(unit);
        self.take_turn(Due::Forward(unit, micro_batch), instruction, unit == self.chain.first_unit(stage))?;
        if unit == self.chain.first_unit(stage)
            && let Some(before) = stage.0.checked_sub(1).map(Stage)
            && !self.chain.crosses_ranks(Edge::Up(before))
            && !self.forward_ended[self.of_stage(before, micro_batch)]
        {
            let needed = Instruction::Forward { unit: Unit(unit.0 - 1), micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        if unit == self.chain.last_unit(stage) {
            let at = self.of_stage(stage, micro_batch);
            self.forward_ended[at] = true;
        } else {
            self.due = Some(Due::Forward(Unit(unit.0 + 1), micro_batch));
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
        if !self.forward_ended[self.of_stage(stage, micro_batch)] {
            let needed = Instruction::Forward { unit, micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        let is_last = unit == self.chain.last_unit(stage);
        let begins = is_last && !self.chain.facts(unit).recomputes;
        self.take_turn(Due::InputGradient(unit, micro_batch), instruction, begins)?;
        if is_last
            && stage.index() + 1 < self.chain.num_stages()
            && !self.chain.crosses_ranks(Edge::Down(stage))
            && !self.input_gradient_ended[self.of_stage(Stage(stage.0 + 1), micro_batch)]
        {
            let needed = Instruction::Backward { unit: Unit(unit.0 + 1), micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        let at = self.of_unit(unit, micro_batch);
        self.input_gradient[at] = true;
        if unit == self.chain.first_unit(stage) {
            let at = self.of_stage(stage, micro_batch);
            self.input_gradient_ended[at] = true;
        } else {
            self.due = Some(self.backward_of(Unit(unit.0 - 1), micro_batch));
        }
        Ok(())
    }

    /// What the backward of a unit begins with.
    fn backward_of(&self, unit: Unit, micro_batch: MicroBatch) -> Due {
        if self.chain.facts(unit).recomputes {
            Due::Recompute(unit, micro_batch)
        } else {
            Due::InputGradient(unit, micro_batch)
        }
    }

    /// Fills the room from which the unit's backward, which is due then, reads.
    fn recompute(&mut self, unit: Unit, micro_batch: MicroBatch) -> Result<(), Rule> {
        let instruction = Instruction::Recompute { unit, micro_batch };
        let stage = self.chain.stage(unit);
        if !self.forward_ended[self.of_stage(stage, micro_batch)] {
            let needed = Instruction::Forward { unit, micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        self.take_turn(Due::Recompute(unit, micro_batch), instruction, unit == self.chain.last_unit(stage))?;
        self.due = Some(Due::InputGradient(unit, micro_batch));
        Ok(())
    }

    /// A forward or input gradient is the one that is due; if none is, it begins a stage's.
    fn take_turn(&mut self, turn: Due, instruction: Instruction, begins: bool) -> Result<(), Rule> {
        match self.due.take() {
            Some(due) if due == turn => Ok(()),
            Some(due) => Err(Rule::Interrupted { instruction, expected: due.instruction() }),
            None if begins => Ok(()),
            None => {
                let needed = match turn {
                    Due::Forward(unit, micro_batch) => Due::Forward(Unit(unit.0 - 1), micro_batch),
                    Due::InputGradient(unit, micro_batch) if self.chain.facts(unit).recomputes => {
                        Due::Recompute(unit, micro_batch)
                    }
                    Due::Recompute(unit, micro_batch) | Due::InputGradient(unit, micro_batch) => {
                        Due::InputGradient(Unit(unit.0 + 1), micro_batch)
                    }
                };
                Err(Rule::RunsBefore { instruction, needed: needed.instruction() })
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
        let is_last = unit == self.chain.last_unit(self.chain.stage(unit));
        if !is_last && !self.weight_gradient[self.of_unit(Unit(unit.0 + 1), micro_batch)] {
            let needed = Instruction::BackwardWeight { unit: Unit(unit.0 + 1), micro_batch };
            return Err(Rule::RunsBefore { instruction, needed });
        }
        let at = self.of_unit(unit, micro_batch);
        self.weight_gradient[at] = true;
        Ok(())
    }
}
