//! Why a run cannot be planned.

use pipezero_config::{Checkpointing, Refusal};
use pipezero_models::ModelError;
use pipezero_partition::{BalanceError, GraphError, SplitError, UnitError};
use pipezero_schedule::generate::SizeError;
use pipezero_schedule::{LowerError, Violation};

use super::auto_recomputation::KeptNeed;
use super::unmatched_names::UNMATCHED_REPAIR;
use super::zero_2_ranks::Zero2Ranks;
use crate::{Bytes, UnmatchedNames};

/// An error of the plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The model cannot be built.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its layers are no chain.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// It cannot be split as asked.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A layer that runs on the host alone, in a run on GPUs.
    #[error(
        "layer {layer} runs on the host alone, and the run computes on GPUs; write \"device\": \"cpu\", or the layer over the queue's kernels"
    )]
    HostOnly {
        /// Its name.
        layer: String,
    },
    /// `resident_units` is 0.
    #[error(
        "`zero_optimization.resident_units` is 0: the unit in use is resident, so write 1 or more, or \"strict\""
    )]
    NoResidentUnit,
    /// A partition by type has a pattern that splits nothing.
    #[error("`parallel.partition` is \"type:{pattern}\", but {fault}; {}", fault.repair())]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        fault: PatternFault,
    },
    /// Entries of `zero_optimization.parameters` cannot be followed.
    #[error("`zero_optimization.parameters` has {}, but {_0}; {UNMATCHED_REPAIR}", _0.listed())]
    ShardingRules(Box<UnmatchedNames>),
    /// Patterns of `init.new` cannot be followed.
    #[error("`init.new` has {}, but {_0}; {UNMATCHED_REPAIR}", _0.listed())]
    NewParameters(Box<UnmatchedNames>),
    /// Patterns of `train_only` cannot be followed.
    #[error("`train_only` has {}, but {_0}; {UNMATCHED_REPAIR}", _0.listed())]
    TrainOnly(Box<UnmatchedNames>),
    /// What `train_only` matches has no parameters.
    #[error("`train_only` is [{patterns}], but {NOTHING_TRAINED_RULE}; {NOTHING_TRAINED_REPAIR}")]
    NothingTrained {
        /// Its patterns, in quotes.
        patterns: String,
    },
    /// What the plan would shard differently has one name, or names that differ in case alone.
    #[error(
        "`zero_optimization.sharding` is \"auto\", but no list of names can tell {name} from layers that are to be sharded differently (case \
         does not count); give each layer a name of its own"
    )]
    SameNames {
        /// The name.
        name: String,
    },
    /// ZeRO-3 with ranks that do what ZeRO-2 does, in a pipeline.
    #[error("{_0}; {}", _0.repair())]
    Zero2Ranks(Box<Zero2Ranks>),
    /// ZeRO-3 where one unit holds everything on a rank of a pipeline.
    #[error("{0}")]
    LoneUnit(Box<Refusal>),
    /// The user's own order is for another grid or batch.
    #[error(
        "`parallel.schedule`: the order has {} ranks and {} micro-batches, the run {} and {}; write an order for the run",
        found[0], found[1], wanted[0], wanted[1]
    )]
    ScheduleOfAnotherRun {
        /// Ranks and micro-batches of the order.
        found: [usize; 2],
        /// Those of the run.
        wanted: [usize; 2],
    },
    /// It cannot be balanced as asked.
    #[error(transparent)]
    Balance(BalanceError),
    /// No split fits `memory`.
    #[error(
        "no split into {} stages{} fits `memory`, which gives each rank {}: the nearest has {nearest:?} layers, and the rank of \
         stage {stage} is estimated to need {}",
        nearest.len(),
        if *is_proven { "" } else { " that was tried" },
        Bytes(*limit_bytes).distinct(Bytes(*needs_bytes))[0],
        Bytes(*needs_bytes).distinct(Bytes(*limit_bytes))[0]
    )]
    StageMemory {
        /// The largest stage of the fullest rank in the nearest split.
        stage: usize,
        /// What that rank needs: with so much, the nearest split fits.
        needs_bytes: u64,
        /// What each rank has.
        limit_bytes: u64,
        /// Transformer layers of each stage in the split that comes nearest.
        nearest: Vec<usize>,
        /// Whether no split fits; with several stages per rank the search may end before it has seen all.
        is_proven: bool,
    },
    /// Units cannot be cut as asked.
    #[error(transparent)]
    Units(#[from] UnitError),
    /// `resident_units` is to follow from the memory, which is not given.
    #[error(
        "`zero_optimization.resident_units` is \"auto\", which needs the memory of a rank; write `memory`"
    )]
    NoMemoryGiven,
    /// A rank needs more than `memory` gives it.
    #[error(
        "rank {rank} (stage {stage}) needs {}, but `memory` gives each rank {}",
        Bytes(*needs_bytes).distinct(Bytes(*limit_bytes))[0],
        Bytes(*limit_bytes).distinct(Bytes(*needs_bytes))[0]
    )]
    RankMemory {
        /// The world rank with the largest peak.
        rank: usize,
        /// Its first stage.
        stage: usize,
        /// Its peak.
        needs_bytes: u64,
        /// What each rank has.
        limit_bytes: u64,
    },
    /// A rank needs more than `memory` gives it, however much the plan recomputes.
    #[error("{error}{}", even_recomputed(*recomputed, *kept))]
    EvenRecomputed {
        /// Which rank or stage, with what comes nearest.
        error: Box<Self>,
        /// What is recomputed then.
        recomputed: Checkpointing,
        /// What a rank would need if blocks recomputed nothing.
        kept: KeptNeed,
    },
    /// The run's sequences are longer than the model's.
    #[error(
        "sequences of {seq_length} tokens, but the model knows {longest} positions; shorten the sequences"
    )]
    SequenceLength {
        /// T of the run.
        seq_length: usize,
        /// T of the model.
        longest: usize,
    },
    /// A step has more instructions than are planned.
    #[error(
        "a step of {num_micro_batches} micro-batches has about {found} instructions, but at most {max} are planned{limited}: use fewer \
         micro-batches (about {fitting} fit), each larger, or larger units (`zero_optimization.unit_layers`)"
    )]
    StepTooLong {
        /// Instructions of all pipeline ranks.
        found: u64,
        /// The most that are planned.
        max: u64,
        /// Of which runs that is true; empty for all.
        limited: &'static str,
        /// Micro-batches of the step.
        num_micro_batches: usize,
        /// The number of them that fits, if each has as many instructions.
        fitting: usize,
    },
    /// The schedule cannot be generated.
    #[error(transparent)]
    Generate(#[from] SizeError),
    /// The schedule cannot be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The program breaks a rule; for a generated schedule that is a mistake of ours.
    #[error(transparent)]
    Violation(#[from] Box<Violation>),
}

/// What is wrong with the pattern of a partition by type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternFault {
    /// It is not a regular expression.
    #[error("{0}")]
    Syntax(String),
    /// It matches no layer.
    #[error(
        "the pattern matches none of the model's {num_layers} layers, which are {}, {} to {}", names[0], names[1], names[2]
    )]
    NoLayerMatches {
        /// Layers of the model.
        num_layers: usize,
        /// The names of the first layer, the second and the last.
        names: [String; 3],
    },
}

