//! Instructions of the compute lane that run a unit.

use std::collections::BTreeMap;

use pipezero_models::Buffer;
use pipezero_models::layer::{MaskKey, WriteMode};
use pipezero_models::unit::{UnitBackward, UnitForward, UnitRecompute};
use pipezero_schedule::{CheckedProgram, InstructionId, MicroBatch, Stage, Unit};

use super::activations::Parts;
use super::rank::Rank;
use super::step::StepInputs;
use crate::plan::PlannedUnit;
use crate::run::memory::TrackedBuffer;
use crate::run::shard::{UnitStore, UnreducedGradient, Weights};

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
    pub(super) fn forward(&mut self, compute: Compute<'_>, step: Option<StepInputs>) {
        let Compute { unit, micro_batch, .. } = compute;
        let masks = step.map(|step| self.mask_key(step, micro_batch));
        let input = self.take_input(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, output, stream, recomputed, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        let [read, written] = stream;
        planned.unit.forward(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitForward {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit).view().into(),
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
        );
        // Slices share their input and their output.
        if planned.unit.table_slice().is_last() {
            stream.swap(0, 1);
        }
        if let Some(input) = input {
            self.return_input(compute, input);
        }
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
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit).view().into(),
                saved,
                recomputed,
                workspace,
            },
        );
    }

    pub(super) fn backward(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        if self.plan.unit(unit).is_frozen {
            return self.backward_frozen(compute, step);
        }
        let masks = Some(self.mask_key(step, micro_batch));
        let mut fresh = self.take_gradient_buffer(compute);
        let store = self.store_mut(unit);
        let mut accumulated = store.gradient.lend();
        let padded = 0..store.layout.padded_len();
        let (target, next) = match &mut fresh {
            Some(fresh) => (&mut fresh.buffer, WriteMode::Overwrite),
            None => (&mut accumulated, store.take_next_mode()),
        };
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
                parameters: parameters_of_backward(
                    &self.stores,
                    self.plan.weights_owner(unit),
                    (unit, planned),
                )
                .view()
                .into(),
                gradient,
                saved,
                parameter_gradients: target.view_mut().range(padded).into(),
                mode: next,
                recomputed,
                workspace,
                loss_seed: self.plan.loss_seed(step.loss_scale),
            },
        );
        let store = self.store_mut(unit);
        store.gradient.give_back(accumulated);
        store.unreduced.extend(fresh);
        self.pass_input_gradient(compute);
    }

    /// The buffer that a backward's gradient overwrites, where gradients are reduced every micro-batch.
    pub(super) fn take_gradient_buffer(&mut self, compute: Compute<'_>) -> Option<UnreducedGradient> {
        let index = compute.program.gradient_buffer(compute.at)?;
        Some(UnreducedGradient { buffer: self.gradient_buffers[index].lend(), index })
    }

    /// What decides which elements are dropped: the same sequences have the same masks on every grid.
    pub(super) fn mask_key(&self, step: StepInputs, micro_batch: MicroBatch) -> MaskKey {
        let batch = self.plan.run().batch;
        let before = self.data_rank * batch.num_micro_batches + micro_batch.index();
        let first_sequence = (before * batch.micro_batch_size) as u64;
        MaskKey { seed: self.plan.run().seed, step: step.step, first_sequence }
    }
}

/// The parameters that a use of `unit` reads: the whole ones at rest, or its oldest gathered copy. What is sharded is never read itself,
/// not even on one data rank, whose shard is whole.
pub(super) fn parameters_read(stores: &BTreeMap<Unit, UnitStore>, owner: Unit, unit: Unit) -> &Buffer {
    match &stores[&owner].weights {
        Weights::Replicated(whole) => whole.get(),
        Weights::Sharded(_) | Weights::CastFromMaster => {
            let copy = stores[&unit].gathered.front();
            &copy.expect("a checked program gathers what it reads").buffer
        }
        Weights::Tied => unreachable!("the owner of a tied weight holds it"),
    }
}

/// The parameters that a backward or an input gradient of `unit` is given: those that it reads; where it reads none, what is at rest.
pub(super) fn parameters_of_backward<'a>(
    stores: &'a BTreeMap<Unit, UnitStore>,
    owner: Unit,
    (unit, planned): (Unit, &PlannedUnit),
) -> &'a Buffer {
    if planned.unit.backward_reads_weights() {
        parameters_read(stores, owner, unit)
    } else {
        stores[&owner].parameters()
    }
}
