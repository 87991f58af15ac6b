//! One rank: what it holds, and the loop that runs a program on it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_models::layer::LossSum;
use pipezero_partition::{Purpose, Traffic};
use pipezero_schedule::{CheckedProgram, Instruction, Lane, MicroBatch, PipelineRank, Unit};

use super::activations::Activations;
use super::edges::Edges;
use super::error::Cause;
use super::lanes::InFlight;
use super::position::{Position, Positions};
use super::record::StepRecord;
use super::recorder::{Event, EventKind, Recorder};
use super::step_tokens::StepTokens;
use super::tail::Tail;
use super::waited::Waited;
use crate::plan::Plan;
use crate::run::comm::{Communicator, Counting, Group};
use crate::run::data::{BatchSource, DataError};
use crate::run::memory::{Category, Ledger, Tagged};
use crate::run::shard::{Loan, StoreOptions, StoredUnit, UnitStore};

/// The groups that a rank talks in.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) data: Group,
    pub(crate) world: Group,
    /// The ranks of both uses of a tied weight, at this rank's place along the data axis.
    pub(crate) tied: Option<Group>,
}

/// One rank of the grid with everything it holds.
#[derive(Debug)]
pub(crate) struct Rank<C: Communicator> {
    pub(crate) plan: Arc<Plan>,
    pub(crate) pipeline_rank: PipelineRank,
    pub(crate) data_rank: usize,
    pub(crate) comm: Counting<C>,
    pub(crate) groups: Groups,
    pub(crate) stores: BTreeMap<Unit, UnitStore>,
    /// Where units are gathered into, lent while they hold one.
    pub(crate) gather_buffers: Vec<Loan<Tagged>>,
    pub(crate) gradient_buffers: Vec<Tagged>,
    pub(crate) activations: Activations,
    pub(crate) edges: Edges,
    pub(crate) tokens: StepTokens,
    pub(crate) losses: Vec<LossSum>,
    /// Operations under way, by lane in the order of their issue.
    pub(crate) in_flight: BTreeMap<Lane, VecDeque<InFlight<C::Pending>>>,
    pub(crate) tail: Tail,
    pub(crate) ledger: Arc<Ledger>,
    pub(super) positions: Arc<Positions>,
    pub(super) recorder: Recorder,
    pub(super) waited: Waited,
}

/// What a rank needs to know of the training step that it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepInputs {
    /// The step, from 1: which batch is read and which elements are dropped.
    pub(crate) step: u64,
    /// Updates of the weights with this one, if it is made: those that overflowed do not count.
    pub(crate) update: u64,
    /// The optimizer's rate in this step.
    pub(crate) learning_rate: f64,
    /// What the loss is multiplied by, so that small gradients survive in fp16; 1 elsewhere.
    pub(crate) loss_scale: f64,
    /// The moment from which events are timed, if they are recorded: one for all ranks and steps.
    pub(crate) recorded_since: Option<Instant>,
}

/// What a rank tells of a program that it ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankOutcome {
    /// Losses and targets of the whole grid; in training also the squares of all gradients.
    pub(crate) record: StepRecord,
    /// Norm of all gradients before clipping; 0 in an evaluation.
    pub(crate) gradient_norm: f64,
    /// Whether a gradient was beyond the range of fp16, so that the weights were left as they are.
    pub(crate) overflowed: bool,
    /// Calls and bytes of this rank.
    pub(crate) traffic: Traffic,
    /// How long the rank waited for others.
    pub(crate) waited: Waited,
    /// How long it ran.
    pub(crate) elapsed: Duration,
    /// What happened to its instructions and when, if recorded.
    pub(crate) events: Vec<Event>,
}