impl PatternFault {
    /// What to do about it.
    pub(super) fn repair(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "write a regular expression, or use \"balanced\"",
            Self::NoLayerMatches { .. } => "match at least one, or use \"balanced\"",
        }
    }
}

/// What recomputation changes where a rank needs too much even so.
fn even_recomputed(recomputed: Checkpointing, kept: KeptNeed) -> String {
    match recomputed.recomputed_together() {
        None => ", and recomputing activations does not lower that".to_owned(),
        Some(together) => format!(
            " even with the activations of {together} recomputed, the least that \"auto\" comes to; with {} a rank would need {}",
            kept.kept(),
            Bytes(kept.rank_bytes)
        ),
    }
}

/// What is wrong with patterns of `train_only` that match layers without parameters alone.
pub(super) const NOTHING_TRAINED_RULE: &str =
    "it matches only layers without parameters, so nothing would be trained";

/// What to do about it.
pub(super) const NOTHING_TRAINED_REPAIR: &str = "match a layer that has parameters";

impl PlanError {
    /// What a rank needs and has, where it needs more memory than it has.
    pub(super) fn lacking_memory(&self) -> Option<LackingMemory> {
        match *self {
            Self::StageMemory { needs_bytes, limit_bytes, .. } => {
                Some(LackingMemory { needs_bytes, limit_bytes, is_estimate: true })
            }
            Self::RankMemory { needs_bytes, limit_bytes, .. } => {
                Some(LackingMemory { needs_bytes, limit_bytes, is_estimate: false })
            }
            Self::EvenRecomputed { ref error, .. } => error.lacking_memory(),
            _ => None,
        }
    }

    /// The same, with what "auto" recomputes to come nearest.
    pub(super) fn even_recomputed(self, recomputed: Checkpointing, kept: KeptNeed) -> Self {
        match self.lacking_memory() {
            Some(_) => Self::EvenRecomputed { error: Box::new(self), recomputed, kept },
            None => self,
        }
    }
}

/// A rank needs more than it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LackingMemory {
    pub(super) needs_bytes: u64,
    pub(super) limit_bytes: u64,
    /// Whether there is no program yet that the need could be read off.
    pub(super) is_estimate: bool,
}

impl From<BalanceError> for PlanError {
    fn from(error: BalanceError) -> Self {
        match error {
            BalanceError::Infeasible { stage, needs_bytes, limit_bytes, nearest, is_proven } => {
                Self::StageMemory { stage, needs_bytes, limit_bytes, nearest, is_proven }
            }
            other => Self::Balance(other),
        }
    }
}
