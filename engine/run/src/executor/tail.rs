//! The end of a step: tied gradients, the norm over the grid, the optimizer.

use pipezero_comm::world::Position;
use pipezero_comm::{Channel, Communicator};
use pipezero_models::layer::WriteMode;
use pipezero_schedule::Unit;

use super::error::Cause;
use super::rank::Rank;
use super::step::{StepInputs, Tail};
use super::step_sums::StepRecord;
use super::sums::use_up;
use crate::optimizer::clip_factor;

impl Rank {
    /// Adds the gradients of both uses of a tied weight, embedding + head: one parameter, so one part.
    pub(super) fn add_tied(&mut self, embedding: Unit, head: Unit) -> Result<(), Cause> {
        if self.stores.contains_key(&embedding) && self.stores.contains_key(&head) {
            let mut second = self.store_mut(head).parts[0].gradient.lend();
            let first = &mut self.stores.get_mut(&embedding).expect("it is there").parts[0];
            let owned = first.owned_gradient.clone();
            let sum = first.gradient.get_mut().view_mut().range(owned.clone());
            use_up(&*self.queue, &mut second, owned, sum, WriteMode::Add);
            self.store_mut(head).parts[0].gradient.give_back(second);
            return Ok(());
        }
        let here = if self.stores.contains_key(&embedding) { embedding } else { head };
        let store = self.stores.get_mut(&here).expect("a rank runs only its own units");
        let store = &mut store.parts[0];
        let group = self.groups.tied.as_ref().expect("a plan with tied units has a group for them");
        let (gradient, owned) = (store.gradient.lend(), store.owned_gradient.clone());
        // The sum of two addends does not depend on their order.
        let wait = self.recorder.begin_joint_wait();
        let sum = self.comm.start_all_reduce(group, Channel::Tied, gradient, owned)?.wait()?;
        self.recorder.end_wait(wait);
        store.gradient.give_back(sum);
        Ok(())
    }

    /// The norm of all gradients, each parameter counted once, and the step's loss.
    pub(super) fn gradient_norm(&mut self, inputs: StepInputs) -> Result<(), Cause> {
        for (&unit, store) in &self.stores {
            if self.plan.counts_in_norm(unit) {
                for part in store.parts.iter().filter(|part| part.is_trained()) {
                    self.results.add_squares(&*self.queue, part.counted_gradient());
                }
            }
        }
        let mut record = self.results()?;
        if self.unread.is_some() {
            record.set_broken();
        }
        let record = self.share(&record)?;
        let overflowed = !record.is_finite();
        if overflowed {
            self.tail = Tail { record, overflowed, gradient_norm: f64::INFINITY, ..Tail::default() };
            return Ok(());
        }
        let capacity = self.plan.num_targets_capacity();
        let normalisation =
            if record.num_targets() == 0 { 0.0 } else { capacity / record.num_targets() as f64 };
        let normalisation = normalisation / inputs.loss_scale;
        let gradient_norm = record.squares.sqrt_scaled(normalisation);
        let clip = clip_factor(gradient_norm, self.plan.run().gradient_clipping);
        self.tail = Tail { record, gradient_norm, overflowed, gradient_scale: (normalisation * clip) as f32 };
        Ok(())
    }

    /// The sum of the losses of the batch's micro-batches over the whole grid; not finite either where a rank could not read its tokens.
    pub(super) fn share_losses(&mut self, is_broken: bool) -> Result<StepRecord, Cause> {
        self.set_position(Position::AddingLosses);
        let mut record = self.results()?;
        if is_broken {
            record.set_broken();
        }
        self.share(&record)
    }

    /// Updates the elements of a unit that this rank owns.
    pub(super) fn optimizer_step(&mut self, unit: Unit, inputs: StepInputs) {
        let store = self.stores.get_mut(&unit).expect("a rank runs only its own units");
        // A step in which no target carries loss has no gradient and leaves the weights as they are.
        if self.tail.record.num_targets() > 0 && !self.tail.overflowed {
            for part in store.parts.iter_mut().filter(|part| part.is_trained()) {
                part.update(
                    &*self.queue,
                    &self.plan.run().optimizer,
                    inputs.update,
                    inputs.learning_rate,
                    self.tail.gradient_scale,
                );
            }
        }
    }

    /// What kernels have computed for the end of the step, once they have.
    pub(super) fn results(&mut self) -> Result<StepRecord, Cause> {
        self.comm.finish()?;
        Ok(self.results.read(&*self.queue)?)
    }

    fn share(&mut self, record: &StepRecord) -> Result<StepRecord, Cause> {
        let mut words = record.words();
        let wait = self.recorder.begin_joint_wait();
        self.comm.all_reduce_words(&self.groups.world, &mut words)?;
        self.recorder.end_wait(wait);
        Ok(StepRecord::from_words(&words))
    }
}