impl<C: Communicator> Rank<C> {
    /// Allocates everything that the rank will ever hold.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        purpose: Purpose,
        comm: C,
        ledger: Arc<Ledger>,
        positions: Arc<Positions>,
    ) -> Result<Self, Cause> {
        let grid = plan.grid();
        let rank = comm.rank();
        let pipeline_rank = PipelineRank(grid.pipeline_rank(rank) as u32);
        let data_rank = grid.data_rank(rank);
        let sizes = plan.sizes(pipeline_rank, purpose);
        let element_type = plan.element_type();
        let gather_buffer =
            |&len: &usize| Tagged::zeros_of(len, element_type, Category::Gathered, &ledger).map(Loan::new);
        let gradient_buffer = |_| Tagged::zeros(sizes.gradient_buffer_len, Category::Gradients, &ledger);
        let groups = Groups {
            data: Group::new(grid.data_group(rank)),
            world: Group::new(0..grid.world_size()),
            tied: plan.tied_pipeline_ranks().map(|(lower, upper)| {
                Group::new([grid.rank(lower.index(), data_rank), grid.rank(upper.index(), data_rank)])
            }),
        };
        let num_micro_batches = plan.run().batch.num_micro_batches;
        let mut built = Self {
            plan: Arc::clone(plan),
            pipeline_rank,
            data_rank,
            comm: Counting::new(comm),
            groups,
            stores: BTreeMap::new(),
            gather_buffers: sizes.gather_buffers.iter().map(gather_buffer).collect::<Result<_, _>>()?,
            gradient_buffers: (0..sizes.num_gradient_buffers)
                .map(gradient_buffer)
                .collect::<Result<_, _>>()?,
            activations: Activations::new(&sizes, element_type, &ledger)?,
            edges: Edges::new(&sizes, element_type, &ledger)?,
            tokens: StepTokens::zeros(num_micro_batches, sizes.tokens, &ledger),
            losses: vec![LossSum::default(); num_micro_batches],
            in_flight: BTreeMap::new(),
            tail: Tail::default(),
            ledger,
            positions,
            recorder: Recorder::Off,
            waited: Waited::default(),
        };
        built.allocate_stores(purpose)?;
        Ok(built)
    }

    fn allocate_stores(&mut self, purpose: Purpose) -> Result<(), Cause> {
        let options = StoreOptions {
            zero: &self.plan.run().zero,
            element_type: self.plan.element_type(),
            optimizer: &self.plan.run().optimizer,
            no_decay: self.plan.run().optimizer.no_decay(),
            purpose,
            data_rank: self.data_rank,
            ledger: &self.ledger,
        };
        for (id, planned) in self.plan.units_of(self.pipeline_rank) {
            let unit = StoredUnit {
                unit: &planned.unit,
                layout: planned.layout,
                is_persistent: planned.is_persistent,
            };
            let store = if self.plan.weights_owner(id) == id {
                UnitStore::new(unit, options)?
            } else {
                UnitStore::tied(unit, options)?
            };
            self.stores.insert(id, store);
        }
        Ok(())
    }

    /// One training step.
    pub(crate) fn train(
        &mut self,
        inputs: StepInputs,
        source: &dyn BatchSource,
    ) -> Result<RankOutcome, Cause> {
        let plan = Arc::clone(&self.plan);
        let program = plan.training();
        let start = Instant::now();
        self.recorder = Recorder::new(inputs.recorded_since);
        self.begin(program, inputs.step, inputs.step, source)?;
        self.run_row(program, Some(inputs))?;
        let Tail { record, gradient_norm, overflowed, .. } = self.tail.clone();
        Ok(RankOutcome { record, gradient_norm, overflowed, ..self.outcome(start) })
    }

    /// Losses of one batch, without gradients.
    pub(crate) fn evaluate(&mut self, source: &dyn BatchSource, batch: u64) -> Result<RankOutcome, Cause> {
        let plan = Arc::clone(&self.plan);
        let program = plan.evaluation();
        let start = Instant::now();
        self.recorder = Recorder::Off;
        self.begin(program, 0, batch, source)?;
        self.run_row(program, None)?;
        let record = self.share_losses()?;
        self.positions.set(self.comm.rank(), Position::Idle);
        Ok(RankOutcome { record, ..self.outcome(start) })
    }

    /// Fetches the tokens that this rank reads: the first stage its inputs, the last its targets. What logits and
    /// saved weights have cost since the last program is forgotten: a report is of its own program alone.
    fn begin(
        &mut self,
        program: &CheckedProgram,
        step: u64,
        batch: u64,
        source: &dyn BatchSource,
    ) -> Result<(), Cause> {
        self.waited = Waited::default();
        self.comm.take_traffic();
        self.losses.fill(LossSum::default());
        if !self.plan.reads_tokens(self.pipeline_rank) {
            return Ok(());
        }
        let num_tokens = self.plan.micro_batch_shape().num_tokens();
        for micro_batch in 0..program.num_micro_batches() as usize {
            self.positions.set(self.comm.rank(), Position::Reading { step, micro_batch });
            let tokens = &mut self.tokens[MicroBatch(micro_batch as u32)];
            source.micro_batch(batch, self.data_rank, micro_batch, tokens).map_err(DataError::Source)?;
            tokens.check(num_tokens, self.plan.vocab_size()).map_err(DataError::Batch)?;
        }
        Ok(())
    }

    /// Runs this rank's row of a program; an evaluation has no step.
    pub(super) fn run_row(
        &mut self,
        program: &CheckedProgram,
        inputs: Option<StepInputs>,
    ) -> Result<(), Cause> {
        let rank = self.comm.rank();
        let row = program.row(self.pipeline_rank);
        let step = inputs.map_or(0, |inputs| inputs.step);
        for (index, &instruction) in row.iter().enumerate() {
            let here = |waits_for| Position::Waiting { step, index, instruction, waits_for };
            for &earlier in program.waits(self.pipeline_rank.at(index)) {
                self.complete(row, row[earlier].lane(), earlier, here)?;
            }
            self.positions.set(rank, Position::At { step, index, instruction });
            self.recorder.record(index, EventKind::Started);
            match inputs {
                Some(inputs) => self.train_at(program, index, instruction, inputs)?,
                None => self.evaluate_at(program, index, instruction)?,
            }
            let is_done = instruction.lane() == Lane::Compute;
            self.recorder.record(index, if is_done { EventKind::Ended } else { EventKind::Issued });
        }
        self.complete_all(row, step)?;
        self.positions.set(rank, Position::Idle);
        Ok(())
    }

    fn train_at(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        instruction: Instruction,
        inputs: StepInputs,
    ) -> Result<(), Cause> {
        match instruction {
            Instruction::Forward { unit, micro_batch } => {
                self.forward(program, unit, micro_batch, Some(inputs));
            }
            Instruction::Recompute { unit, micro_batch } => {
                self.recompute(program, unit, micro_batch, inputs);
            }
            Instruction::Backward { unit, micro_batch } => {
                self.backward(program, unit, micro_batch, inputs);
            }
            Instruction::BackwardInput { unit, micro_batch } => {
                self.backward_input(program, unit, micro_batch, inputs);
            }
            Instruction::BackwardWeight { unit, micro_batch } => {
                self.backward_weight(program, unit, micro_batch, inputs);
            }
            Instruction::Reduce { unit, .. } => self.reduce(index, unit)?,
            Instruction::ReduceLast { unit } => self.reduce_last(index, unit)?,
            Instruction::AllReduce { unit } => self.all_reduce(index, unit)?,
            Instruction::AddTied { embedding, head } => self.add_tied(embedding, head)?,
            Instruction::GradientNorm => self.gradient_norm(inputs)?,
            Instruction::OptimizerStep { unit } => self.optimizer_step(unit, inputs),
            Instruction::GatherAfterStep { unit } => self.gather_after_step(index, unit)?,
            Instruction::Unshard { .. }
            | Instruction::Reshard { .. }
            | Instruction::Send { .. }
            | Instruction::Receive { .. } => self.evaluate_at(program, index, instruction)?,
        }
        Ok(())
    }

    /// What an evaluation does, and training too: move weights and activations, and run units forward.
    fn evaluate_at(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        instruction: Instruction,
    ) -> Result<(), Cause> {
        match instruction {
            Instruction::Forward { unit, micro_batch } => self.forward(program, unit, micro_batch, None),
            Instruction::Unshard { unit } => self.unshard(program, index, unit)?,
            Instruction::Reshard { unit } => self.reshard(unit),
            Instruction::Send { edge, micro_batch } => self.send(program, index, edge, micro_batch)?,
            Instruction::Receive { edge, micro_batch } => self.receive(index, edge, micro_batch)?,
            _ => unreachable!("a checked program without a backward has no gradients"),
        }
        Ok(())
    }

    pub(super) fn outcome(&mut self, start: Instant) -> RankOutcome {
        RankOutcome {
            traffic: self.comm.take_traffic(),
            waited: self.waited,
            elapsed: start.elapsed(),
            events: self.recorder.take(),
            ..RankOutcome::default()
        }
    }
}
