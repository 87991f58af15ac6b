//! How large the program of a schedule by itself is, before any of it is made: memory and time are in proportion.

use pipezero_schedule::ComputeOrder;

/// How large a program may be to be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MostPlayed {
    /// Stages of a pipeline; time grows with their square, even of one micro-batch.
    pub(super) num_stages: u128,
    /// Instructions of all ranks: some 90 bytes each, and a search for a steady state has two programs. Longer steps are
    /// told by shorter ones.
    pub(super) num_instructions: u128,
}

impl MostPlayed {
    /// What memory and patience have room for.
    pub(super) const HERE: Self = Self { num_stages: 1 << 12, num_instructions: 1 << 24 };
}

/// What the number of instructions of a step follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProgramSize {
    pub(super) num_ranks: u128,
    pub(super) num_stages: u128,
    /// Pairs of neighbouring stages on two ranks; between two of one rank nothing is sent.
    pub(super) num_edges: u128,
    pub(super) num_micro_batches: u128,
    /// Forwards and backwards, or halves of these, of all stages and micro-batches.
    pub(super) num_computes: u128,
}

/// More than is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMany {
    /// Stages, of which there are so many.
    Stages(u128),
    /// Instructions.
    Instructions {
        /// All that there are.
        num_instructions: u128,
        /// Micro-batches with which they would not be too many, were each as long.
        fitting: u128,
    },
}

impl ProgramSize {
    /// Of an order that is there.
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

    /// Whether the step can be played.
    pub(super) fn check(self, most: MostPlayed) -> Result<(), TooMany> {
        if self.num_stages > most.num_stages {
            return Err(TooMany::Stages(self.num_stages));
        }
        let num_instructions = self.num_instructions();
        if num_instructions <= most.num_instructions {
            return Ok(());
        }
        let room = most.num_instructions.saturating_sub(self.at_the_end());
        let fitting = room * self.num_micro_batches / self.of_micro_batches().max(1);
        Err(TooMany::Instructions { num_instructions, fitting })
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

    /// Instructions of the program that is played.
    fn made(order: &ComputeOrder) -> u128 {
        let stages = (0..order.placement.num_stages() as u32).map(Stage);
        let units: Vec<UnitFacts> = stages.map(|stage| UnitFacts::new(stage, 0)).collect();
        let program = lower(order, &units, &LowerOptions::ZERO_0).unwrap();
        program.rows.iter().map(|row| row.len() as u128).sum()
    }

    /// Stages beside each other on a rank, one after the other and there and back, and backwards of which some are halves.
    #[test]
    fn the_program_of_a_file_has_as_many_instructions_as_are_counted() {
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

    /// What is said to fit does, and one micro-batch more does not, where all of them are as long.
    #[test]
    fn what_is_said_to_fit_is_the_most_that_does() {
        let most = MostPlayed { num_stages: 8, num_instructions: 1000 };
        for (num_stages, num_edges, per_micro_batch) in [(1, 0, 2), (4, 3, 12), (8, 6, 24), (8, 0, 16)] {
            let of = |num_micro_batches| ProgramSize {
                num_ranks: 2,
                num_stages,
                num_edges,
                num_micro_batches,
                num_computes: per_micro_batch * num_micro_batches,
            };
            let Err(TooMany::Instructions { num_instructions, fitting }) = of(5000).check(most) else {
                panic!("{num_stages} stages");
            };
            assert_eq!(num_instructions, of(5000).num_instructions());
            assert_eq!(of(fitting).check(most), Ok(()));
            assert!(of(fitting + 1).check(most).is_err());
        }
    }

    #[test]
    fn stages_are_bounded_by_themselves() {
        let of = |num_stages| ProgramSize {
            num_ranks: 1,
            num_stages,
            num_edges: 0,
            num_micro_batches: 1,
            num_computes: 2 * num_stages,
        };
        let MostPlayed { num_stages, .. } = MostPlayed::HERE;
        assert_eq!(of(num_stages).check(MostPlayed::HERE), Ok(()));
        assert_eq!(of(num_stages + 1).check(MostPlayed::HERE), Err(TooMany::Stages(num_stages + 1)));
    }
}
