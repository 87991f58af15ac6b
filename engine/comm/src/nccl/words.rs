//! Sums of whole words over all ranks, for which the host waits.

use pipezero_models::{Buffer, ElementType, ModelError, Queue};

use super::lane::Lane;
use crate::error::CommError;

/// Words that a buffer has room for at first: more than a step's end needs.
const NUM_WORDS: usize = 64;

/// A rank's words on their way through its GPU.
#[derive(Debug)]
pub(super) struct Words {
    /// The lower half of each word, then the upper one.
    halves: Vec<u32>,
    on_device: Buffer,
}

impl Words {
    pub(super) fn new(queue: &dyn Queue) -> Result<Self, ModelError> {
        let halves = vec![0; 2 * NUM_WORDS];
        Ok(Self { on_device: queue.zeros(halves.len(), ElementType::U32)?, halves })
    }

    /// Adds the words of all ranks over the lane that connects them. `finish` waits for its queue.
    pub(super) fn add(
        &mut self,
        lane: &Lane,
        words: &mut [u64],
        finish: impl Fn() -> Result<(), CommError>,
    ) -> Result<(), CommError> {
        // Ranks wait for each other even where they have nothing to add.
        let len = 2 * words.len().max(1);
        if len > self.halves.len() {
            self.halves.resize(len, 0);
            self.on_device = lane.queue.zeros(len, ElementType::U32)?;
        }
        let halves = &mut self.halves[..len];
        for (halves, word) in halves.as_chunks_mut::<2>().0.iter_mut().zip(&*words) {
            *halves = [*word as u32, (*word >> u32::BITS) as u32];
        }
        // An upload waits for the queue without a limit.
        finish()?;
        let mut on_device = self.on_device.view_mut().range(0..len);
        lane.queue.upload(halves, on_device.reborrow());
        lane.connection.add_words(&on_device);
        finish()?;
        lane.queue.download(on_device.view(), halves)?;
        for (word, [low, high]) in words.iter_mut().zip(halves.as_chunks().0) {
            *word = u64::from(*low) | u64::from(*high) << u32::BITS;
        }
        Ok(())
    }
}
