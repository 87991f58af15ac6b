//! The program that may run.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{HighWater, Violation};
use super::{complete, high_water, liveness, names, order, reduction, residency, tail, transfers};
use crate::chain::Chain;
use crate::dependencies::Dependencies;
use crate::gather_buffers::GatherBuffers;
use crate::gradient_buffers::GradientBuffers;
use crate::id::{InstructionId, MicroBatch, PipelineRank, Stage};
use crate::instruction::{Edge, Instruction, InstructionKind};
use crate::options::LowerOptions;
use crate::placement::Placement;
use crate::program::{Program, Purpose};
use crate::send_buffers::SendBuffers;
use crate::slots::Slots;
use crate::unit_facts::UnitFacts;
use crate::weight_inputs::WeightInputBuffers;

/// A program that follows every rule, with its dependency graph.
///
/// Only [`CheckedProgram::new`] makes one, so nothing that takes it has to check again for deadlocks or missing
/// operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedProgram {
    program: Program,
    dependencies: Dependencies,
    /// `[rank]`
    gather_buffers: Vec<GatherBuffers>,
    weight_input_buffers: WeightInputBuffers,
}

impl CheckedProgram {
    /// Proves a program. Time and space grow with the number of instructions (times its logarithm).
    ///
    /// # Errors
    /// The first [`Violation`], with rank, step, rule and the surroundings.
    pub fn new(program: Program) -> Result<Self, Box<Violation>> {
        names::check(&program)?;
        complete::check(&program)?;
        order::check(&program)?;
        let gather_buffers = residency::check(&program)?;
        reduction::check(&program)?;
        let send_buffers = SendBuffers::assign(&program);
        let slots = Slots::assign(&program, &send_buffers);
        transfers::check(&program, &slots, &send_buffers)?;
        tail::check(&program)?;
        let gradient_buffers = GradientBuffers::assign(&program);
        let dependencies = Dependencies::derive(&program, slots, send_buffers, gradient_buffers);
        liveness::check(&program, &dependencies)?;
        let weight_input_buffers = WeightInputBuffers::assign(&program);
        Ok(Self { program, dependencies, gather_buffers, weight_input_buffers })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The units, stages and ranks.
    pub fn chain(&self) -> &Chain {
        &self.program.chain
    }

    /// What is known of each unit, in chain order.
    pub fn units(&self) -> &[UnitFacts] {
        self.program.chain.units()
    }

    /// Where the stages lie.
    pub fn placement(&self) -> &Placement {
        self.program.chain.placement()
    }

    /// Number of pipeline ranks.
    pub fn num_ranks(&self) -> usize {
        self.program.chain.num_ranks()
    }

    /// Every pipeline rank, ascending.
    pub fn ranks(&self) -> impl DoubleEndedIterator<Item = PipelineRank> + use<> {
        self.program.ranks()
    }

    /// Micro-batches of a step.
    pub fn num_micro_batches(&self) -> u32 {
        self.program.num_micro_batches
    }

    /// What the program computes.
    pub fn purpose(&self) -> Purpose {
        self.program.purpose
    }

    /// The policies that the program follows.
    pub fn options(&self) -> &LowerOptions {
        &self.program.options
    }

    /// The instructions of a rank in issue order.
    ///
    /// # Panics
    /// If there is no such rank; so do the other methods that take a rank, instruction, stage or micro-batch.
    pub fn row(&self, rank: PipelineRank) -> &[Instruction] {
        self.program.row(rank)
    }

    /// One instruction.
    pub fn instruction(&self, id: InstructionId) -> Instruction {
        self.program.instruction(id)
    }

    /// What an instruction waits for beside its lane: see [`Dependencies`].
    pub fn waits(&self, of: InstructionId) -> &[usize] {
        self.dependencies.waits(of)
    }

    /// The other end of a transfer: a receive's send, a send's receive.
    pub fn peer(&self, of: InstructionId) -> Option<InstructionId> {
        self.dependencies.peer(&self.program, of)
    }

    /// Activation slots of a stage.
    pub fn num_slots(&self, stage: Stage) -> usize {
        self.dependencies.slots().num_slots(stage)
    }

    /// The activation slot of a stage that a micro-batch uses.
    pub fn slot(&self, stage: Stage, micro_batch: MicroBatch) -> usize {
        self.dependencies.slots().slot(stage, micro_batch)
    }

    /// Buffers of a stage for weight-gradient inputs: the most micro-batches between their `I` and their `W` at once.
    pub fn num_weight_input_buffers(&self, stage: Stage) -> usize {
        self.weight_input_buffers.num_weight_input_buffers(stage)
    }

    /// The weight-gradient input buffer of a stage that a micro-batch uses from its `I` to its `W`.
    pub fn weight_input_buffer(&self, stage: Stage, micro_batch: MicroBatch) -> usize {
        self.weight_input_buffers.weight_input_buffer(stage, micro_batch)
    }

    /// Bytes of each gather buffer of a rank, descending: what the program uses of what its residency allows.
    ///
    /// If c copies may be held, there are c buffers at most, for the rank's c largest gathered units; of these, one
    /// that is more than half as large as the next larger may grow to its size, so that each of the two units fits
    /// either buffer.
    pub fn gather_buffers(&self, rank: PipelineRank) -> &[u64] {
        self.gather_buffers[rank.index()].bytes()
    }

    /// The gather buffer of its rank that an `UNSHARD` fills, until its `RESHARD`.
    ///
    /// # Panics
    /// If it is another instruction.
    pub fn gather_buffer(&self, unshard: InstructionId) -> usize {
        self.gather_buffers[unshard.rank.index()].buffer(unshard.index)
    }

    /// Bytes of each buffer of a rank for unsharded gradients that are reduced after every micro-batch, descending: one, or the fewest
    /// with which none waits for any but the reduction before last ([`LowerOptions::unreduced`]). None where gradients accumulate unsharded.
    ///
    /// They are counted as a gathered unit is; gradients are f32.
    pub fn gradient_buffers(&self, rank: PipelineRank) -> &[u64] {
        self.gradients_of(rank).bytes()
    }

    /// The gradient buffer of its rank that a `B` or `W` overwrites, until its `REDUCE`; `None` for other instructions, and where gradients
    /// accumulate unsharded.
    pub fn gradient_buffer(&self, compute: InstructionId) -> Option<usize> {
        self.gradients_of(compute.rank).buffer(compute.index)
    }

    /// The `UNSHARD`s of a rank's row in its order: where each stands, and the gather buffer that it fills.
    pub fn filled_gather_buffers(&self, rank: PipelineRank) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.gather_buffers[rank.index()].gathers()
    }

