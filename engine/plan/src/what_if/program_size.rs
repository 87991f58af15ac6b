//! The size of the program of a schedule without a model, computed before the program is made: memory and time grow with it.

use pipezero_schedule::ComputeOrder;

/// Forwards of a step that is drawn or explained, at most: a longer one is not readable.
pub const MAX_SHOWN_FORWARDS: u128 = 1 << 16;

/// The largest program that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeLimits {
    /// Stages of a pipeline; time grows with their square, even for one micro-batch.
    pub(super) num_stages: u128,
    /// Instructions of all ranks: about 90 bytes each, and the search for a steady state holds two programs. Longer steps are
    /// extrapolated from shorter ones.
    pub(super) num_instructions: u128,
}

impl SizeLimits {
    /// What is simulated within seconds and two gigabytes of memory.
    pub(super) const SIMULATED: Self = Self { num_stages: 1 << 12, num_instructions: 1 << 24 };
}

/// The sizes that determine the number of instructions of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramSize {
    pub(super) num_ranks: u128,
    pub(super) num_stages: u128,
    /// Pairs of neighbouring stages on different ranks; stages on one rank send nothing to each other.
    pub(super) num_edges: u128,
    pub(super) num_micro_batches: u128,
    /// Forwards and backwards, or halves of backwards, of all stages and micro-batches.
    pub(super) num_computes: u128,
}

/// What exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    /// A pipeline that would take too long.
    #[error("it has {found} stages, and at most {max} are simulated; use fewer")]
    Stages {
        /// Stages of all ranks.
        found: u128,
        /// The most that are simulated.
        max: u128,
    },
    /// A program that would not fit into memory.
    #[error(
        "it has {found} instructions, messages included, and at most {max} are simulated; use fewer micro-batches, about \
         {fitting}"
    )]
    Instructions {
        /// Instructions of all ranks.
        found: u128,
        /// The most that are simulated.
        max: u128,
        /// The largest number of micro-batches that fits, if each has as many instructions.
        fitting: u128,
    },
}

impl ProgramSize {
    /// The size of an order's program.
    pub(super) fn of_order(order: &ComputeOrder) -> Self {
        let ranks = order.placement.ranks_by_stage();
        Self {
            num_ranks: order.placement.num_ranks() as u128,
            num_stages: ranks.len() as u128,
            num_edges: ranks.windows(2).filter(|pair| pair[0] != pair[1]).count() as u128,
            num_micro_batches: u128::from(order.num_micro_batches),
            num_computes: order.rows.iter().map(|row| row.len() as u128).sum(),
        }
    }

    /// Forwards of all stages.
    pub(super) fn num_forwards(self) -> u128 {
        self.num_stages * self.num_micro_batches
    }

    /// Whether the step can be simulated.
    pub(super) fn check(self, limits: SizeLimits) -> Result<(), TooMany> {
        if self.num_stages > limits.num_stages {
            return Err(TooMany::Stages { found: self.num_stages, max: limits.num_stages });
        }
        let (found, max) = (self.num_instructions(), limits.num_instructions);
        if found <= max {
            return Ok(());
        }
        let available = max.saturating_sub(self.at_the_end());
        let fitting = available * self.num_micro_batches / self.of_micro_batches().max(1);
        Err(TooMany::Instructions { found, max, fitting })
    }

    /// Instructions of all ranks.
    pub(super) fn num_instructions(self) -> u128 {
        self.of_micro_batches() + self.at_the_end()
    }

    /// The computes and, of each micro-batch over each edge, an activation and a gradient, both sent and received.
    fn of_micro_batches(self) -> u128 {
        self.num_computes + 4 * self.num_edges * self.num_micro_batches
    }

    /// Reduction and update of every stage's unit, and the norm on every rank.
    fn at_the_end(self) -> u128 {
        2 * self.num_stages + self.num_ranks
    }
}

#[cfg(test)]
mod tests {
    use pipezero_schedule::lower::lower;
    use pipezero_schedule::{LowerOptions, Stage, UnitFacts};

    use super::*;

    /// Instructions of the program that is simulated.
    fn made(order: &ComputeOrder) -> u128 {
        let stages = (0..order.placement.num_stages() as u32).map(Stage);
        let units: Vec<UnitFacts> = stages.map(|stage| UnitFacts::new(stage, 0)).collect();
        let program = lower(order, &units, &LowerOptions::ZERO_0).unwrap();
        program.rows.iter().map(|row| row.len() as u128).sum()
    }

    /// Neighbouring stages on one rank, looped and V-shaped placements, and backwards of which some are split.
    #[test]
    fn the_size_of_an_order_is_that_of_its_program() {
        for text in [
            "0F0,0B0",
            "0F0,1F0,2F0,2B0,1B0,0B0",
            "0F0,1F0,1B0,0B0\n2F0,3F0,3B0,2B0",
            "0F0,0F1,3F0,3B0,3F1,3B1,0B0,0B1\n1F0,2F0,2B0,1B0,1F1,2F1,2B1,1B1",
            "0F0,0F1,0B0,0I1,0W1\n1F0,1I0,1F1,1B1,1W0",
        ] {
            let order = ComputeOrder::from_csv(text).unwrap();
            assert_eq!(made(&order), ProgramSize::of_order(&order).num_instructions(), "{text}");
        }
    }

    /// The number that is named fits, and one micro-batch more does not, if all have as many instructions.
    #[test]
    fn the_named_number_of_micro_batches_is_the_largest_that_fits() {
        let limits = SizeLimits { num_stages: 8, num_instructions: 1000 };
        for (num_stages, num_edges, per_micro_batch) in [(1, 0, 2), (4, 3, 12), (8, 6, 24), (8, 0, 16)] {
            let of = |num_micro_batches| ProgramSize {
                num_ranks: 2,
                num_stages,
                num_edges,
                num_micro_batches,
                num_computes: per_micro_batch * num_micro_batches,
            };
            let Err(TooMany::Instructions { found, fitting, .. }) = of(5000).check(limits) else {
                panic!("{num_stages} stages");
            };
            assert_eq!(found, of(5000).num_instructions());
            assert_eq!(of(fitting).check(limits), Ok(()));
            assert!(of(fitting + 1).check(limits).is_err());
        }
    }

    #[test]
    fn the_number_of_stages_has_a_limit_of_its_own() {
        let of = |num_stages| ProgramSize {
            num_ranks: 1,
            num_stages,
            num_edges: 0,
            num_micro_batches: 1,
            num_computes: 2 * num_stages,
        };
        let SizeLimits { num_stages: max, .. } = SizeLimits::SIMULATED;
        assert_eq!(of(max).check(SizeLimits::SIMULATED), Ok(()));
        let expected = TooMany::Stages { found: max + 1, max };
        assert_eq!(of(max + 1).check(SizeLimits::SIMULATED), Err(expected));
    }
}
