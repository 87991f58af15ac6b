//! Groups of micro-batches: how many a rank runs through one of its stages before it turns to the next.

use alloc::vec::Vec;
use core::ops::Range;

/// The micro-batches of a step in groups of `group_size`, in order.
///
/// A remainder shorter than the pipeline joins the last group: as a group of its own it would be through a stage
/// before its first micro-batch came back to the rank, which stalls every turn and, under the classic warm-up,
/// deadlocks. A step shorter than a group is one group.
pub(super) fn groups(num_micro_batches: u32, group_size: u32, num_ranks: u32) -> Vec<Range<u32>> {
    let mut num_groups = num_micro_batches / group_size;
    if num_groups == 0 || num_micro_batches % group_size >= num_ranks {
        num_groups += 1;
    }
    let end = |group: u32| if group == num_groups { num_micro_batches } else { group * group_size };
    (0..num_groups).map(|group| group * group_size..end(group + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remainder_shorter_than_the_pipeline_joins_the_last_group() {
        assert_eq!(groups(8, 4, 4), vec![0..4, 4..8]);
        assert_eq!(groups(11, 4, 4), vec![0..4, 4..11]);
        assert_eq!(groups(10, 6, 4), vec![0..6, 6..10]);
        assert_eq!(groups(9, 6, 4), vec![0..9]);
        assert_eq!(groups(3, 4, 4), vec![0..3]);
    }
}
