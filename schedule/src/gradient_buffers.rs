//! Gradient buffers: how many a rank has that reduces after every micro-batch, how large they are, and which one each unsharded
//! gradient lies in.
//!
//! With [`UnreducedGradients::One`] there is one, as large as the largest of them, and each waits for the reduction of the one before it. One
//! always suffices: a `B` or `W` computes the gradients of one unit, and lowering issues its reduction before the next compute. With
//! [`UnreducedGradients::Two`] it is as follows.
//!
//! A gradient is computed while the one before it is reduced, so two that follow each other lie in different buffers, and the
//! buffer of any earlier one is free again. Two buffers as large as the largest unit would always do. But where a large unit
//! stands among small ones (a head of 50k tokens behind transformer layers), the gradients beside its own are small. So a rank
//! has two or three buffers, those of the fewest bytes with which no gradient waits longer for a free one than with two of the largest
//! size:
//!
//! ```text
//! units          head  b2  b1   head  b2  b1   head   the gradients of a rank, in the order of its row
//! two buffers     A    B   A     B    A   B     A     an odd number of units: A and B as large as the head
//! three buffers   A    B   C     A    B   C     A     B and C as large as a block
//! ```
//!
//! Three are enough: neighbours in a row are all that must differ, so a third buffer always lets the row go on.
//!
//! Which buffer a gradient takes is a function of the row, so it is not written in programs. The dependency graph and the
//! executor use the same function.

use alloc::vec::Vec;

use crate::dataflow::unreduced_gradient;
use crate::id::{PipelineRank, Unit};
use crate::instruction::Instruction;
use crate::options::UnreducedGradients;
use crate::program::{Program, Purpose};

/// Bytes of the buffers, descending, for unsharded gradients that are computed in this order, each of so many bytes, if so many may be
/// unreduced at once.
pub fn gradient_buffer_bytes(gradients: &[u64], unreduced: UnreducedGradients) -> Vec<u64> {
    match unreduced {
        UnreducedGradients::One => gradients.iter().copied().max().into_iter().collect(),
        UnreducedGradients::Two if gradients.len() < 2 => gradients.to_vec(),
        UnreducedGradients::Two => fewest_bytes(gradients),
    }
}

/// The two or three buffers for two gradients or more, if each is reduced while the next is computed.
fn fewest_bytes(gradients: &[u64]) -> Vec<u64> {
    let mut sizes = gradients.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let largest = sizes[0];
    // Ascending, so that the first with which a second buffer is enough is the smallest; at first there is no third.
    let mut thirds = sizes.iter().rev().copied();
    let mut third = None;
    let mut fewest = vec![largest, largest];
    // The smaller the second buffer, the larger the third that it needs.
    for &second in &sizes {
        let buffers = loop {
            let buffers: Vec<u64> = [largest, second].into_iter().chain(third).collect();
            if third > Some(second) || Assignment::new(gradients, &buffers).is_possible() {
                break buffers;
            }
            third = thirds.next();
        };
        if third > Some(second) {
            break;
        }
        if total(&buffers) < total(&fewest) {
            fewest = buffers;
        }
    }
    fewest
}

/// The units whose gradients a rank computes and reduces after every micro-batch, in the order of its row.
pub fn unreduced_gradients(program: &Program, rank: PipelineRank) -> Vec<Unit> {
    let of = |&instruction: &Instruction| unreduced_gradient(&program.chain, &program.options, instruction);
    program.row(rank).iter().filter_map(of).map(|(unit, _)| unit).collect()
}

fn total(buffers: &[u64]) -> u128 {
    buffers.iter().copied().map(u128::from).sum()
}

/// The gradient buffers of a rank, of the units whose gradients do not accumulate unsharded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GradientBuffers {
    /// Descending.
    bytes: Vec<u64>,
    /// Of the gradients of these units in the row, in its order: where the gradient is computed, and its buffer.
    gradients: Vec<(u32, u32)>,
}

impl GradientBuffers {
    /// `[rank]`: the buffers of a program in which every gradient is reduced in time for the one that takes its buffer.
    pub(crate) fn assign(program: &Program) -> Vec<Self> {
        let trains = program.purpose == Purpose::Training;
        let of_row =
            |row: &Vec<Instruction>| if trains { Self::of_row(program, row) } else { Self::default() };
        program.rows.iter().map(of_row).collect()
    }

    fn of_row(Program { chain, options, .. }: &Program, row: &[Instruction]) -> Self {
        let found = row.iter().enumerate().filter_map(|(step, &instruction)| {
            let (unit, _) = unreduced_gradient(chain, options, instruction)?;
            Some((step as u32, options.unreduced_bytes(chain.facts(unit))))
        });
        let (steps, sizes): (Vec<u32>, Vec<u64>) = found.unzip();
        let bytes = gradient_buffer_bytes(&sizes, options.unreduced);
        let chosen = match options.unreduced {
            UnreducedGradients::One => vec![0; sizes.len()],
            UnreducedGradients::Two => Assignment::new(&sizes, &bytes).smallest(),
        };
        Self { bytes, gradients: steps.into_iter().zip(chosen).collect() }
    }

    /// Bytes of each buffer, descending.
    pub(crate) fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    /// The gradients of the row in its order: where each is computed, and its buffer.
    pub(crate) fn gradients(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.gradients.iter().map(|&(step, buffer)| (step as usize, buffer as usize))
    }

    /// The buffer that the `B` or `W` at this position overwrites, if it does.
    pub(crate) fn buffer(&self, step: usize) -> Option<usize> {
        let at = self.gradients.binary_search_by_key(&step, |&(gradient, _)| gradient as usize).ok()?;
        Some(self.gradients[at].1 as usize)
    }

