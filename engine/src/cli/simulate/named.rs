//! A schedule by its name and its sizes.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::ValueEnum;
use pipezero_schedule::ComputeOrder;
use pipezero_schedule::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};

use super::SimulateError;
use super::program_size::{MostPlayed, ProgramSize, TooMany};

/// A generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Generator {
    #[value(name = "gpipe")]
    GPipe,
    #[value(name = "1f1b")]
    OneFOneB,
    #[value(name = "eager-1f1b")]
    EagerOneFOneB,
    Interleaved,
    Bfs,
    ZbH1,
    ZbH2,
    ZbV,
}

impl Generator {
    /// Whether the halves of a backward are work of their own, each with its time, rather than one backward of both.
    fn splits_backwards(self) -> bool {
        match self {
            Self::ZbH1 | Self::ZbH2 | Self::ZbV => true,
            Self::GPipe | Self::OneFOneB | Self::EagerOneFOneB | Self::Interleaved | Self::Bfs => false,
        }
    }
}

/// What `--schedule` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScheduleName {
    Generator(Generator),
    /// An order of one's own.
    File(PathBuf),
}

impl FromStr for ScheduleName {
    type Err = String;

    /// What ends in `.csv`, in letters of either size, is a file.
    fn from_str(text: &str) -> Result<Self, String> {
        if Path::new(text).extension().is_some_and(|of| of.eq_ignore_ascii_case("csv")) {
            return Ok(Self::File(text.into()));
        }
        <Generator as ValueEnum>::from_str(text, false).map(Self::Generator).map_err(|_| {
            let names = Generator::value_variants().iter().filter_map(Generator::to_possible_value);
            let names: Vec<_> = names.map(|name| name.get_name().to_owned()).collect();
            format!("schedules are {}; an order of one's own is a file, named *.csv", names.join(", "))
        })
    }
}

/// A generator, and what it is given.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedSchedule {
    pub(super) generator: Generator,
    pub(super) ranks: u32,
    pub(super) micro_batches: u32,
    pub(super) virtual_stages: Option<u32>,
    pub(super) group_size: Option<u32>,
}

impl NamedSchedule {
    /// The generator's name, and its group size where one was given.
    pub(super) fn name(&self) -> String {
        let name =
            self.generator.to_possible_value().map(|name| name.get_name().to_owned()).unwrap_or_default();
        self.group_size.map_or(name.clone(), |size| format!("{name} in groups of {size}"))
    }

    /// Whether the halves of a backward are work of their own.
    pub(super) fn splits_backwards(&self) -> bool {
        self.generator.splits_backwards()
    }

    /// What the size of the program of so many micro-batches follows from, which is told before any of it is made.
    pub(super) fn program_size(&self, micro_batches: u32) -> ProgramSize {
        let (num_ranks, num_micro_batches) = (u128::from(self.ranks), u128::from(micro_batches));
        let num_stages = num_ranks * u128::from(self.stages_per_rank());
        // The last rank of a V has two neighbouring stages.
        let within_ranks = match (self.ranks, self.generator) {
            (0 | 1, _) => num_stages.saturating_sub(1),
            (_, Generator::ZbV) => 1,
            _ => 0,
        };
        let computes = if self.splits_backwards() { 3 } else { 2 };
        ProgramSize {
            num_ranks,
            num_stages,
            num_edges: num_stages.saturating_sub(1 + within_ranks),
            num_micro_batches,
            num_computes: computes * num_stages * num_micro_batches,
        }
    }

    /// Whether the program of so many micro-batches, those asked for or fewer, can be played.
    fn check(&self, micro_batches: u32, most: MostPlayed) -> Result<(), SimulateError> {
        self.program_size(micro_batches).check(most).map_err(|too_many| match too_many {
            TooMany::Stages(num_stages) => SimulateError::TooManyStages {
                num_ranks: self.ranks,
                stages_per_rank: self.stages_per_rank(),
                num_stages,
            },
            TooMany::Instructions { fitting, .. } => SimulateError::TooLarge {
                micro_batches: self.micro_batches,
                num_instructions: self.program_size(self.micro_batches).num_instructions(),
                fitting,
            },
        })
    }

