//! What a schedule needs to know of a unit: where it is, how large it is, and when its weights are read.

use crate::id::Stage;

/// Whether a unit's weight is shared between the embedding and the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tying {
    /// The unit's weights are its own.
    #[default]
    Untied,
    /// The unit is the embedding's use of the tied weight.
    Embedding,
    /// The unit is the head's use of the tied weight.
    Head,
}

/// What becomes of a unit where weights are sharded over the data ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum UnitSharding {
    /// Weights, gradients and optimizer state are sharded; weights are gathered for use.
    #[default]
    Sharded,
    /// Weights stay gathered all step and are gathered once after it, as DeepSpeed's persistent parameters. Gradients and optimizer
    /// state are sharded like those of any unit.
    Persistent,
    /// As under ZeRO-1: weights are whole, gradients accumulate whole and are reduced once, and only the optimizer's state is
    /// sharded.
    Whole,
    /// Weights of several kinds, each held and reduced as the kind says. What is gathered for uses is the sharded part, of
    /// [`UnitFacts::num_bytes`], which may be nothing. Gradients of the sharded and the persistent part are reduced together.
    Mixed {
        /// Bytes of the persistent part, padding included.
        persistent_bytes: u64,
        /// Bytes of the part that is whole as under ZeRO-1, padding included.
        whole_bytes: u64,
    },
}

/// What a schedule needs to know of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitFacts {
    /// The stage that the unit belongs to.
    pub stage: Stage,
    /// Bytes of the gathered unit, of its sharded weights alone where they are of several kinds, padding included: what a gather buffer must have.
    pub num_bytes: u64,
    /// Whether the forward reads weights; if not, it needs no gather.
    pub forward_reads_weights: bool,
    /// Whether `B` and `I` read weights (an embedding's do not); `W` never does.
    pub backward_reads_weights: bool,
    /// Whether the unit's weight is used a second time.
    pub tying: Tying,
    /// What becomes of it where weights are sharded; not read elsewhere.
    pub sharding: UnitSharding,
    /// Whether the backward recomputes what the forward would have saved (activation checkpointing,
    /// arXiv:1604.06174).
    pub recomputes: bool,
    /// Of [`Self::num_bytes`], those of weights that are not trained while others of the unit are: they are gathered with the others, and have no
    /// gradient. Frozen weights that are whole need no instruction, and are not counted.
    pub frozen_bytes: u64,
    /// Whether none of its weights is trained. Its `B` is then its input gradient alone, or nothing in front of all that is trained, and its `W` does
    /// nothing; it has no reduction, no optimizer step and no gather after the step. Both uses of a tied weight are alike.
    pub is_frozen: bool,
}

impl UnitFacts {
    /// A unit whose forward and backward read weights of its own, which is sharded, trained and not recomputed.
    ///
    /// Other units are written as `UnitFacts { recomputes: true, ..UnitFacts::new(stage, num_bytes) }`.
    pub const fn new(stage: Stage, num_bytes: u64) -> Self {
        Self {
            stage,
            num_bytes,
            forward_reads_weights: true,
            backward_reads_weights: true,
            tying: Tying::Untied,
            sharding: UnitSharding::Sharded,
            recomputes: false,
            frozen_bytes: 0,
            is_frozen: false,
        }
    }

    /// Whether all its weights are whole all step although others are sharded.
    pub fn stays_whole(&self) -> bool {
        match self.sharding {
            UnitSharding::Sharded => false,
            UnitSharding::Persistent | UnitSharding::Whole => true,
            UnitSharding::Mixed { .. } => self.num_bytes == 0,
        }
    }

    /// Bytes of weights that are whole as under ZeRO-1 where others are sharded.
    pub fn whole_bytes(&self) -> u64 {
        match self.sharding {
            UnitSharding::Sharded | UnitSharding::Persistent => 0,
            UnitSharding::Whole => self.num_bytes,
            UnitSharding::Mixed { whole_bytes, .. } => whole_bytes,
        }
    }

    /// Bytes of all its weights that are trained, where any is.
    pub fn trained_bytes(&self) -> u64 {
        let trained = self.num_bytes.saturating_sub(self.frozen_bytes);
        match self.sharding {
            UnitSharding::Sharded | UnitSharding::Persistent | UnitSharding::Whole => trained,
            UnitSharding::Mixed { persistent_bytes, whole_bytes } => {
                trained.saturating_add(persistent_bytes).saturating_add(whole_bytes)
            }
        }
    }

    /// Whether some of its weights are whole all step although others are sharded.
    pub fn keeps_whole(&self) -> bool {
        self.sharding != UnitSharding::Sharded
    }

    /// Whether some instruction reads weights that have to be gathered for it.
    pub fn is_gathered(&self) -> bool {
        !self.stays_whole() && (self.forward_reads_weights || self.backward_reads_weights)
    }
}
