//! The keys of a batch, and when a resumed run keeps the size of a step whatever they say.

/// The three keys of a batch, as far as they are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchKeys {
    /// `train_batch_size`.
    pub(super) train: Option<usize>,
    /// `train_micro_batch_size_per_gpu`.
    pub(super) micro: Option<usize>,
    /// `gradient_accumulation_steps`.
    pub(super) steps: Option<usize>,
}

impl BatchKeys {
    /// The size of a micro-batch, if as many of them make a step as take the `kept` sequences of the run before, whatever the file says of their number.
    pub(super) fn micro_of_kept(self, kept: usize) -> Option<usize> {
        // A file of all three keys describes another data degree; one with another size of a step asks for that.
        let says_no_other_size = self.train.is_none_or(|train| train == kept && self.steps.is_some());
        self.micro.filter(|_| says_no_other_size)
    }
}
