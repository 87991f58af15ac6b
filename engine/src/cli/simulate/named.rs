//! A schedule by its name and its sizes.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use pipezero_schedule::ComputeOrder;
use pipezero_schedule::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};

use super::SimulateError;
use super::program_size::ProgramSize;

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

    /// What ends in `.csv` is a file.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.ends_with(".csv") {
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

    /// What the size of its program follows from.
    pub(super) fn program_size(&self) -> ProgramSize {
        let stages_per_rank = match self.generator {
            Generator::Interleaved | Generator::Bfs => self.virtual_stages.unwrap_or(1),
            Generator::ZbV => 2,
            Generator::GPipe
            | Generator::OneFOneB
            | Generator::EagerOneFOneB
            | Generator::ZbH1
            | Generator::ZbH2 => 1,
        };
        ProgramSize {
            num_ranks: self.ranks,
            stages_per_rank,
            is_v_shaped: self.generator == Generator::ZbV,
            splits_backwards: self.generator.splits_backwards(),
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
        self.program_size().check(m, self.micro_batches)?;
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