    /// What overwrites a gradient buffer in a rank's row, in its order: where each stands, and the buffer.
    pub fn filled_gradient_buffers(&self, rank: PipelineRank) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.gradients_of(rank).gradients()
    }

    fn gradients_of(&self, rank: PipelineRank) -> &GradientBuffers {
        self.dependencies.gradient_buffers(rank)
    }

    /// Buffers out of which gradients are sent over an edge, down the chain: [`protocol::GRADIENT_SEND_BUFFERS`], or
    /// more where gradients wait while the receiving rank works on another of its stages.
    ///
    /// [`protocol::GRADIENT_SEND_BUFFERS`]: crate::protocol::GRADIENT_SEND_BUFFERS
    pub fn num_gradient_send_buffers(&self, edge: Edge) -> usize {
        self.dependencies.send_buffers().num_buffers(edge)
    }

    /// The most that a rank ever holds.
    pub fn high_water(&self, rank: PipelineRank) -> HighWater {
        high_water::of_rank(&self.program, self.dependencies.slots(), self.gradients_of(rank), rank)
    }

    /// How many instructions of a kind a rank runs.
    pub fn count(&self, rank: PipelineRank, kind: InstructionKind) -> usize {
        self.row(rank).iter().filter(|instruction| instruction.kind() == kind).count()
    }
}
