//! How large the program of a schedule by itself is, before any of it is made: memory and time are in proportion.

use super::SimulateError;

/// Stages of a pipeline that is played at most; time grows with their square, even of one micro-batch.
pub(super) const MAX_STAGES: u128 = 1 << 12;

/// Instructions of a program that is played at most: some 90 bytes each, and a search for a steady state has two programs.
/// Longer steps are told by shorter ones.
pub(super) const MAX_INSTRUCTIONS: u128 = 1 << 24;

/// What the number of instructions follows from, beside micro-batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramSize {
    pub(super) num_ranks: u32,
    pub(super) stages_per_rank: u32,
    /// The last rank has two neighbouring stages, between which nothing is sent.
    pub(super) is_v_shaped: bool,
    /// Input and weight gradients are two instructions.
    pub(super) splits_backwards: bool,
}

impl ProgramSize {
    /// Forwards of all stages.
    pub(super) fn num_forwards(self, micro_batches: u32) -> u128 {
        self.num_stages() * u128::from(micro_batches)
    }

    /// Whether a step of `micro_batches` can be made, in order to tell one of `asked_for`.
    pub(super) fn check(self, micro_batches: u32, asked_for: u32) -> Result<(), SimulateError> {
        if self.num_stages() > MAX_STAGES {
            let Self { num_ranks, stages_per_rank, .. } = self;
            return Err(SimulateError::TooManyStages { num_ranks, stages_per_rank });
        }
        if self.num_instructions(micro_batches) <= MAX_INSTRUCTIONS {
            return Ok(());
        }
        let fitting = (MAX_INSTRUCTIONS - self.at_the_end()) / self.per_micro_batch();
        let num_instructions = self.num_instructions(asked_for);
        Err(SimulateError::TooLarge { micro_batches: asked_for, num_instructions, fitting })
    }

    /// Instructions of all ranks.
    fn num_instructions(self, micro_batches: u32) -> u128 {
        self.per_micro_batch() * u128::from(micro_batches) + self.at_the_end()
    }

    fn num_stages(self) -> u128 {
        u128::from(self.num_ranks) * u128::from(self.stages_per_rank)
    }

    /// The computes of every stage and, of each edge between ranks, an activation and a gradient, both sent and received.
    fn per_micro_batch(self) -> u128 {
        let computes = if self.splits_backwards { 3 } else { 2 };
        let edges = match self.num_ranks {
            0 | 1 => 0,
            _ => self.num_stages() - 1 - u128::from(self.is_v_shaped),
        };
        computes * self.num_stages() + 4 * edges
    }

    /// Reduction and update of every stage's unit, and the norm on every rank.
    fn at_the_end(self) -> u128 {
        2 * self.num_stages() + u128::from(self.num_ranks)
    }
}

#[cfg(test)]
mod tests {
    use pipezero_schedule::generate::{bfs, gpipe, interleaved, zb_h1, zb_v};
    use pipezero_schedule::lower::lower;
    use pipezero_schedule::{ComputeOrder, LowerOptions, Stage, UnitFacts};

    use super::*;

    /// Instructions of the program that is played.
    fn made(order: &ComputeOrder) -> u128 {
        let stages = (0..order.placement.num_stages() as u32).map(Stage);
        let units: Vec<UnitFacts> = stages.map(|stage| UnitFacts::new(stage, 0)).collect();
        let program = lower(order, &units, &LowerOptions::ZERO_0).unwrap();
        program.rows.iter().map(|row| row.len() as u128).sum()
    }

    #[test]
    fn a_program_has_as_many_instructions_as_are_counted() {
        for num_ranks in 1..6 {
            for m in 1..8 {
                let plain = ProgramSize {
                    num_ranks,
                    stages_per_rank: 1,
                    is_v_shaped: false,
                    splits_backwards: false,
                };
                assert_eq!(made(&gpipe(num_ranks, m).unwrap()), plain.num_instructions(m));
                let split = ProgramSize { splits_backwards: true, ..plain };
                assert_eq!(made(&zb_h1(num_ranks, m).unwrap()), split.num_instructions(m));
                let v_shaped = ProgramSize { stages_per_rank: 2, is_v_shaped: true, ..split };
                assert_eq!(made(&zb_v(num_ranks, m).unwrap()), v_shaped.num_instructions(m));
                for v in 2..5 {
                    let looped = ProgramSize { stages_per_rank: v, ..plain };
                    let order = interleaved(num_ranks, v, m, num_ranks).unwrap();
                    assert_eq!(made(&order), looped.num_instructions(m));
                    assert_eq!(made(&bfs(num_ranks, v, m).unwrap()), looped.num_instructions(m));
                }
            }
        }
    }

    /// What is said to fit does, and one more does not.
    #[test]
    fn what_is_said_to_fit_is_the_most_that_does() {
        for (num_ranks, stages_per_rank, m) in
            [(4000, 1, 1000), (64, 8, u32::MAX), (1, 1, u32::MAX), (2, 2048, 900)]
        {
            let size = ProgramSize { num_ranks, stages_per_rank, is_v_shaped: false, splits_backwards: true };
            let Err(SimulateError::TooLarge { fitting, .. }) = size.check(m, m) else { panic!("{size:?}") };
            let fitting = u32::try_from(fitting).unwrap();
            assert!(size.check(fitting, m).is_ok() && size.check(fitting + 1, m).is_err(), "{size:?}");
        }
    }

    #[test]
    fn stages_are_bounded_by_themselves() {
        let of = |num_ranks, stages_per_rank| {
            ProgramSize { num_ranks, stages_per_rank, is_v_shaped: false, splits_backwards: true }.check(1, 1)
        };
        assert!(of(4096, 1).is_ok() && of(2048, 2).is_ok());
        for (num_ranks, stages_per_rank) in [(4097, 1), (2, 2049), (u32::MAX, u32::MAX)] {
            assert!(matches!(of(num_ranks, stages_per_rank), Err(SimulateError::TooManyStages { .. })));
        }
    }
}
