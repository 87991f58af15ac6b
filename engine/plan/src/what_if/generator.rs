//! Generators by name, and the schedule that one makes of given sizes.

use pipezero_schedule::ComputeOrder;
use pipezero_schedule::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};

use super::lone_schedule_error::LoneScheduleError;
use super::program_size::{ProgramSize, SizeLimits, TooMany};

/// A generator of schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// `gpipe`
    GPipe,
    /// `1f1b`
    OneFOneB,
    /// `eager-1f1b`
    EagerOneFOneB,
    /// `interleaved`, v >= 2.
    Interleaved,
    /// `bfs`, v >= 2.
    Bfs,
    /// `zb-h1`
    ZbH1,
    /// `zb-h2`
    ZbH2,
    /// `zb-v`, v = 2.
    ZbV,
}

impl Generator {
    /// All generators with their names in a run file, in the order in which they are listed.
    pub const ALL: [(Self, &str); 8] = [
        (Self::GPipe, "gpipe"),
        (Self::OneFOneB, "1f1b"),
        (Self::EagerOneFOneB, "eager-1f1b"),
        (Self::Interleaved, "interleaved"),
        (Self::Bfs, "bfs"),
        (Self::ZbH1, "zb-h1"),
        (Self::ZbH2, "zb-h2"),
        (Self::ZbV, "zb-v"),
    ];

    /// Its name, as in a run file.
    fn name(self) -> &'static str {
        let named = Self::ALL.into_iter().find(|(generator, _)| *generator == self);
        named.expect("all generators are listed").1
    }

    /// Whether it runs the two halves of a backward apart, each with its own time.
    pub fn splits_backwards(self) -> bool {
        matches!(self, Self::ZbH1 | Self::ZbH2 | Self::ZbV)
    }

    /// Stages on each rank; `None` if they are chosen.
    fn fixed_virtual_stages(self) -> Option<u32> {
        match self {
            Self::Interleaved | Self::Bfs => None,
            Self::ZbV => Some(2),
            _ => Some(1),
        }
    }
}

/// A generator and the sizes of its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratedSchedule {
    /// The generator.
    pub generator: Generator,
    /// Pipeline ranks.
    pub ranks: u32,
    /// Micro-batches of a step.
    pub micro_batches: u32,
    /// Stages on each rank; needed by `interleaved` and `bfs`, fixed for the others.
    pub virtual_stages: Option<u32>,
    /// Micro-batches of a group of `interleaved`; `None`: as many as there are ranks.
    pub group_size: Option<u32>,
}

impl GeneratedSchedule {
    /// The generator's name, and the size of its groups if one was chosen.
    pub fn name(&self) -> String {
        let name = self.generator.name();
        self.group_size.map_or_else(|| name.to_owned(), |size| format!("{name} in groups of {size}"))
    }

    /// The size of the program of a step of so many micro-batches, known before the program is made.
    pub(super) fn program_size(&self, micro_batches: u32) -> ProgramSize {
        let (num_ranks, num_micro_batches) = (u128::from(self.ranks), u128::from(micro_batches));
        let num_stages = num_ranks * u128::from(self.stages_per_rank());
        // The last rank of a V has two neighbouring stages.
        let within_ranks = match (self.ranks, self.generator) {
            (0 | 1, _) => num_stages.saturating_sub(1),
            (_, Generator::ZbV) => 1,
            _ => 0,
        };
        let computes = if self.generator.splits_backwards() { 3 } else { 2 };
        ProgramSize {
            num_ranks,
            num_stages,
            num_edges: num_stages.saturating_sub(1 + within_ranks),
            num_micro_batches,
            num_computes: computes * num_stages * num_micro_batches,
        }
    }

