//! The backward of a frozen unit: the gradient of its input alone, whether the schedule splits backwards or not. There is nothing left
//! for a weight gradient to do.

use pipezero_models::unit::UnitBackwardFrozen;

use super::activations::Parts;
use super::compute::{Compute, parameters_read};
use super::rank::Rank;
use super::step::StepInputs;

impl Rank {
    pub(super) fn backward_frozen(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        let masks = Some(self.mask_key(step, micro_batch));
        self.take_output_gradient(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, gradient, recomputed, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        planned.unit.backward_frozen(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitBackwardFrozen {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                parameters: parameters_read(&self.stores, self.plan.weights_owner(unit), unit),
                gradient,
                saved,
                recomputed,
                workspace,
                loss_seed: self.plan.loss_seed(step.loss_scale),
            },
        );
        self.pass_input_gradient(compute);
    }
}
