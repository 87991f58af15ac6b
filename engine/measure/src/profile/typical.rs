//! Which of some recorded steps or rounds are typical.

/// The middle half of some steps by what they took, none of fewer than four left out; of rounds of a probe likewise.
///
/// A machine now and then does something else; the steps that it hits say nothing of the run. Of the steps that remain,
/// means are taken, not medians: what a step takes is a *sum* of what its instructions take, and only means add up to it.
/// The median of delays that are mostly short and sometimes long (a thread that is woken late) is well below their mean.
pub(super) fn typical<T>(mut steps: Vec<T>, took_ns: impl Fn(&T) -> u64) -> Vec<T> {
    steps.sort_by_cached_key(took_ns);
    let num_left_out = steps.len() / 4;
    steps.drain(steps.len() - num_left_out..);
    steps.drain(..num_left_out);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_and_the_slowest_quarter_are_left_out() {
        let kept = |steps: &[u64]| typical(steps.to_vec(), |&step_ns| step_ns);
        assert_eq!(kept(&[7]), [7]);
        assert_eq!(kept(&[9, 7, 8]), [7, 8, 9]);
        assert_eq!(kept(&[900, 7, 8, 1]), [7, 8]);
        assert_eq!(kept(&[5, 4, 3, 2, 1, 10, 9, 8, 7, 6]), [3, 4, 5, 6, 7, 8]);
    }
}
