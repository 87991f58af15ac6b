//! Instructions of the compute lane that run a unit.

use std::collections::BTreeMap;

use pipezero_models::Buffer;
use pipezero_models::layer::{MaskKey, Tokens};
use pipezero_models::unit::{UnitBackward, UnitForward, UnitRecompute};
use pipezero_schedule::{CheckedProgram, Edge, MicroBatch, Stage, Unit};

use super::activations::Parts;
use super::rank::{Rank, StepInputs};
use crate::run::comm::Communicator;
use crate::run::data::TokenBatch;
use crate::run::memory::Tagged;
use crate::run::shard::{UnitStore, Weights};

impl<C: Communicator> Rank<C> {
    /// A forward; `step` is absent in an evaluation, where nothing is dropped.
    pub(super) fn forward(
        &mut self,
        program: &CheckedProgram,
        unit: Unit,
        micro_batch: MicroBatch,
        step: Option<StepInputs>,
    ) {
        let masks = step.map(|step| self.mask_key(step, micro_batch));
        let message =
            self.plan.stage_before(unit).map(|before| self.take_input(program, before, micro_batch));
        let planned = self.plan.unit(unit);
        let stage = planned.stage;
        let Parts { slot, stream, recomputed, workspace, .. } =
            self.activations.parts(stage, program.slot(stage, micro_batch));
        let [read, written] = stream;
        let loss = planned.unit.forward(
            self.plan.micro_batch_shape(),
            UnitForward {
                tokens: tokens_of(&self.tokens[micro_batch], masks),
                parameters: parameters_in_use(&self.stores, self.plan.weights_owner(unit), unit),
                input: message.as_ref().map_or(&**read, |message| message),
                output: if self.plan.sends_output(unit) { slot.output.get_mut() } else { written },
                saved: slot.saved.get_mut(&unit).expect("a slot has room for every unit of its stage"),
                recomputed,
                workspace,
            },
        );
        stream.swap(0, 1);
        if let (Some(before), Some(message)) = (self.plan.stage_before(unit), message) {
            self.return_input(program, before, micro_batch, message);
        }
        if let Some(loss) = loss {
            self.losses[micro_batch.index()] = loss;
        }
    }

    pub(super) fn recompute(
        &mut self,
        program: &CheckedProgram,
        unit: Unit,
        micro_batch: MicroBatch,
        step: StepInputs,
    ) {
        let masks = Some(self.mask_key(step, micro_batch));
        let planned = self.plan.unit(unit);
        let stage = planned.stage;
        let Parts { slot, recomputed, workspace, .. } =
            self.activations.parts(stage, program.slot(stage, micro_batch));
        planned.unit.recompute(
            self.plan.micro_batch_shape(),
            UnitRecompute {
                tokens: tokens_of(&self.tokens[micro_batch], masks),
                parameters: parameters_in_use(&self.stores, self.plan.weights_owner(unit), unit),
                saved: slot.saved.get_mut(&unit).expect("a slot has room for every unit of its stage"),
                recomputed,
                workspace,
            },
        );
    }

    pub(super) fn backward(
        &mut self,
        program: &CheckedProgram,
        unit: Unit,
        micro_batch: MicroBatch,
        step: StepInputs,
    ) {
        let masks = Some(self.mask_key(step, micro_batch));
        let mut fresh = self.take_gradient_buffer();
        if self.plan.sends_output(unit) {
            self.take_output_gradient(program, unit, micro_batch);
        }
        let planned = self.plan.unit(unit);
        let stage = planned.stage;
        let Parts { slot, gradient, recomputed, workspace, .. } =
            self.activations.parts(stage, program.slot(stage, micro_batch));
        let accumulated = self.stores.get_mut(&unit).map(|store| store.gradient.lend());
        let mut accumulated = accumulated.expect("a rank runs only its own units");
        planned.unit.backward(
            self.plan.micro_batch_shape(),
            UnitBackward {
                tokens: tokens_of(&self.tokens[micro_batch], masks),
                parameters: parameters_in_use(&self.stores, self.plan.weights_owner(unit), unit),
                gradient,
                saved: slot.saved.get_mut(&unit).expect("a slot has room for every unit of its stage"),
                parameter_gradients: fresh.as_mut().unwrap_or(&mut accumulated),
                recomputed,
                workspace,
                loss_seed: self.plan.loss_seed(step.loss_scale),
            },
        );
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        store.gradient.give_back(accumulated);
        store.fresh_gradient = fresh;
        if let Some(before) = self.plan.stage_before(unit) {
            self.hand_down_gradient(program, before, micro_batch);
        }
    }

