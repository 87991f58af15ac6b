//! The backward of a unit in two halves, for schedules that fill their bubbles with weight gradients.
//!
//! The stage before waits for the input gradient; the weight gradient needs no message and no gathered weights, only what the
//! forward and the input gradient saved. Together they are the full backward, to the bit.

use pipezero_models::unit::{UnitBackwardInput, UnitBackwardWeight};

use super::activations::Parts;
use super::compute::{Compute, parameters_read};
use super::rank::Rank;
use super::step::StepInputs;

impl Rank {
    pub(super) fn backward_input(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        if self.plan.unit(unit).is_frozen {
            // The input gradient is the whole backward of a frozen unit, which may recompute too.
            return self.backward(compute, step);
        }
        let masks = Some(self.mask_key(step, micro_batch));
        self.take_output_gradient(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, weight_inputs, gradient, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        planned.unit.backward_input(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitBackwardInput {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit),
                gradient,
                saved,
                weight_inputs: compute.weight_inputs(stage, owner, weight_inputs),
                workspace,
                loss_seed: self.plan.loss_seed(step.loss_scale),
            },
        );
        self.pass_input_gradient(compute);
    }

    pub(super) fn backward_weight(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        if self.plan.unit(unit).is_frozen {
            return;
        }
        let masks = Some(self.mask_key(step, micro_batch));
        let mut target = self.take_gradient_target(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, weight_inputs, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        planned.unit.backward_weight(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitBackwardWeight {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                saved,
                weight_inputs: compute.weight_inputs(stage, owner, weight_inputs),
                parameter_gradients: target.views(planned),
                workspace,
            },
        );
        self.keep_gradients(unit, target);
    }
}