    fn stages_per_rank(&self) -> u32 {
        match self.generator {
            Generator::Interleaved | Generator::Bfs => self.virtual_stages.unwrap_or(1),
            Generator::ZbV => 2,
            Generator::GPipe
            | Generator::OneFOneB
            | Generator::EagerOneFOneB
            | Generator::ZbH1
            | Generator::ZbH2 => 1,
        }
    }

    /// The order of a step of so many micro-batches, those asked for or fewer.
    pub(super) fn order(&self, micro_batches: u32) -> Result<ComputeOrder, SimulateError> {
        let (p, m) = (self.ranks, micro_batches);
        let fixed = |expected| match self.virtual_stages {
            Some(found) if found != expected => Err(SimulateError::VirtualStages { found, expected }),
            _ => Ok(()),
        };
        let several = || self.virtual_stages.ok_or(SimulateError::NoVirtualStages);
        if let Some(size) = self.group_size.filter(|_| self.generator != Generator::Interleaved) {
            return Err(SimulateError::GroupSize(size));
        }
        self.check(m, MostPlayed::HERE)?;
        Ok(match self.generator {
            Generator::GPipe => fixed(1).and(Ok(gpipe(p, m)?))?,
            Generator::OneFOneB => fixed(1).and(Ok(one_f_one_b(p, m)?))?,
            Generator::EagerOneFOneB => fixed(1).and(Ok(eager_1f1b(p, m)?))?,
            Generator::Interleaved => interleaved(p, several()?, m, self.group_size.unwrap_or(p))?,
            Generator::Bfs => bfs(p, several()?, m)?,
            Generator::ZbH1 => fixed(1).and(Ok(zb_h1(p, m)?))?,
            Generator::ZbH2 => fixed(1).and(Ok(zb_h2(p, m)?))?,
            Generator::ZbV => fixed(2).and(Ok(zb_v(p, m)?))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula is of the order that the generator makes, whose own count is held against the program that is played.
    #[test]
    fn a_schedule_is_as_large_as_the_order_that_it_makes() {
        for &generator in Generator::value_variants() {
            let virtual_stages = match generator {
                Generator::Interleaved | Generator::Bfs => 2..5,
                _ => 1..2,
            };
            for (ranks, micro_batches) in (1..6).flat_map(|ranks| (1..8).map(move |of| (ranks, of))) {
                for virtual_stages in virtual_stages.clone() {
                    let virtual_stages = (virtual_stages > 1).then_some(virtual_stages);
                    let named =
                        NamedSchedule { generator, ranks, micro_batches, virtual_stages, group_size: None };
                    let order = named.order(micro_batches).unwrap();
                    let size = named.program_size(micro_batches);
                    assert_eq!(size, ProgramSize::of_order(&order), "{named:?}");
                    assert_eq!(named.splits_backwards(), order.first_half().is_some(), "{named:?}");
                }
            }
        }
    }

    /// What is said to fit does, and one more does not.
    #[test]
    fn what_is_said_to_fit_is_the_most_that_does() {
        let of = |generator, ranks, micro_batches, virtual_stages| NamedSchedule {
            generator,
            ranks,
            micro_batches,
            virtual_stages,
            group_size: None,
        };
        for named in [
            of(Generator::ZbH1, 4000, 1000, None),
            of(Generator::Bfs, 64, u32::MAX, Some(8)),
            of(Generator::ZbV, 2048, 900, None),
            of(Generator::OneFOneB, 1, u32::MAX, None),
        ] {
            let most = MostPlayed::HERE;
            let Err(SimulateError::TooLarge { fitting, .. }) = named.check(named.micro_batches, most) else {
                panic!("{named:?}")
            };
            let fitting = u32::try_from(fitting).unwrap();
            assert!(named.check(fitting, most).is_ok(), "{named:?}");
            assert!(named.check(fitting + 1, most).is_err(), "{named:?}");
        }
    }

    /// Sizes that the generators refuse are counted all the same, whatever they are.
    #[test]
    fn no_size_is_too_odd_to_be_counted() {
        for &generator in Generator::value_variants() {
            for (ranks, micro_batches) in [(0, 0), (0, 1), (1, 0), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
                for virtual_stages in [None, Some(0), Some(1), Some(u32::MAX)] {
                    let named =
                        NamedSchedule { generator, ranks, micro_batches, virtual_stages, group_size: None };
                    assert!(named.order(micro_batches).is_err(), "{named:?}");
                }
            }
        }
    }
}
