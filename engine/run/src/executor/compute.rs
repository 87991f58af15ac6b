//! Instructions of the compute lane that run a unit.

use std::collections::BTreeMap;

use pipezero_comm::Communicator;
use pipezero_comm::memory::TrackedBuffer;
use pipezero_models::View;
use pipezero_models::layer::MaskKey;
use pipezero_models::unit::{UnitBackward, UnitForward, UnitRecompute};
use pipezero_models::views::PartViews;
use pipezero_schedule::{CheckedProgram, InstructionId, MicroBatch, Stage, Unit};

use super::activations::Parts;
use super::error::Cause;
use super::not_finite::LayerOnRank;
use super::rank::Rank;
use super::step::StepInputs;
use super::watch::Output;
use crate::shard::{UnitStore, Weights};

/// An instruction that runs a unit on a micro-batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compute<'a> {
    pub(super) program: &'a CheckedProgram,
    pub(super) at: InstructionId,
    pub(super) unit: Unit,
    pub(super) micro_batch: MicroBatch,
}

impl Compute<'_> {
    /// The slot that holds the micro-batch in a stage.
    pub(super) fn slot(self, stage: Stage) -> usize {
        self.program.slot(stage, self.micro_batch)
    }

    /// What holds the micro-batch in a stage between the two halves of its backward, given the unit in whose buffers it lies.
    pub(super) fn weight_inputs(
        self,
        stage: Stage,
        owner: Unit,
        buffers: &mut [BTreeMap<Unit, TrackedBuffer>],
    ) -> &mut TrackedBuffer {
        let buffers = &mut buffers[self.program.weight_input_buffer(stage, self.micro_batch)];
        buffers.get_mut(&owner).expect("there is a buffer for every unit of the stage")
    }
}

impl Rank {
    /// A forward; `step` is absent in an evaluation, where nothing is dropped.
    pub(super) fn forward(&mut self, compute: Compute<'_>, step: Option<StepInputs>) -> Result<(), Cause> {
        let Compute { unit, micro_batch, .. } = compute;
        if self.watch.is_some() {
            // Looking at an output would wait for ever for what a peer that has failed does not send.
            self.comm.finish()?;
        }
        let masks = step.map(|step| self.mask_key(step, micro_batch));
        let input = self.take_input(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, output, stream, recomputed, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        let [read, written] = stream;
        let (plan, rank, data_rank) = (&self.plan, self.comm.rank(), self.data_rank);
        let shape = self.shapes.of(micro_batch);
        let (queue, scratch, watch) = (&*self.queue, &self.scratch, &mut self.watch);
        let look = |number: usize, elements: View<'_>| {
            let Some(watch) = watch else { return };
            let output = Output { micro_batch: micro_batch.index(), data_rank, shape, elements };
            watch.look(queue, scratch, &output, || LayerOnRank::new(plan, unit, number, rank));
        };
        planned.unit.forward_watched(
            queue,
            shape,
            UnitForward {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit),
                input: input.as_ref().map_or(&**read, |input| input),
                output: if self.plan.sends_output(unit) { output.get_mut() } else { written },
                saved,
                recomputed,
                workspace,
                loss: self.results.loss(micro_batch),
                row_logits: self
                    .asked_logits
                    .as_mut()
                    .and_then(|asked| asked.of(micro_batch, self.shapes.of(micro_batch))),
            },
            look,
        );
        // Slices share their input and their output.
        if planned.unit.table_slice().is_last() {
            stream.swap(0, 1);
        }
        if let Some(input) = input {
            self.return_input(compute, input);
        }
        Ok(())
    }

    pub(super) fn recompute(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        let masks = Some(self.mask_key(step, micro_batch));
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, recomputed, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        planned.unit.recompute(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitRecompute {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit),
                saved,
                recomputed,
                workspace,
            },
        );
    }

    pub(super) fn backward(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        if !self.plan.unit(unit).has_backward {
            return;
        }
        let masks = Some(self.mask_key(step, micro_batch));
        let mut target = self.take_gradient_target(compute);
        self.take_output_gradient(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, gradient, recomputed, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        planned.unit.backward(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitBackward {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit),
                gradient,
                saved,
                parameter_gradients: target.views(planned),
                recomputed,
                workspace,
                loss_seed: self.plan.loss_seed(step.loss_scale),
            },
        );
        self.keep_gradients(unit, target);
        self.pass_input_gradient(compute);
    }

    /// What decides which elements are dropped: the same sequences have the same masks on every grid.
    pub(super) fn mask_key(&self, step: StepInputs, micro_batch: MicroBatch) -> MaskKey {
        let batch = self.plan.run().batch;
        let before = self.data_rank * batch.num_micro_batches + micro_batch.index();
        let first_sequence = (before * batch.micro_batch_size) as u64;
        MaskKey { seed: self.plan.run().seed, step: step.step, first_sequence }
    }
}

/// The parameters that a use of `unit` reads: what is whole at rest, and of what is sharded the oldest gathered copy, if there is one. What is
/// sharded is never read itself, not even on one data rank, whose shard is whole.
pub(super) fn parameters_read(stores: &BTreeMap<Unit, UnitStore>, owner: Unit, unit: Unit) -> PartViews<'_> {
    let mut views = PartViews::default();
    for (index, (view, part)) in views.0.iter_mut().zip(&stores[&owner].parts).enumerate() {
        *view = match &part.weights {
            Weights::Replicated(whole) => Some(whole.get().view()),
            Weights::Sharded(_) | Weights::CastFromMaster => {
                stores[&unit].gathered.front().and_then(|copy| Some(copy.buffers[index].as_ref()?.view()))
            }
            Weights::Tied => unreachable!("the owner of a tied weight holds it"),
        };
    }
    views
}
