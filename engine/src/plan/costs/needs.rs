//! What of each unit a program asks for: costs of what does not occur need not be known.

use pipezero_schedule::{CheckedProgram, Instruction};

/// The instructions of a unit that occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnitNeeds {
    pub(super) halves: bool,
    pub(super) recompute: bool,
    pub(super) unshard: Option<Instruction>,
    pub(super) reduction: Option<Instruction>,
    pub(super) gather_after_step: Option<Instruction>,
}

/// The instructions that occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// `[unit]`
    pub(super) units: Vec<UnitNeeds>,
    /// `[edge]`, by [`pipezero_schedule::Edge::index`]: a send over it.
    pub(super) edges: Vec<Option<Instruction>>,
    pub(super) add_tied: Option<Instruction>,
    pub(super) gradient_norm: Option<Instruction>,
}

impl Needs {
    /// Reads them off a program.
    pub(super) fn of(program: &CheckedProgram) -> Self {
        let num_edges = program.chain().num_edges();
        let mut needs = Self {
            units: vec![UnitNeeds::default(); program.units().len()],
            edges: vec![None; num_edges],
            add_tied: None,
            gradient_norm: None,
        };
        for &instruction in program.program().rows.iter().flatten() {
            needs.add(instruction);
        }
        needs
    }

    fn add(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::BackwardInput { unit, .. } | Instruction::BackwardWeight { unit, .. } => {
                self.units[unit.index()].halves = true;
            }
            Instruction::Recompute { unit, .. } => self.units[unit.index()].recompute = true,
            Instruction::Unshard { unit } => self.units[unit.index()].unshard = Some(instruction),
            Instruction::Reduce { unit, .. }
            | Instruction::ReduceLast { unit }
            | Instruction::AllReduce { unit } => self.units[unit.index()].reduction = Some(instruction),
            Instruction::GatherAfterStep { unit } => {
                self.units[unit.index()].gather_after_step = Some(instruction);
            }
            Instruction::Send { edge, .. } => self.edges[edge.index()] = Some(instruction),
            Instruction::AddTied { .. } => self.add_tied = Some(instruction),
            Instruction::GradientNorm => self.gradient_norm = Some(instruction),
            Instruction::Forward { .. }
            | Instruction::Backward { .. }
            | Instruction::Reshard { .. }
            | Instruction::OptimizerStep { .. }
            | Instruction::Receive { .. } => {}
        }
    }
}
