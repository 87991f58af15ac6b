//! The bytes that a rank reads of weights, and the memory that this takes, counted while it reads.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::shard::{PartStore, Weights};

/// The bytes that a rank has read of weights, and the memory that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadWeights {
    /// Bytes of the files that were read.
    pub(crate) read_bytes: u64,
    /// The rank's parameters between uses, in the type of the run.
    pub(crate) parameter_bytes: u64,
    /// The f32 master copy of what the rank owns.
    pub(crate) master_bytes: u64,
    /// The most memory of the host that one piece takes while it is read: its bytes in the file, and its values in f32. Memory for rounding is counted in the
    /// ledger of scratch memory.
    pub(crate) piece_bytes: u64,
}

impl ReadWeights {
    /// Nothing is read yet. The rank has these parts.
    pub(super) fn by_rank_with<'a>(parts: impl Iterator<Item = &'a PartStore>) -> Self {
        let mut read = Self::default();
        for part in parts {
            read.parameter_bytes += match &part.weights {
                Weights::Replicated(whole) => whole.get().num_bytes(),
                Weights::Sharded(shard) => shard.num_bytes(),
                Weights::CastFromMaster | Weights::Tied => 0,
            };
            read.master_bytes += part.master.as_ref().map_or(0, |master| master.num_bytes());
        }
        read
    }

    /// The most bytes that are held at one time.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.parameter_bytes + self.master_bytes + self.piece_bytes
    }

    /// Counts a piece of so many f32 values, of which `read_bytes` were read.
    pub(super) fn count(&mut self, num_values: usize, read_bytes: u64) {
        self.read_bytes += read_bytes;
        self.piece_bytes = self.piece_bytes.max(size_of::<f32>() as u64 * num_values as u64 + read_bytes);
    }
}

/// Of ranks of one process, which read at the same time.
impl AddAssign for ReadWeights {
    fn add_assign(&mut self, other: Self) {
        self.read_bytes += other.read_bytes;
        self.parameter_bytes += other.parameter_bytes;
        self.master_bytes += other.master_bytes;
        self.piece_bytes += other.piece_bytes;
    }
}