    /// The gradient that lay in the buffer of the `n`-th one before it; both are counted along the row.
    pub(crate) fn previous(&self, n: usize) -> Option<usize> {
        let (_, buffer) = *self.gradients.get(n)?;
        self.gradients[..n].iter().rposition(|&(_, other)| other == buffer)
    }
}

/// The most buffers that are of use.
const MAX_BUFFERS: usize = 3;

/// Gradients in turn, and for each the buffers in which it may lie so that all later ones find theirs.
struct Assignment {
    /// `[gradient][buffer]`
    goes_on: Vec<[bool; MAX_BUFFERS]>,
}

impl Assignment {
    fn new(gradients: &[u64], buffers: &[u64]) -> Self {
        let mut goes_on = vec![[false; MAX_BUFFERS]; gradients.len()];
        let mut next: Option<[bool; MAX_BUFFERS]> = None;
        for (here, &bytes) in goes_on.iter_mut().zip(gradients).rev() {
            for (buffer, _) in buffers.iter().enumerate().filter(|&(_, &of)| of >= bytes) {
                let others = || (0..MAX_BUFFERS).filter(|&other| other != buffer);
                here[buffer] = next.is_none_or(|next| others().any(|other| next[other]));
            }
            next = Some(*here);
        }
        Self { goes_on }
    }

    fn is_possible(&self) -> bool {
        self.goes_on.first().is_none_or(|first| first.contains(&true))
    }

    /// For each gradient the smallest buffer with which the row goes on.
    fn smallest(&self) -> Vec<u32> {
        let mut before = None;
        let choose = |goes_on: &[bool; MAX_BUFFERS]| {
            let mut free = (0..MAX_BUFFERS).rev().filter(|&buffer| goes_on[buffer] && before != Some(buffer));
            let chosen = free.next().expect("two buffers of the largest size always do");
            before = Some(chosen);
            chosen as u32
        };
        self.goes_on.iter().map(choose).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fewest(gradients: &[u64]) -> Vec<u64> {
        gradient_buffer_bytes(gradients, UnreducedGradients::Two)
    }

    /// Whether neighbours find different buffers that are large enough, by trying every assignment.
    fn is_possible(gradients: &[u64], buffers: &[u64], before: Option<usize>) -> bool {
        let Some((&first, rest)) = gradients.split_first() else { return true };
        (0..buffers.len()).any(|buffer| {
            Some(buffer) != before && buffers[buffer] >= first && is_possible(rest, buffers, Some(buffer))
        })
    }

    /// The fewest bytes of any three buffers.
    fn fewest_of_any(gradients: &[u64], sizes: &[u64]) -> u64 {
        let choices = sizes.iter().flat_map(|&a| {
            sizes.iter().flat_map(move |&b| sizes.iter().chain(&[0]).map(move |&c| [a, b, c]))
        });
        let possible = choices.filter(|buffers| is_possible(gradients, buffers, None));
        possible.map(|buffers| buffers.iter().sum()).min().unwrap()
    }

    /// All rows of up to 6 gradients of 4 sizes.
    #[test]
    fn no_three_buffers_are_smaller() {
        let sizes = [1, 2, 5, 6];
        for len in 2..=6u32 {
            for number in 0..4usize.pow(len) {
                let gradients: Vec<u64> = (0..len).map(|n| sizes[number / 4usize.pow(n) % 4]).collect();
                let buffers = fewest(&gradients);
                assert!(buffers.is_sorted_by(|a, b| a >= b) && is_possible(&gradients, &buffers, None));
                assert_eq!(
                    buffers.iter().sum::<u64>(),
                    fewest_of_any(&gradients, &sizes),
                    "{gradients:?}: {buffers:?}"
                );
            }
        }
    }

    #[test]
    fn a_large_unit_among_an_even_number_of_small_ones_needs_a_third_buffer() {
        let step = |units: &[u64]| units.repeat(4);
        assert_eq!(fewest(&step(&[38, 7, 7])), [38, 7, 7]);
        assert_eq!(fewest(&step(&[38, 7, 7, 7])), [38, 7]);
        assert_eq!(fewest(&step(&[12, 10, 10])), [12, 12]);
        assert_eq!(fewest(&step(&[38])), [38, 38]);
        assert_eq!(fewest(&[38]), [38]);
        assert_eq!(fewest(&[0, 0]), [0, 0]);
        assert!(fewest(&[]).is_empty());
    }

    /// No gradient waits longer than with two buffers in turn, and buffers are taken as the bytes say.
    #[test]
    fn a_buffer_is_taken_again_after_one_gradient_at_least() {
        for units in [&[38, 7, 7][..], &[38, 7, 7, 7], &[5], &[5, 5, 5], &[2, 38, 7, 7, 30]] {
            let gradients = units.repeat(5);
            let bytes = fewest(&gradients);
            let chosen = Assignment::new(&gradients, &bytes).smallest();
            for (n, (&buffer, &gradient)) in chosen.iter().zip(&gradients).enumerate() {
                assert!(bytes[buffer as usize] >= gradient);
                assert!(n == 0 || chosen[n - 1] != buffer);
            }
        }
    }

    #[test]
    fn one_buffer_is_as_large_as_the_largest_gradient() {
        let one = |gradients: &[u64]| gradient_buffer_bytes(gradients, UnreducedGradients::One);
        assert_eq!(one(&[7, 38, 7]), [38]);
        assert_eq!(one(&[7]), [7]);
        assert!(one(&[]).is_empty());
    }
}
