//! The loop that runs a rank's row of a program: one training step, or one evaluation.

use std::sync::Arc;

use pipezero_comm::Communicator;
use pipezero_comm::world::Position;
use pipezero_schedule::{CheckedProgram, Instruction, Lane, MicroBatch};

use super::compute::Compute;
use super::error::Cause;
use super::rank::Rank;
use super::read_fault::ReadFault;
use super::recorder::{EventKind, Recorded};
use super::step::{RankOutcome, RankReport, StepInputs, Tail};
use super::tokens_digest::TokensDigest;
use crate::data::{BatchSource, DataError};

impl Rank {
    /// One training step.
    pub(crate) fn train(
        &mut self,
        inputs: StepInputs,
        source: &dyn BatchSource,
    ) -> Result<RankOutcome, Cause> {
        let plan = Arc::clone(&self.plan);
        let program = plan.training();
        self.recorder.begin(inputs.records);
        self.stores.values_mut().for_each(|store| store.begin_step(&*self.queue));
        self.unread = self.begin(program, inputs.step, inputs.step, source)?;
        self.run_row(program, Some(inputs))?;
        let Tail { record, gradient_norm, overflowed, .. } = self.tail.clone();
        let tokens_digest = self.tokens_digest.sum();
        let unread = self.unread.take().map(|fault| self.named(&fault));
        Ok(RankOutcome { record, gradient_norm, overflowed, unread, tokens_digest, ..self.outcome()? })
    }

    /// Losses of one batch, without gradients.
    pub(crate) fn evaluate(&mut self, source: &dyn BatchSource, batch: u64) -> Result<RankOutcome, Cause> {
        let plan = Arc::clone(&self.plan);
        let program = plan.evaluation();
        self.recorder.begin(false);
        let unread = self.begin(program, 0, batch, source)?;
        self.run_row(program, None)?;
        let record = self.share_losses(unread.is_some())?;
        self.set_position(Position::Idle);
        let (overflowed, unread) = (!record.is_finite(), unread.map(|fault| self.named(&fault)));
        Ok(RankOutcome { record, overflowed, unread, ..self.outcome()? })
    }

    fn named(&self, fault: &ReadFault) -> String {
        format!("rank {}, {fault}", self.comm.rank())
    }

    /// Fetches the tokens that this rank reads: the first stage its inputs, the last its targets, and every stage where documents begin, if
    /// the run attends within these. A micro-batch that cannot be read has no
    /// targets; the first is returned. Traffic of other work since the last program, such as saving weights, is dropped: a report is about
    /// its own program only.
    pub(super) fn begin(
        &mut self,
        program: &CheckedProgram,
        step: u64,
        batch: u64,
        source: &dyn BatchSource,
    ) -> Result<Option<ReadFault>, Cause> {
        self.comm.take_traffic();
        self.results.clear(&*self.queue);
        let lengths = self.shapes.set(source, batch, self.data_rank);
        let mut fault = lengths
            .err()
            .map(|(micro_batch, fault)| ReadFault { micro_batch, error: DataError::Batch(fault) });
        let reads = self.plan.tokens_read(self.pipeline_rank);
        if !reads.is_any() {
            return Ok(fault);
        }
        let mut digest = TokensDigest::new(&self.plan, self.pipeline_rank);
        for micro_batch in 0..program.num_micro_batches() as usize {
            self.set_position(Position::Reading { step, micro_batch });
            let id = MicroBatch(micro_batch as u32);
            let shape = self.shapes.of(id);
            let read = self.tokens.set(id, shape, &*self.queue, |tokens| {
                source
                    .micro_batch(batch, self.data_rank, micro_batch, tokens)
                    .map_err(DataError::of_source)?;
                let (vocab_size, encoder) = (self.plan.vocab_size(), self.plan.input_encoder());
                digest.add(self.data_rank, micro_batch, tokens);
                tokens.check(shape, vocab_size, encoder, reads.loss).map_err(DataError::Batch)
            });
            if let Err(error) = read {
                self.tokens.ignore(id, shape, &*self.queue);
                fault = fault.or(Some(ReadFault { micro_batch, error }));
            }
        }
        self.tokens_digest = digest;
        Ok(fault)
    }

