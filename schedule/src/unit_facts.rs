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

/// What a schedule needs to know of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnitFacts {
    /// The stage that the unit belongs to.
    pub stage: Stage,
    /// Bytes of the gathered unit, padding included: what a gather buffer must have.
    pub num_bytes: u64,
    /// Whether the forward reads weights; if not, it needs no gather.
    pub forward_reads_weights: bool,
    /// Whether `B` and `I` read weights (an embedding's do not); `W` never does.
    pub backward_reads_weights: bool,
    /// Whether the unit's weight is used a second time.
    pub tying: Tying,
    /// Whether sharded weights stay gathered all step and are gathered once after it, as DeepSpeed's persistent
    /// parameters. Gradients and optimizer state are sharded like those of any unit.
    pub is_persistent: bool,
    /// Whether the backward recomputes what the forward would have saved (activation checkpointing,
    /// arXiv:1604.06174).
    pub recomputes: bool,
}

impl UnitFacts {
    /// A unit whose forward and backward read weights of its own, which is neither persistent nor recomputed.
    ///
    /// Other units are written as `UnitFacts { recomputes: true, ..UnitFacts::new(stage, num_bytes) }`.
    pub const fn new(stage: Stage, num_bytes: u64) -> Self {
        Self {
            stage,
            num_bytes,
            forward_reads_weights: true,
            backward_reads_weights: true,
            tying: Tying::Untied,
            is_persistent: false,
            recomputes: false,
        }
    }

    /// Whether some instruction reads weights that have to be gathered for it.
    pub fn is_gathered(&self) -> bool {
        !self.is_persistent && (self.forward_reads_weights || self.backward_reads_weights)
    }
}
