//! What ZeRO does to a program: which weights are gathered when, and when gradients are reduced.

use alloc::sync::Arc;
use core::fmt;
use core::num::NonZeroU32;

use crate::id::PipelineRank;
use crate::unit_facts::UnitFacts;

/// Which gathered units stay.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Residency {
    /// Every use has its own gather and is resharded right after: at most `1 + prefetch_units` copies are held.
    Strict,
    /// Buffers for this many of the largest units of each rank, those in use and prefetched included.
    Units(NonZeroU32),
    /// The same, with a number for each pipeline rank.
    PerRank(Arc<[NonZeroU32]>),
    /// Every unit is gathered once and stays until its last use.
    All,
}

/// Whether weights are whole on every data rank during the step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Weights {
    /// Whole: nothing is gathered during the step.
    Replicated,
    /// Sharded over the data ranks, gathered unit by unit: ZeRO-3, "fully sharded data parallel".
    Sharded {
        /// Which gathered units stay.
        residency: Residency,
        /// How many uses ahead a gather is issued.
        prefetch_units: u32,
    },
}

impl Weights {
    /// The most gathered copies that a rank may hold at once, if `num_gathered_units` of its units are gathered.
    ///
    /// Never more than it has units: all that a second copy of a unit could save is the time of a hidden gather.
    ///
    /// # Panics
    /// If residency is listed per rank and the list has no number for this one.
    pub fn max_copies(&self, rank: PipelineRank, num_gathered_units: usize) -> usize {
        let budget = match self {
            Self::Replicated => 0,
            Self::Sharded { residency: Residency::Strict, prefetch_units } => {
                (*prefetch_units as usize).saturating_add(1)
            }
            Self::Sharded { residency: Residency::Units(units), .. } => units.get() as usize,
            Self::Sharded { residency: Residency::PerRank(units), .. } => units[rank.index()].get() as usize,
            Self::Sharded { residency: Residency::All, .. } => num_gathered_units,
        };
        budget.min(num_gathered_units)
    }
}

/// When and how gradients are summed over the data ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reduction {
    /// Accumulated over the step, all-reduced once: ZeRO-0.
    AllReduceLast,
    /// Accumulated over the step, reduce-scattered once: ZeRO-1.
    ScatterLast,
    /// Reduce-scattered after every micro-batch, accumulated as a shard: ZeRO-2, ZeRO-3.
    ScatterEvery,
}

/// How many gradients that are reduced after every micro-batch a rank holds unreduced at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnreducedGradients {
    /// One: it is reduced before the next one is computed, so reductions do not overlap with weight gradients.
    One,
    /// Two: one is computed while the other is reduced.
    #[default]
    Two,
}

impl UnreducedGradients {
    /// The number.
    pub const fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// What lowering adds to a compute order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LowerOptions {
    /// Whether weights are gathered.
    pub weights: Weights,
    /// When gradients are reduced.
    pub reduction: Reduction,
    /// How many gradients a rank holds unreduced at once; of no effect but under [`Reduction::ScatterEvery`].
    pub unreduced: UnreducedGradients,
    /// Whether each unit's weights are all-gathered after its optimizer step: exactly where every data rank holds all
    /// weights but steps only its part (ZeRO-1, ZeRO-2).
    pub gather_after_step: bool,
}

/// Why options contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// The budget is too small for a unit in use and those prefetched.
    BudgetBelowPrefetch {
        /// Units that may be held.
        units: u32,
        /// How many uses ahead a gather is issued.
        prefetch_units: u32,
    },
    /// The list of budgets has not one for each pipeline rank.
    NumBudgets {
        /// Budgets of the list.
        num_budgets: usize,
        /// Pipeline ranks.
        num_ranks: usize,
    },
    /// Every data rank would keep all gradients of weights of which it owns a part.
    AllReduceOfShardedWeights,
    /// Weights are gathered after the step although every rank updates all of them, or not gathered although each
    /// rank updates a part.
    GatherAfterStep {
        /// Whether it was asked for.
        asked: bool,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetBelowPrefetch { units, prefetch_units } => write!(
                f,
                "{units} resident units with a prefetch of {prefetch_units}: the unit in use and the prefetched ones \
                 count too; hold at least {} or prefetch fewer",
                u64::from(*prefetch_units) + 1
            ),
            Self::NumBudgets { num_budgets, num_ranks } => write!(
                f,
                "a list of {num_budgets} for {num_ranks} pipeline ranks, each of which has its own number of resident units; list {num_ranks}"
            ),
            Self::AllReduceOfShardedWeights => f.write_str(
                "all-reduced gradients with sharded weights: a rank that owns a part of the weights needs that part \
                 of the gradient; scatter it (last or every)",
            ),
            Self::GatherAfterStep { asked: true } => f.write_str(
                "gather after the step: only replicated weights with scattered gradients need it (ZeRO-1, ZeRO-2); \
                 switch it off",
            ),
            Self::GatherAfterStep { asked: false } => f.write_str(
                "no gather after the step: replicated weights with scattered gradients are updated in parts (ZeRO-1, \
                 ZeRO-2); switch it on",
            ),
        }
    }
}

