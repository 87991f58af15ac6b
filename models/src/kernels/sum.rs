//! Sums of gradients: of two uses of a weight, and of the members of a group in one order.

/// Elements summed at a time: small enough for the innermost cache.
const BLOCK: usize = 1024;

/// `sum += term`.
///
/// # Panics
/// If their lengths differ.
pub fn add(sum: &mut [f32], term: &[f32]) {
    assert_eq!(sum.len(), term.len(), "elements of a sum and of its term");
    sum.iter_mut().zip(term).for_each(|(sum, &term)| *sum += term);
}

/// `own` becomes the sum of `before`, `own` and `after`, in this order, element by element.
///
/// # Panics
/// If their lengths differ.
pub fn in_order(before: &[&[f32]], own: &mut [f32], after: &[&[f32]]) {
    let all_fit = before.iter().chain(after).all(|term| term.len() == own.len());
    assert!(all_fit, "a term of a sum of {} elements has as many", own.len());
    let mut sums = [0.0_f32; BLOCK];
    for start in (0..own.len()).step_by(BLOCK) {
        let block = start..own.len().min(start + BLOCK);
        let sums = &mut sums[..block.len()];
        let mut terms = (before.iter().map(|term| &term[block.clone()]))
            .chain(std::iter::once(&own[block.clone()]))
            .chain(after.iter().map(|term| &term[block.clone()]));
        sums.copy_from_slice(terms.next().expect("a sum has a term of its own"));
        for term in terms {
            add(sums, term);
        }
        own[block].copy_from_slice(sums);
    }
}