    /// The order of a step of so many micro-batches, at most those of the schedule.
    ///
    /// # Errors
    /// [`LoneScheduleError`] if the generator does not make a schedule of these sizes, or it is too large to be simulated.
    pub fn order(&self, micro_batches: u32) -> Result<ComputeOrder, LoneScheduleError> {
        if let Some(size) = self.group_size.filter(|_| self.generator != Generator::Interleaved) {
            return Err(LoneScheduleError::GroupSize(size));
        }
        let v = match (self.generator.fixed_virtual_stages(), self.virtual_stages) {
            (Some(expected), Some(found)) if found != expected => {
                return Err(LoneScheduleError::VirtualStages { found, expected });
            }
            (fixed, chosen) => fixed.or(chosen).ok_or(LoneScheduleError::NoVirtualStages)?,
        };
        self.check_size(micro_batches, SizeLimits::SIMULATED)?;
        let (p, m) = (self.ranks, micro_batches);
        Ok(match self.generator {
            Generator::GPipe => gpipe(p, m)?,
            Generator::OneFOneB => one_f_one_b(p, m)?,
            Generator::EagerOneFOneB => eager_1f1b(p, m)?,
            Generator::Interleaved => interleaved(p, v, m, self.group_size.unwrap_or(p))?,
            Generator::Bfs => bfs(p, v, m)?,
            Generator::ZbH1 => zb_h1(p, m)?,
            Generator::ZbH2 => zb_h2(p, m)?,
            Generator::ZbV => zb_v(p, m)?,
        })
    }

    /// Whether the program of so many micro-batches, at most those of the schedule, can be simulated.
    fn check_size(&self, micro_batches: u32, limits: SizeLimits) -> Result<(), LoneScheduleError> {
        self.program_size(micro_batches).check(limits).map_err(|too_many| match too_many {
            TooMany::Stages { found, .. } => LoneScheduleError::TooManyStages {
                num_ranks: self.ranks,
                stages_per_rank: self.stages_per_rank(),
                num_stages: found,
            },
            TooMany::Instructions { fitting, .. } => LoneScheduleError::TooLarge {
                micro_batches: self.micro_batches,
                num_instructions: self.program_size(self.micro_batches).num_instructions(),
                fitting,
            },
        })
    }

    fn stages_per_rank(&self) -> u32 {
        self.generator.fixed_virtual_stages().or(self.virtual_stages).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(
        generator: Generator,
        ranks: u32,
        micro_batches: u32,
        virtual_stages: Option<u32>,
    ) -> GeneratedSchedule {
        GeneratedSchedule { generator, ranks, micro_batches, virtual_stages, group_size: None }
    }

    /// The size from the formula is that of the order; the order's own count is tested against its program.
    #[test]
    fn the_size_of_a_schedule_is_that_of_its_order() {
        for (generator, _) in Generator::ALL {
            let virtual_stages = match generator {
                Generator::Interleaved | Generator::Bfs => 2..5,
                _ => 1..2,
            };
            for (ranks, micro_batches) in (1..6).flat_map(|ranks| (1..8).map(move |of| (ranks, of))) {
                for virtual_stages in virtual_stages.clone() {
                    let virtual_stages = (virtual_stages > 1).then_some(virtual_stages);
                    let schedule = schedule(generator, ranks, micro_batches, virtual_stages);
                    let order = schedule.order(micro_batches).unwrap();
                    let size = schedule.program_size(micro_batches);
                    assert_eq!(size, ProgramSize::of_order(&order), "{schedule:?}");
                    assert_eq!(generator.splits_backwards(), order.first_half().is_some(), "{schedule:?}");
                }
            }
        }
    }

    /// The number that an error names fits, and one more does not.
    #[test]
    fn the_named_number_of_micro_batches_is_the_largest_that_fits() {
        for schedule in [
            schedule(Generator::ZbH1, 4000, 1000, None),
            schedule(Generator::Bfs, 64, u32::MAX, Some(8)),
            schedule(Generator::ZbV, 2048, 900, None),
            schedule(Generator::OneFOneB, 1, u32::MAX, None),
        ] {
            let limits = SizeLimits::SIMULATED;
            let Err(LoneScheduleError::TooLarge { fitting, .. }) =
                schedule.check_size(schedule.micro_batches, limits)
            else {
                panic!("{schedule:?}")
            };
            let fitting = u32::try_from(fitting).unwrap();
            assert!(schedule.check_size(fitting, limits).is_ok(), "{schedule:?}");
            assert!(schedule.check_size(fitting + 1, limits).is_err(), "{schedule:?}");
        }
    }

    /// The size is computed without overflow for sizes that the generators refuse.
    #[test]
    fn sizes_that_no_schedule_has_are_errors() {
        for (generator, _) in Generator::ALL {
            for (ranks, micro_batches) in [(0, 0), (0, 1), (1, 0), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
                for virtual_stages in [None, Some(0), Some(1), Some(u32::MAX)] {
                    let schedule = schedule(generator, ranks, micro_batches, virtual_stages);
                    assert!(schedule.order(micro_batches).is_err(), "{schedule:?}");
                }
            }
        }
    }
}
