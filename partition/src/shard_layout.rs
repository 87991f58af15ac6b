//! How a unit's flat buffer is cut into shards.

use std::ops::Range;

use crate::flat::shard_elements;

/// The cut of one unit's flat buffer over the data ranks: equal, contiguous shards over a padded length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLayout {
    shard_len: usize,
    num_shards: usize,
}

impl ShardLayout {
    /// The cut of `num_elements` into `num_shards` shards.
    pub fn new(num_elements: usize, num_shards: usize) -> Self {
        let shard_len = shard_elements(num_elements as u64, num_shards as u64) as usize;
        Self { shard_len, num_shards }
    }

    /// Elements of the flat buffer with padding.
    pub fn padded_len(self) -> usize {
        self.shard_len * self.num_shards
    }

    /// Elements of one shard.
    pub fn shard_len(self) -> usize {
        self.shard_len
    }

    /// The part of the flat buffer that a data rank owns.
    pub fn shard(self, data_rank: usize) -> Range<usize> {
        data_rank * self.shard_len..(data_rank + 1) * self.shard_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::ALIGNMENT_ELEMENTS;

    const SHARD_ALIGNMENT: usize = ALIGNMENT_ELEMENTS as usize;

    #[test]
    fn shards_are_equal_aligned_and_cover_every_element_once() {
        for num_elements in 0..200 {
            for num_shards in 1..7 {
                let layout = ShardLayout::new(num_elements, num_shards);
                assert!(layout.padded_len() >= num_elements);
                assert!(layout.padded_len() < num_elements + num_shards * SHARD_ALIGNMENT);
                let mut end = 0;
                for data_rank in 0..num_shards {
                    let shard = layout.shard(data_rank);
                    assert_eq!((shard.start, shard.len()), (end, layout.shard_len()));
                    assert!(shard.start.is_multiple_of(SHARD_ALIGNMENT));
                    end = shard.end;
                }
                assert_eq!(end, layout.padded_len());
            }
        }
    }
}
