//! Instructions of the compute lane that run a unit.

use pipezero_models::layer::Tokens;
use pipezero_models::unit::{UnitBackward, UnitForward};
use pipezero_schedule::{CheckedProgram, Edge, MicroBatch, Stage, Unit};

use super::activations::Parts;
use super::rank::Rank;
use crate::comm::Communicator;
use crate::memory::Tagged;
use crate::shard::{UnitStore, Weights};

impl<C: Communicator> Rank<C> {
    pub(super) fn forward(&mut self, program: &CheckedProgram, unit: Unit, micro_batch: MicroBatch) {
        let planned = self.plan.unit(unit);
        let stage = planned.stage;
        let received = self.plan.receives_input(unit).then(|| {
            let edge = Edge::Up(Stage(stage.0 - 1));
            (edge, self.edges.take_held(edge, micro_batch))
        });
        let Parts { slot, stream, recomputed, workspace, .. } =
            self.activations.parts(stage, program.slot(stage, micro_batch));
        let [read, written] = stream;
        let tokens = &self.tokens[micro_batch.index()];
        let loss = planned.unit.forward(
            self.plan.micro_batch_shape(),
            UnitForward {
                tokens: Tokens { inputs: &tokens.inputs, targets: &tokens.targets, masks: None },
                parameters: parameters_in_use(&self.stores, self.plan.weights_owner(unit), unit),
                input: received.as_ref().map_or(&**read, |(_, message)| message),
                output: if self.plan.sends_output(unit) { slot.output.get_mut() } else { written },
                saved: slot.saved.get_mut(&unit).expect("a slot has room for every unit of its stage"),
                recomputed,
                workspace,
            },
        );
        stream.swap(0, 1);
        if let Some((edge, message)) = received {
            self.edges.give_back(edge, message);
        }
        if let Some(loss) = loss {
            self.losses[micro_batch.index()] = loss;
        }
    }

    pub(super) fn backward(&mut self, program: &CheckedProgram, unit: Unit, micro_batch: MicroBatch) {
        let mut fresh = self.take_gradient_buffer();
        let planned = self.plan.unit(unit);
        let stage = planned.stage;
        if self.plan.sends_output(unit) {
            let edge = Edge::Down(stage);
            let message = self.edges.take_held(edge, micro_batch);
            copy(&message, &mut self.activations.gradient);
            self.edges.give_back(edge, message);
        }
        let Parts { slot, gradient, recomputed, workspace, .. } =
            self.activations.parts(stage, program.slot(stage, micro_batch));
        let accumulated = self.stores.get_mut(&unit).map(|store| store.gradient.lend());
        let mut accumulated = accumulated.expect("a rank runs only its own units");
        let tokens = &self.tokens[micro_batch.index()];
        planned.unit.backward(
            self.plan.micro_batch_shape(),
            UnitBackward {
                tokens: Tokens { inputs: &tokens.inputs, targets: &tokens.targets, masks: None },
                parameters: parameters_in_use(&self.stores, self.plan.weights_owner(unit), unit),
                gradient,
                saved: slot.saved.get_mut(&unit).expect("a slot has room for every unit of its stage"),
                recomputed,
                parameter_gradients: fresh.as_mut().unwrap_or(&mut accumulated),
                workspace,
                loss_seed: self.plan.loss_seed(),
            },
        );
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        store.gradient.give_back(accumulated);
        store.fresh_gradient = fresh;
        if self.plan.receives_input(unit) {
            let edge = Edge::Down(Stage(stage.0 - 1));
            let mut message = self.edges.take_free(edge);
            copy(&self.activations.gradient, &mut message);
            self.edges.hold(edge, micro_batch, message);
        }
    }

    /// The buffer that the next backward's gradient goes to, where gradients are reduced every micro-batch.
    fn take_gradient_buffer(&mut self) -> Option<Tagged> {
        self.plan.reduces_every_micro_batch().then(|| {
            self.gradient_buffers
                .pop()
                .expect("a checked program keeps one gradient beside the one in flight")
        })
    }
}

/// The parameters that a use of `unit` reads: its oldest gathered copy, or the whole ones at rest.
fn parameters_in_use(
    stores: &std::collections::BTreeMap<Unit, UnitStore>,
    owner: Unit,
    unit: Unit,
) -> &pipezero_models::Buffer {
    let owner = &stores[&owner];
    match &owner.weights {
        Weights::Replicated(whole) => whole.get(),
        // A use that reads no weights is given the shard, so that there is something to give.
        Weights::Sharded(shard) => stores[&unit].gathered.front().unwrap_or(shard),
        Weights::Tied => unreachable!("the owner of a tied weight holds it"),
    }
}

/// Copies as many elements as both hold; streams are as wide as the widest activation, messages exactly one.
fn copy(source: &Tagged, destination: &mut Tagged) {
    let source = source.read();
    let len = source.len().min(destination.len());
    destination.write(|values| values[..len].copy_from_slice(&source[..len]));
}
