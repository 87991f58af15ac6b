//! A cover of pairs: few choices in which every pair of values of two dimensions occurs.
//!
//! Where the full product of features is far too large, most mistakes still need no more than two features to meet.

use std::collections::BTreeSet;

/// Choices, each of one value of every dimension of these sizes, in which every pair of values of two dimensions occurs:
/// the next one is, of many drawn at random, the one with the most new pairs. The same on every machine.
pub fn pairwise<const N: usize>(sizes: [usize; N]) -> Vec<[usize; N]> {
    let mut left: BTreeSet<_> = BTreeSet::new();
    for (a, &size_a) in sizes.iter().enumerate() {
        for (b, &size_b) in sizes.iter().enumerate().skip(a + 1) {
            left.extend((0..size_a).flat_map(|x| (0..size_b).map(move |y| [(a, x), (b, y)])));
        }
    }
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % bound
    };
    let mut choices = Vec::new();
    while let Some(&[(a, x), (b, y)]) = left.first() {
        let draws = (0..30).map(|_| {
            let mut choice: [usize; N] = sizes.map(&mut random);
            (choice[a], choice[b]) = (x, y);
            choice
        });
        let best = draws.max_by_key(|&choice| pairs_of(choice).filter(|pair| left.contains(pair)).count());
        let best = best.expect("thirty were drawn");
        pairs_of(best).for_each(|pair| {
            left.remove(&pair);
        });
        choices.push(best);
    }
    choices
}

/// Pairs of values of two dimensions.
fn pairs_of<const N: usize>(choice: [usize; N]) -> impl Iterator<Item = [(usize, usize); 2]> {
    let dimensions = choice.into_iter().enumerate();
    dimensions
        .clone()
        .flat_map(move |first| dimensions.clone().skip(first.0 + 1).map(move |second| [first, second]))
}
