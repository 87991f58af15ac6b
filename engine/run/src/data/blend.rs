//! From which of several sources each sequence comes, where they have weights.
//!
//! The weights become whole numbers of [`CYCLE`] sequences, and a cycle of so many sequences takes each source as often as its number says,
//! spread as evenly as can be: next comes the source that is furthest behind its share. The cycle is the same all over again, so the
//! source of any sequence, and which of the source's own it is, follow from the sequence's number alone.

/// Sequences of a cycle; weights are rounded to a part in so many.
pub const CYCLE: u64 = 4096;

/// Which source each sequence of a cycle is of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blend {
    /// The source of each sequence of a cycle, and which of those of this source it is.
    cycle: Vec<(u32, u64)>,
    /// Sequences of a cycle that each source has.
    shares: Vec<u64>,
}

/// Why weights make no blend.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "weight {weight} of source {source_number} is less than 1 of {CYCLE} of the sum of all weights, so it would never come; give it more, or leave it out"
)]
pub struct BlendError {
    /// The weight.
    pub weight: f64,
    /// Which source, from 1.
    pub source_number: usize,
}

impl Blend {
    /// The blend of positive weights, one for each source.
    pub(super) fn new(weights: &[f64]) -> Result<Self, BlendError> {
        let exact = exact_shares(weights);
        if let Some(rare) = exact.iter().position(|&share| share < 1.0) {
            return Err(BlendError { weight: weights[rare], source_number: rare + 1 });
        }
        let shares = whole_shares(&exact);
        let mut taken = vec![0_u64; shares.len()];
        let cycle = (1..=CYCLE).map(|number| {
            // In whole numbers: how far each is behind, times the cycle; the first of those furthest behind.
            let behind = |source: usize| {
                (shares[source] * number).cast_signed() - (taken[source] * CYCLE).cast_signed()
            };
            let source = (0..shares.len())
                .filter(|&source| taken[source] < shares[source])
                .max_by_key(|&source| (behind(source), std::cmp::Reverse(source)))
                .expect("the shares add up to a cycle");
            taken[source] += 1;
            (source as u32, taken[source] - 1)
        });
        let cycle = cycle.collect();
        Ok(Self { cycle, shares })
    }

    /// Sequences of a cycle that each source has.
    pub(super) fn shares(&self) -> &[u64] {
        &self.shares
    }

    /// The source of sequence `index` of the run, and its number among those of this source.
    pub(super) fn of(&self, index: u64) -> (usize, u64) {
        let (source, number) = self.cycle[(index % CYCLE) as usize];
        let source = source as usize;
        (source, index / CYCLE * self.shares[source] + number)
    }
}

/// Sequences of a cycle in the proportion of the weights.
fn exact_shares(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    if (sum * CYCLE as f64).is_finite() {
        // A product with a power of two is exact, so that a weight that is a whole number of parts is that many.
        return weights.iter().map(|weight| weight * CYCLE as f64 / sum).collect();
    }
    // Of weights below 1 no sum is infinite.
    let largest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let parts: Vec<f64> = weights.iter().map(|weight| weight / largest).collect();
    exact_shares(&parts)
}

/// The same in whole numbers, with the sum of a cycle: those with the largest rests are rounded up.
fn whole_shares(exact: &[f64]) -> Vec<u64> {
    let mut shares: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
    let missing = CYCLE - shares.iter().sum::<u64>();
    let mut by_rest: Vec<usize> = (0..exact.len()).collect();
    by_rest.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    by_rest.into_iter().take(missing as usize).for_each(|source| shares[source] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each source has its share of every cycle, of every beginning of it to within one sequence of two sources, and each of its sequences
    /// comes once and in order.
    #[test]
    fn every_source_has_its_share() {
        for weights in [&[1.0][..], &[3.0, 1.0], &[0.7, 0.2, 0.1], &[1.0, 1.0, 1.0], &[2e-3, 5.0, 1e-2]] {
            let blend = Blend::new(weights).expect("each has a share");
            let sum: f64 = weights.iter().sum();
            let mut counts = vec![0_u64; weights.len()];
            for index in 0..3 * CYCLE {
                let (source, number) = blend.of(index);
                assert_eq!(number, counts[source], "sequences of a source come in order");
                counts[source] += 1;
                for (count, weight) in counts.iter().zip(weights) {
                    let wanted = weight / sum * (index + 1) as f64;
                    // A rounding of the weight adds up to one in three cycles each.
                    assert!(
                        (*count as f64 - wanted).abs() < 4.0,
                        "{weights:?} at {index}: {count} of {wanted}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_weight_that_would_never_come_is_refused() {
        let error = Blend::new(&[1.0, 1e-9]).expect_err("less than one in a cycle");
        assert_eq!((error.weight, error.source_number), (1e-9, 2));
        let largest = Blend::new(&[1e308, 1e308]).expect("half each");
        assert_eq!(largest.shares(), [CYCLE / 2; 2]);
        for second in 1..CYCLE - 2 {
            let parts = [1, second, CYCLE - 1 - second];
            let whole = Blend::new(&parts.map(|part| part as f64)).expect("one part is a share");
            assert_eq!(whole.shares(), parts);
        }
    }
}
