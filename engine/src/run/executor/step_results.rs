//! What kernels compute for the end of a step, read once there: the loss of each micro-batch and the squares of gradients.

use pipezero_models::kernels::square_sum::{NUM_LIMBS, SquareSum};
use pipezero_models::layer::LossSum;
use pipezero_models::{Buffer, ElementType, ModelError, Queue, View, ViewMut};
use pipezero_schedule::MicroBatch;

use super::step_sums::{StepRecord, is_broken};

/// The words of a [`LossSum`] for every micro-batch, and of a [`SquareSum`].
#[derive(Debug)]
pub(crate) struct StepResults {
    losses: Buffer,
    squares: Buffer,
    /// What is read of the losses, so that a step allocates nothing.
    words: Vec<u32>,
}

impl StepResults {
    pub(super) fn zeros(num_micro_batches: usize, queue: &dyn Queue) -> Result<Self, ModelError> {
        let len = LossSum::NUM_WORDS * num_micro_batches;
        let words = |len| queue.zeros(len, ElementType::U32);
        Ok(Self { losses: words(len)?, squares: words(NUM_LIMBS)?, words: vec![0; len] })
    }

    /// No micro-batch has a loss, and no gradient was counted.
    pub(super) fn clear(&mut self, queue: &dyn Queue) {
        queue.clear(self.losses.view_mut());
        queue.clear(self.squares.view_mut());
    }

    /// Where the loss of a micro-batch is written.
    pub(super) fn loss(&mut self, micro_batch: MicroBatch) -> ViewMut<'_> {
        let start = LossSum::NUM_WORDS * micro_batch.index();
        self.losses.view_mut().range(start..start + LossSum::NUM_WORDS)
    }

    /// Adds the squares of gradients.
    pub(super) fn add_squares(&mut self, queue: &dyn Queue, gradients: View<'_>) {
        queue.add_squares(gradients, self.squares.view_mut());
    }

    /// Of the losses that were read last, the first that is not finite.
    pub(super) fn first_broken_loss(&self) -> Option<MicroBatch> {
        let (losses, _) = self.words.as_chunks();
        let broken = losses.iter().position(|&words| is_broken(LossSum::from_words(words)));
        broken.map(|index| MicroBatch(index as u32))
    }

    /// Waits for the results.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    pub(super) fn read(&mut self, queue: &dyn Queue) -> Result<StepRecord, ModelError> {
        let mut limbs = [0; NUM_LIMBS];
        queue.download(self.losses.view(), &mut self.words)?;
        queue.download(self.squares.view(), &mut limbs)?;
        let mut record = StepRecord::default();
        record.squares = SquareSum::from_limbs(limbs.map(u64::from));
        let (losses, _) = self.words.as_chunks();
        losses.iter().for_each(|&words| record.add_loss(LossSum::from_words(words)));
        Ok(record)
    }
}