impl core::error::Error for OptionsError {}

impl LowerOptions {
    /// ZeRO-0: weights, gradients and optimizer state on every data rank.
    pub const ZERO_0: Self = Self {
        weights: Weights::Replicated,
        reduction: Reduction::AllReduceLast,
        unreduced: UnreducedGradients::Two,
        gather_after_step: false,
    };

    /// ZeRO-1: the optimizer state sharded.
    pub const ZERO_1: Self =
        Self { reduction: Reduction::ScatterLast, gather_after_step: true, ..Self::ZERO_0 };

    /// ZeRO-2: gradients and optimizer state sharded.
    pub const ZERO_2: Self =
        Self { reduction: Reduction::ScatterEvery, gather_after_step: true, ..Self::ZERO_0 };

    /// ZeRO-3: weights, gradients and optimizer state sharded, reduced after every micro-batch.
    pub const fn zero_3(residency: Residency, prefetch_units: u32) -> Self {
        Self {
            weights: Weights::Sharded { residency, prefetch_units },
            reduction: Reduction::ScatterEvery,
            unreduced: UnreducedGradients::Two,
            gather_after_step: false,
        }
    }

    /// Whether each gradient is reduced before the next one is computed.
    pub fn reduces_in_turn(&self) -> bool {
        self.reduction == Reduction::ScatterEvery && self.unreduced == UnreducedGradients::One
    }

    /// Whether a unit's updated weights are all-gathered after its optimizer step: all units where the options ask
    /// for it, otherwise those of which some stay whole although the others are sharded. A frozen unit's weights are never updated.
    pub fn gathers_after_step(&self, facts: &UnitFacts) -> bool {
        let is_whole = self.gather_after_step || (self.weights != Weights::Replicated && facts.keeps_whole());
        is_whole && !facts.is_frozen
    }

    /// Whether gradients of a unit are summed so: as the options say, but for those of weights that are whole as under ZeRO-1, once. A unit
    /// may have both reductions; a frozen one has none, since it has no gradients.
    pub fn reduces(&self, facts: &UnitFacts, reduction: Reduction) -> bool {
        let is_split = self.reduction == Reduction::ScatterEvery;
        match reduction {
            _ if facts.is_frozen => false,
            Reduction::ScatterEvery => is_split && self.unreduced_bytes(facts) > 0,
            Reduction::ScatterLast if is_split => self.reduced_once(facts) > 0,
            reduction => reduction == self.reduction,
        }
    }

    /// Whether some gradients of a unit accumulate over the step and are summed once.
    pub fn accumulates(&self, facts: &UnitFacts) -> bool {
        let once = [Reduction::ScatterLast, Reduction::AllReduceLast];
        once.into_iter().any(|reduction| self.reduces(facts, reduction))
    }

    /// Bytes of weights of which each micro-batch's gradients are reduced, where they are of any.
    pub fn unreduced_bytes(&self, facts: &UnitFacts) -> u64 {
        facts.trained_bytes().saturating_sub(self.reduced_once(facts))
    }

    /// Bytes of weights whose gradients are reduced once although those of others are reduced after every micro-batch.
    fn reduced_once(&self, facts: &UnitFacts) -> u64 {
        if self.weights == Weights::Replicated { 0 } else { facts.whole_bytes() }
    }

    /// Whether the options are consistent, and of a program for so many pipeline ranks. A program without a backward reduces
    /// and steps nothing, so only the weights matter there.
    pub(crate) fn check(&self, num_ranks: usize, has_backward: bool) -> Result<(), OptionsError> {
        if let Weights::Sharded { residency, prefetch_units } = &self.weights {
            let budgets = match residency {
                Residency::Strict | Residency::All => &[][..],
                Residency::Units(units) => core::slice::from_ref(units),
                Residency::PerRank(units) if units.len() != num_ranks => {
                    return Err(OptionsError::NumBudgets { num_budgets: units.len(), num_ranks });
                }
                Residency::PerRank(units) => units,
            };
            if let Some(units) = budgets.iter().find(|units| units.get() <= *prefetch_units) {
                let (units, prefetch_units) = (units.get(), *prefetch_units);
                return Err(OptionsError::BudgetBelowPrefetch { units, prefetch_units });
            }
        }
        if !has_backward {
            return Ok(());
        }
        let all_reduced = self.reduction == Reduction::AllReduceLast;
        let replicated = self.weights == Weights::Replicated;
        if all_reduced && !replicated {
            return Err(OptionsError::AllReduceOfShardedWeights);
        }
        if self.gather_after_step != (replicated && !all_reduced) {
            return Err(OptionsError::GatherAfterStep { asked: self.gather_after_step });
        }
        Ok(())
    }
}