    /// The activation that the stage before made: a message, or its output where it lies on this rank.
    fn take_input(&mut self, program: &CheckedProgram, before: Stage, micro_batch: MicroBatch) -> Tagged {
        let edge = Edge::Up(before);
        if self.plan.crosses_ranks(edge) {
            return self.edges.take_held(edge, micro_batch);
        }
        self.activations.slot_mut(before, program.slot(before, micro_batch)).output.lend()
    }

    fn return_input(
        &mut self,
        program: &CheckedProgram,
        before: Stage,
        micro_batch: MicroBatch,
        input: Tagged,
    ) {
        let edge = Edge::Up(before);
        if self.plan.crosses_ranks(edge) {
            self.edges.give_back(edge, input);
        } else {
            self.activations.slot_mut(before, program.slot(before, micro_batch)).output.give_back(input);
        }
    }

    /// Copies the gradient of a stage's output into the gradient stream. The stream is as wide as the widest activation,
    /// a message exactly one.
    pub(super) fn take_output_gradient(
        &mut self,
        program: &CheckedProgram,
        unit: Unit,
        micro_batch: MicroBatch,
    ) {
        let planned = self.plan.unit(unit);
        let (stage, len) = (planned.stage, planned.sizes.output);
        let edge = Edge::Down(stage);
        if self.plan.crosses_ranks(edge) {
            let message = self.edges.take_held(edge, micro_batch);
            self.activations.gradient.copy_from(0, &message, 0..len);
            self.edges.give_back(edge, message);
        } else {
            let Parts { slot, gradient, .. } =
                self.activations.parts(stage, program.slot(stage, micro_batch));
            gradient.copy_from(0, slot.output.get(), 0..len);
        }
    }

    /// Copies the gradient of a stage's input to where the stage before will read it.
    pub(super) fn hand_down_gradient(
        &mut self,
        program: &CheckedProgram,
        before: Stage,
        micro_batch: MicroBatch,
    ) {
        let edge = Edge::Down(before);
        if self.plan.crosses_ranks(edge) {
            let mut message = self.edges.take_free(edge);
            let len = message.len();
            message.copy_from(0, &self.activations.gradient, 0..len);
            self.edges.hold(edge, micro_batch, message);
        } else {
            let Parts { slot, gradient, .. } =
                self.activations.parts(before, program.slot(before, micro_batch));
            let output = slot.output.get_mut();
            let len = output.len();
            output.copy_from(0, gradient, 0..len);
        }
    }

    /// The buffer that the next backward's gradient goes to, where gradients are reduced every micro-batch.
    pub(super) fn take_gradient_buffer(&mut self) -> Option<Tagged> {
        self.plan.reduces_every_micro_batch().then(|| {
            self.gradient_buffers
                .pop()
                .expect("a checked program keeps one gradient beside the one in flight")
        })
    }

    /// What decides which elements are dropped: the same sequences have the same masks on every grid.
    pub(super) fn mask_key(&self, step: StepInputs, micro_batch: MicroBatch) -> MaskKey {
        let batch = self.plan.run().batch;
        let before = self.data_rank * batch.num_micro_batches + micro_batch.index();
        let first_sequence = (before * batch.micro_batch_size) as u64;
        MaskKey { seed: self.plan.run().seed, step: step.step, first_sequence }
    }
}

pub(super) fn tokens_of(batch: &TokenBatch, masks: Option<MaskKey>) -> Tokens<'_> {
    Tokens { inputs: &batch.inputs, targets: &batch.targets, masks }
}

/// The parameters that a use of `unit` reads: its oldest gathered copy, or the whole ones at rest.
pub(super) fn parameters_in_use(stores: &BTreeMap<Unit, UnitStore>, owner: Unit, unit: Unit) -> &Buffer {
    let owner = &stores[&owner];
    match &owner.weights {
        Weights::Replicated(whole) => whole.get(),
        // A use that reads no weights is given the shard, so that there is something to give.
        Weights::Sharded(shard) => stores[&unit].gathered.front().map_or(&**shard, |copy| &copy.buffer),
        Weights::Tied => unreachable!("the owner of a tied weight holds it"),
    }
}
