//! `pipezero simulate --schedule`: a schedule by itself, from the times of a rank.

use clap::ValueEnum;
use pipezero_schedule::generate::{bfs, eager_1f1b, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v};
use pipezero_schedule::simulate::{RankTimes, Study, study_long};
use pipezero_schedule::{ComputeOrder, render};
use serde_json::json;

use super::SimulateError;
use super::picture::Format;
use super::program_size::ProgramSize;
use crate::cli::decimal::Decimal;
use crate::cli::table::Table;
use crate::cli::units::percent;

/// Forwards of a step that is drawn at most; of a longer one hardly anything would fit.
const MAX_DRAWN: u128 = 1 << 16;

/// The arguments of a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleRequest {
    pub(super) schedule: Schedule,
    pub(super) ranks: u32,
    pub(super) micro_batches: u32,
    pub(super) virtual_stages: Option<u32>,
    pub(super) group_size: Option<u32>,
    pub(super) forward: Decimal,
    pub(super) backward_input: Decimal,
    pub(super) backward_weight: Decimal,
    pub(super) latency: Decimal,
    pub(super) width: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Schedule {
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

impl Schedule {
    /// Whether the halves of a backward are work of their own, each with its time, rather than one backward of both.
    fn splits_backwards(self) -> bool {
        match self {
            Self::ZbH1 | Self::ZbH2 | Self::ZbV => true,
            Self::GPipe | Self::OneFOneB | Self::EagerOneFOneB | Self::Interleaved | Self::Bfs => false,
        }
    }
}

/// Plays the schedule and says what came out.
pub(super) fn run(request: &ScheduleRequest, format: Format) -> Result<String, SimulateError> {
    request.check_times()?;
    let times = [request.forward, request.backward_input, request.backward_weight, request.latency];
    let num_behind = times.iter().map(|time| time.num_behind()).max().unwrap_or(0);
    let [forward, backward_input, backward_weight, latency] = times.map(|time| time.in_parts(num_behind));
    let times = RankTimes { forward, backward_input, backward_weight, latency };
    let study = study_long(|micro_batches| request.order(micro_batches), request.micro_batches, times)?;
    // Parts of a part of the unit; divided once, at the end.
    let per_unit = study.parts as f64 * 10f64.powi(num_behind as i32);
    match format {
        Format::Json => Ok(format!("{:#}\n", as_json(&study, per_unit))),
        Format::Text => Ok(as_text(&study, per_unit, &request.drawn()?)),
        Format::Svg => Err(SimulateError::OnlyOfRun { flag: "--format svg" }),
        Format::Chrome => Err(SimulateError::OnlyOfRun { flag: "--format chrome" }),
    }
}

impl ScheduleRequest {
    /// Work takes time: what takes none is a key that was forgotten, and its schedule one that nobody runs. A message may
    /// take none, as over an ideal link; so may one half of a backward that runs as one.
    fn check_times(&self) -> Result<(), SimulateError> {
        let is_none = |time: Decimal, flag| if time.is_zero() { Some(flag) } else { None };
        let input = is_none(self.backward_input, "--backward-input");
        let weight = is_none(self.backward_weight, "--backward-weight");
        let flag = is_none(self.forward, "--forward");
        let flag = flag.or(if self.schedule.splits_backwards() { input.or(weight) } else { None });
        if let Some(flag) = flag {
            return Err(SimulateError::NoTime { flag });
        }
        if input.is_some() && weight.is_some() { Err(SimulateError::NoBackward) } else { Ok(()) }
    }

    fn program_size(&self) -> ProgramSize {
        let stages_per_rank = match self.schedule {
            Schedule::Interleaved | Schedule::Bfs => self.virtual_stages.unwrap_or(1),
            Schedule::ZbV => 2,
            Schedule::GPipe
            | Schedule::OneFOneB
            | Schedule::EagerOneFOneB
            | Schedule::ZbH1
            | Schedule::ZbH2 => 1,
        };
        ProgramSize {
            num_ranks: self.ranks,
            stages_per_rank,
            is_v_shaped: self.schedule == Schedule::ZbV,
            splits_backwards: self.schedule.splits_backwards(),
        }
    }

    /// The grid, where it is not too long.
    fn drawn(&self) -> Result<String, SimulateError> {
        if self.program_size().num_forwards(self.micro_batches) > MAX_DRAWN {
            return Ok("left out, it is too long\n".to_owned());
        }
        Ok(render::order(&self.order(self.micro_batches)?, self.width))
    }

    /// The order of a step of so many micro-batches, those asked for or fewer.
    fn order(&self, micro_batches: u32) -> Result<ComputeOrder, SimulateError> {
        let (p, m) = (self.ranks, micro_batches);
        let fixed = |expected| match self.virtual_stages {
            Some(found) if found != expected => Err(SimulateError::VirtualStages { found, expected }),
            _ => Ok(()),
        };
        let several = || self.virtual_stages.ok_or(SimulateError::NoVirtualStages);
        if let Some(size) = self.group_size.filter(|_| self.schedule != Schedule::Interleaved) {
            return Err(SimulateError::GroupSize(size));
        }
        self.program_size().check(m, self.micro_batches)?;
        Ok(match self.schedule {
            Schedule::GPipe => fixed(1).and(Ok(gpipe(p, m)?))?,
            Schedule::OneFOneB => fixed(1).and(Ok(one_f_one_b(p, m)?))?,
            Schedule::EagerOneFOneB => fixed(1).and(Ok(eager_1f1b(p, m)?))?,
            Schedule::Interleaved => interleaved(p, several()?, m, self.group_size.unwrap_or(p))?,
            Schedule::Bfs => bfs(p, several()?, m)?,
            Schedule::ZbH1 => fixed(1).and(Ok(zb_h1(p, m)?))?,
            Schedule::ZbH2 => fixed(1).and(Ok(zb_h2(p, m)?))?,
            Schedule::ZbV => fixed(2).and(Ok(zb_v(p, m)?))?,
        })
    }
}

fn as_json(study: &Study, per_unit: f64) -> serde_json::Value {
    let in_flight = |&of: &u64| of as f64 / study.parts as f64;
    json!({
        "makespan": study.makespan as f64 / per_unit,
        "longest_rank_span": study.longest_rank_span as f64 / per_unit,
        "ideal": study.ideal as f64 / per_unit,
        "bubble_rate": study.bubble_rate(),
        "bubble_rate_longest_rank": study.bubble_rate_longest_rank(),
        "peak_in_flight": study.peak_in_flight.iter().map(in_flight).collect::<Vec<_>>(),
    })
}

fn as_text(study: &Study, per_unit: f64, drawn: &str) -> String {
    let mut times = Table::new(["", "time", "bubble"]);
    let time = |of: u64| format!("{}", of as f64 / per_unit);
    times.row(["a rank's computes".to_owned(), time(study.ideal)]);
    times.row(["all ranks".to_owned(), time(study.makespan), percent(study.bubble_rate())]);
    times.row([
        "the longest rank alone".to_owned(),
        time(study.longest_rank_span),
        percent(study.bubble_rate_longest_rank()),
    ]);
    let in_flight = study.peak_in_flight.iter().map(|&of| format!("{}", of as f64 / study.parts as f64));
    let in_flight = in_flight.collect::<Vec<_>>().join(", ");
    format!(
        "{times}\nmicro-batches in flight at most, by rank, until their input gradient: {in_flight}\n\norder of work (F, I and W one column, B two):\n{drawn}"
    )
}
