//! What kernels compute for the end of a step, read once there: the loss of each micro-batch and the squares of gradients.

use pipezero_models::kernels::square_sum::{NUM_LIMBS, SquareSum};
use pipezero_models::layer::LossSum;
use pipezero_models::{Buffer, ElementType, ModelError, Queue, View, ViewMut};
use pipezero_schedule::MicroBatch;

use super::step_sums::{StepRecord, is_broken};

/// For every micro-batch the words of a [`LossSum`] and of one for each part of the loss, and those of a [`SquareSum`].
#[derive(Debug)]
pub(crate) struct StepResults {
    losses: Buffer,
    squares: Buffer,
    /// What is read of the losses.
    words: Vec<u32>,
    /// Parts that the loss reports beside its value.
    num_parts: usize,
}

impl StepResults {
    pub(super) fn zeros(
        num_micro_batches: usize,
        num_parts: usize,
        queue: &dyn Queue,
    ) -> Result<Self, ModelError> {
        let len = LossSum::NUM_WORDS * (1 + num_parts) * num_micro_batches;
        let words = |len| queue.zeros(len, ElementType::U32);
        Ok(Self { losses: words(len)?, squares: words(NUM_LIMBS)?, words: vec![0; len], num_parts })
    }

    /// Words of a micro-batch.
    fn num_words(&self) -> usize {
        LossSum::NUM_WORDS * (1 + self.num_parts)
    }

    /// The loss of every micro-batch that was read last, and its parts.
    fn read_losses(&self) -> impl Iterator<Item = (LossSum, impl Iterator<Item = LossSum>)> {
        self.words.chunks_exact(self.num_words()).map(|words| {
            let [loss, parts @ ..] = words.as_chunks().0 else { unreachable!("a micro-batch has a loss") };
            (LossSum::from_words(*loss), parts.iter().map(|words| LossSum::from_words(*words)))
        })
    }

    /// No micro-batch has a loss, and no gradient was counted.
    pub(super) fn clear(&mut self, queue: &dyn Queue) {
        queue.clear(self.losses.view_mut());
        queue.clear(self.squares.view_mut());
    }

    /// Where the loss of a micro-batch and its parts are written.
    pub(super) fn loss(&mut self, micro_batch: MicroBatch) -> ViewMut<'_> {
        let num_words = self.num_words();
        let start = num_words * micro_batch.index();
        self.losses.view_mut().range(start..start + num_words)
    }

    /// Adds the squares of gradients.
    pub(super) fn add_squares(&mut self, queue: &dyn Queue, gradients: View<'_>) {
        queue.add_squares(gradients, self.squares.view_mut());
    }

    /// Of the losses that were read last, those that are not finite or too large, and what each adds up to.
    pub(super) fn broken_losses(&self) -> Vec<(MicroBatch, f64)> {
        let losses = self.read_losses().enumerate().filter(|(_, (loss, _))| is_broken(*loss));
        losses.map(|(index, (loss, _))| (MicroBatch(index as u32), loss.sum)).collect()
    }

    /// Waits for the results.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    pub(super) fn read(&mut self, queue: &dyn Queue) -> Result<StepRecord, ModelError> {
        let mut limbs = [0; NUM_LIMBS];
        queue.download(self.losses.view(), &mut self.words)?;
        queue.download(self.squares.view(), &mut limbs)?;
        let mut record = StepRecord::of_parts(self.num_parts);
        record.squares = SquareSum::from_limbs(limbs.map(u64::from));
        self.read_losses().for_each(|(loss, parts)| record.add_loss(loss, parts));
        Ok(record)
    }
}
