//! What candle allocates for a backward, as it depends on the micro-batch.

use pipezero_models::layer::MicroBatchShape;

/// f32 elements that a backward holds at once, at most: found at one and at two sequences, between which they grow by the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// T of what was counted.
    seq_length: usize,
    /// What does not depend on the number of sequences: parameters and their gradients.
    fixed: usize,
    per_sequence: usize,
}

impl Counted {
    /// From what one sequence of `seq_length` tokens needs, and what two need.
    pub(crate) fn new(seq_length: usize, [of_one, of_two]: [usize; 2]) -> Self {
        let per_sequence = of_two.saturating_sub(of_one);
        Self { seq_length, fixed: of_one.saturating_sub(per_sequence), per_sequence }
    }

    /// Those of a micro-batch. Longer sequences than were counted may need as much more as the square of their length, as attention's
    /// scores do.
    pub(crate) fn of(self, shape: MicroBatchShape) -> usize {
        let longer = shape.seq_length.div_ceil(self.seq_length);
        let per_sequence = self.per_sequence.saturating_mul(longer.saturating_mul(longer));
        self.fixed.saturating_add(per_sequence.saturating_mul(shape.num_sequences))
    }
}