    /// Runs this rank's row of a program; an evaluation has no step.
    pub(super) fn run_row(
        &mut self,
        program: &CheckedProgram,
        inputs: Option<StepInputs>,
    ) -> Result<(), Cause> {
        let row = program.row(self.pipeline_rank);
        let step = inputs.map_or(0, |inputs| inputs.step);
        for (index, &instruction) in row.iter().enumerate() {
            let here = |waits_for| Position::Waiting { step, index, instruction, waits_for };
            for &earlier in program.waits(self.pipeline_rank.at(index)) {
                self.complete_up_to(row, row[earlier].lane(), earlier, here)?;
            }
            self.set_position(Position::At { step, index, instruction });
            self.recorder.record(index, EventKind::Started);
            self.run(program, index, instruction, inputs)?;
            let is_done = instruction.lane() == Lane::Compute;
            self.recorder.record(index, if is_done { EventKind::Ended } else { EventKind::Issued });
        }
        self.complete_all(row, step)?;
        self.set_position(Position::Idle);
        Ok(())
    }

    /// Carries out one instruction; only those of a training step have `inputs`.
    fn run(
        &mut self,
        program: &CheckedProgram,
        index: usize,
        instruction: Instruction,
        inputs: Option<StepInputs>,
    ) -> Result<(), Cause> {
        let at = self.pipeline_rank.at(index);
        let compute = |unit, micro_batch| Compute { program, at, unit, micro_batch };
        let training = || inputs.expect("a program without a backward has no gradients");
        match instruction {
            Instruction::Forward { unit, micro_batch } => {
                self.forward(compute(unit, micro_batch), inputs)?;
                self.hand_out_logits(unit, micro_batch)?;
            }
            Instruction::Recompute { unit, micro_batch } => {
                self.recompute(compute(unit, micro_batch), training());
            }
            Instruction::Backward { unit, micro_batch } => {
                self.backward(compute(unit, micro_batch), training());
            }
            Instruction::BackwardInput { unit, micro_batch } => {
                self.backward_input(compute(unit, micro_batch), training());
            }
            Instruction::BackwardWeight { unit, micro_batch } => {
                self.backward_weight(compute(unit, micro_batch), training());
            }
            Instruction::Unshard { unit } => self.unshard(program, index, unit)?,
            Instruction::Reshard { unit } => self.reshard(unit),
            Instruction::Reduce { unit, .. } => self.reduce(index, unit)?,
            Instruction::ReduceLast { unit } => self.reduce_last(index, unit)?,
            Instruction::AllReduce { unit } => self.all_reduce(index, unit)?,
            Instruction::Send { edge, micro_batch } => self.send(program, index, edge, micro_batch)?,
            Instruction::Receive { edge, micro_batch } => self.receive(index, edge, micro_batch)?,
            Instruction::AddTied { embedding, head } => self.add_tied(embedding, head)?,
            Instruction::GradientNorm => self.gradient_norm(training())?,
            Instruction::OptimizerStep { unit } => self.optimizer_step(unit, training()),
            Instruction::GatherAfterStep { unit } => self.gather_after_step(index, unit)?,
        }
        Ok(())
    }

    /// What the program came to. Waits until the queue has carried it out.
    pub(super) fn outcome(&mut self) -> Result<RankOutcome, Cause> {
        self.comm.finish()?;
        let Recorded { elapsed, waited, events } = self.recorder.end();
        let (traffic, memory) = (self.comm.take_traffic(), self.memory.ledger().peaks());
        let report = RankReport { traffic, memory, waited, elapsed, events };
        Ok(RankOutcome { report, ..RankOutcome::default() })
    }
}
