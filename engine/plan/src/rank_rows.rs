//! A rank's rows, asked what they would need if other units were sharded.

use pipezero_partition::{BufferBounds, GatherCosts, RankRow};
use pipezero_schedule::UnreducedGradients;
use pipezero_schedule::lower::{RowGathers, RowReads};
use pipezero_schedule::protocol::gradient_buffer_bytes;

/// A rank's rows; its units are counted by their places, ascending.
pub(super) struct RankRows<'a> {
    pub(super) training: RowReads<'a>,
    pub(super) evaluation: RowReads<'a>,
    /// The units whose gradients are reduced after every micro-batch, in the order of the row, as far as it does not repeat itself.
    pub(super) gradients: Vec<usize>,
    /// How many of them may be unreduced at once.
    pub(super) unreduced: UnreducedGradients,
    /// `[place]`: of the gathered unit.
    pub(super) unit_bytes: Vec<u64>,
    /// `[place]`: of the unit's gradient.
    pub(super) gradient_bytes: Vec<u64>,
    /// `[place]`: that a rank sends in a gather.
    pub(super) message_bytes: Vec<u64>,
    /// `[weight]`: the units that use it.
    pub(super) places: Vec<Vec<usize>>,
}

impl RankRows<'_> {
    /// What is said of each weight, said of each unit.
    fn of_units(&self, of_weights: &[bool]) -> Vec<bool> {
        let mut of_units = vec![false; self.unit_bytes.len()];
        for (places, &of_weight) in self.places.iter().zip(of_weights) {
            places.iter().for_each(|&place| of_units[place] = of_weight);
        }
        of_units
    }
}

fn sum(bytes: impl IntoIterator<Item = u64>) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}

impl RankRow for RankRows<'_> {
    fn buffer_bounds(&self, is_sharded: &[bool]) -> BufferBounds {
        let allowed = self.training.allowed_buffer_bytes(&self.of_units(is_sharded));
        BufferBounds { least_bytes: allowed.first().copied().unwrap_or(0), most_bytes: sum(allowed) }
    }

    fn gathers(&self, is_sharded: &[bool]) -> GatherCosts {
        let of_units = self.of_units(is_sharded);
        let RowGathers { buffer_bytes: mut buffers, num_gathers } = self.training.gathers(&of_units);
        // Buffers serve both programs. An evaluation needs no others where a step has all that are allowed.
        if buffers != self.training.allowed_buffer_bytes(&of_units) {
            let of_evaluation = self.evaluation.gathers(&of_units).buffer_bytes;
            buffers.resize(buffers.len().max(of_evaluation.len()), 0);
            buffers.iter_mut().zip(of_evaluation).for_each(|(own, other)| *own = other.max(*own));
        }
        let sent = |&place: &usize| num_gathers[place].saturating_mul(self.message_bytes[place]);
        GatherCosts {
            buffer_bytes: sum(buffers),
            sent_bytes: self.places.iter().map(|places| sum(places.iter().map(sent))).collect(),
        }
    }

    fn gradient_buffer_bytes(&self, is_reduced_often: &[bool]) -> u64 {
        let of_units = self.of_units(is_reduced_often);
        let gradients = self.gradients.iter().filter(|&&place| of_units[place]);
        let bytes: Vec<u64> = gradients.map(|&place| self.gradient_bytes[place]).collect();
        sum(gradient_buffer_bytes(&bytes, self.unreduced))
    }
}

/// Repeats of a row of gradients after which more of them need no other buffers. Three buffers are the most, so after four repeats some
/// buffer has been taken last at the end of two of them, and what lies between may be repeated for ever.
const REPEATS_MAX: usize = 4;

/// The gradients of a row that is the same for each micro-batch, for a few micro-batches; any other row as it is.
pub(super) fn without_repeats(mut gradients: Vec<usize>) -> Vec<usize> {
    let repeats = |len: &usize| {
        gradients.len().is_multiple_of(*len) && gradients.iter().zip(&gradients[*len..]).all(|(a, b)| a == b)
    };
    if let Some(len) = (1..=gradients.len() / REPEATS_MAX).find(repeats) {
        gradients.truncate(REPEATS_MAX * len);
    }
    gradients
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_repeats_need_no_other_buffers() {
        let gradient_buffer_bytes = |of: &[u64]| gradient_buffer_bytes(of, UnreducedGradients::Two);
        for units in [&[5][..], &[38, 7, 7], &[38, 7, 7, 7], &[12, 10, 10], &[2, 38, 7, 7, 30], &[5, 5, 9, 1]]
        {
            let few = gradient_buffer_bytes(&units.repeat(REPEATS_MAX));
            for num_repeats in [5, 6, 7, 64] {
                assert_eq!(gradient_buffer_bytes(&units.repeat(num_repeats)), few, "{units:?}");
            }
            let places: Vec<usize> = (0..units.len()).collect();
            assert_eq!(without_repeats(places.repeat(64)), places.repeat(REPEATS_MAX));
        }
        let uneven = vec![0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0];
        assert_eq!(without_repeats(uneven.clone()), uneven);
        assert!(without_repeats(Vec::new()).is_empty());
    }
}
