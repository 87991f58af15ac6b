//! The numbers of a program, each its own type, so that no stage is taken for a rank.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The letter that comes before the number in the text form.
            pub const PREFIX: char = $prefix;

            /// The number as a position in a list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", Self::PREFIX, self.0)
            }
        }
    };
}

id!(
    /// A rank's place along the pipeline axis. Every data rank of a pipeline rank runs the same instructions.
    PipelineRank,
    'p'
);
impl PipelineRank {
    /// The instruction at a position of this rank's row.
    pub fn at(self, index: usize) -> InstructionId {
        InstructionId { rank: self, index }
    }
}

/// Which instruction of a program: the same on every data rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionId {
    /// The rank in whose row it stands.
    pub rank: PipelineRank,
    /// Its position there, from 0.
    pub index: usize,
}

id!(
    /// A pipeline stage, counted from the tokens; placed on a pipeline rank.
    Stage,
    's'
);
id!(
    /// An FSDP unit, counted over the whole model from the tokens: what is gathered at once. Never straddles a stage.
    Unit,
    'u'
);
id!(
    /// A micro-batch of a step.
    MicroBatch,
    'm'
);
