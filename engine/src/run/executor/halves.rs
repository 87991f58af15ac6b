//! The backward of a unit in two halves, for schedules that fill their bubbles with weight gradients.
//!
//! The stage before waits for the input gradient; the weight gradient needs no message and no gathered weights, only what the
//! forward and the input gradient saved. Together they are the full backward, to the bit.

use pipezero_models::layer::WriteMode;
use pipezero_models::unit::{UnitBackwardInput, UnitBackwardWeight};

use super::activations::Parts;
use super::compute::{Compute, parameters_of_backward};
use super::rank::Rank;
use super::step::StepInputs;

impl Rank {
    pub(super) fn backward_input(&mut self, compute: Compute<'_>, step: StepInputs) {
        let Compute { unit, micro_batch, .. } = compute;
        if self.plan.unit(unit).is_frozen {
            return self.backward_frozen(compute, step);
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
                parameters: parameters_of_backward(
                    &self.stores,
                    self.plan.weights_owner(unit),
                    (unit, planned),
                )
                .view()
                .into(),
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
        let mut fresh = self.take_gradient_buffer(compute);
        let planned = self.plan.unit(unit);
        let (stage, owner) = (planned.stage, self.plan.activations_owner(unit));
        let Parts { saved, weight_inputs, workspace, .. } =
            self.activations.parts(stage, compute.slot(stage), owner);
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        let padded = 0..store.layout.padded_len();
        let (target, next) = match &mut fresh {
            Some(fresh) => (&mut fresh.buffer, WriteMode::Overwrite),
            None => {
                let next = store.take_next_mode();
                (store.gradient.get_mut(), next)
            }
        };
        planned.unit.backward_weight(
            &*self.queue,
            self.shapes.of(micro_batch),
            UnitBackwardWeight {
                tokens: self.tokens.of(micro_batch, self.shapes.of(micro_batch), masks),
                saved,
                weight_inputs: compute.weight_inputs(stage, owner, weight_inputs),
                parameter_gradients: target.view_mut().range(padded).into(),
                mode: next,
                workspace,
            },
        );
        store.unreduced.extend(fresh);
    }
}
