//! `pipezero simulate --schedule`: a schedule by itself, from the times of a rank.

use std::borrow::Cow;
use std::path::PathBuf;

use pipezero_schedule::ComputeOrder;
use pipezero_schedule::render::{self, Gantt, Shown, TimeScale, explain};
use pipezero_schedule::simulate::{
    CriticalPath, PlayedOrder, RankTimes, Study, critical_path, study, study_long,
};
use serde_json::{Value, json};

use super::SimulateError;
use super::named::NamedSchedule;
use super::order_file;
use super::path::path_json;
use super::picture::Format;
use super::program_size::ProgramSize;
use super::result_file;
use super::step::Explain;
use crate::cli::decimal::Decimal;
use crate::cli::table::Table;
use crate::cli::units::percent;

/// Forwards of a step that is drawn or explained at most; of a longer one hardly anything would fit.
pub(super) const MAX_SHOWN: u128 = 1 << 16;

/// A schedule by itself, as it was asked for.
#[derive(Clone, Debug)]
pub(super) enum ScheduleSource {
    /// A generator's.
    Named(NamedSchedule),
    /// An order of one's own.
    File(PathBuf),
}

/// The arguments of a schedule.
#[derive(Clone, Debug)]
pub(super) struct ScheduleRequest {
    pub(super) source: ScheduleSource,
    pub(super) forward: Decimal,
    pub(super) backward_input: Decimal,
    pub(super) backward_weight: Decimal,
    pub(super) latency: Decimal,
    pub(super) explain: Explain,
    pub(super) width: usize,
}

/// Plays the schedule and says what came out.
pub(super) fn run(request: &ScheduleRequest, format: Format) -> Result<String, SimulateError> {
    let schedule = Schedule::of(&request.source)?;
    request.check_times(&schedule)?;
    let times = [request.forward, request.backward_input, request.backward_weight, request.latency];
    let num_behind = times.iter().map(|time| time.num_behind()).max().unwrap_or(0);
    let [forward, backward_input, backward_weight, latency] = times.map(|time| time.in_parts(num_behind));
    let times = RankTimes { forward, backward_input, backward_weight, latency };
    let found =
        Found { study: schedule.study(times)?, schedule, times, parts_per_time: 10u64.pow(num_behind) };
    match format {
        Format::Json => found.as_json(request.explain).map(result_file::json),
        Format::Text => found.as_text(request),
        Format::Svg => found.as_picture(),
        Format::Chrome => Err(SimulateError::NoUnit),
    }
}

impl ScheduleRequest {
    /// Work takes time: what takes none is a key that was forgotten, and its schedule one that nobody runs. A message may
    /// take none, as over an ideal link; so may one half of a backward that runs as one.
    fn check_times(&self, schedule: &Schedule) -> Result<(), SimulateError> {
        let is_none = |time: Decimal, flag| if time.is_zero() { Some(flag) } else { None };
        let input = is_none(self.backward_input, "--backward-input");
        let weight = is_none(self.backward_weight, "--backward-weight");
        let flag = is_none(self.forward, "--forward");
        let flag = flag.or(if schedule.splits_backwards() { input.or(weight) } else { None });
        if let Some(flag) = flag {
            return Err(SimulateError::NoTime { flag });
        }
        if input.is_some() && weight.is_some() { Err(SimulateError::NoBackward) } else { Ok(()) }
    }
}

/// A schedule that can be played.
enum Schedule {
    /// Of any length: a long step is told by shorter ones.
    Named(NamedSchedule),
    /// Of the one length that it has, and the name of its file.
    Read(ComputeOrder, String),
}

impl Schedule {
    fn of(source: &ScheduleSource) -> Result<Self, SimulateError> {
        Ok(match source {
            ScheduleSource::Named(named) => Self::Named(*named),
            ScheduleSource::File(path) => Self::Read(order_file::read(path)?, path.display().to_string()),
        })
    }

    fn splits_backwards(&self) -> bool {
        match self {
            Self::Named(named) => named.splits_backwards(),
            Self::Read(order, _) => order.first_half().is_some(),
        }
    }

    fn study(&self, times: RankTimes) -> Result<Study, SimulateError> {
        match self {
            Self::Named(named) => study_long(|of| named.order(of), named.micro_batches, times),
            Self::Read(order, _) => Ok(study(order, times)?),
        }
    }

    fn program_size(&self) -> ProgramSize {
        match self {
            Self::Named(named) => named.program_size(named.micro_batches),
            Self::Read(order, _) => ProgramSize::of_order(order),
        }
    }

    /// The order of the whole step, where that is not too long to be shown.
    fn shown(&self) -> Result<Cow<'_, ComputeOrder>, SimulateError> {
        let num_forwards = self.program_size().num_forwards();
        if num_forwards > MAX_SHOWN {
            return Err(SimulateError::TooLongToShow { num_forwards });
        }
        match self {
            Self::Named(named) => named.order(named.micro_batches).map(Cow::Owned),
            Self::Read(order, _) => Ok(Cow::Borrowed(order)),
        }
    }

    /// What stands above its picture.
    fn title(&self) -> String {
        match self {
            Self::Named(named) => {
                let NamedSchedule { ranks, micro_batches, .. } = named;
                format!("{}, p = {ranks}, m = {micro_batches}", named.name())
            }
            Self::Read(_, file) => file.clone(),
        }
    }
}

/// What came out, and of what.
struct Found {
    schedule: Schedule,
    times: RankTimes,
    study: Study,
    /// Parts, as `times` has them, that make one of the unit in which times were given.
    parts_per_time: u64,
}

impl Found {
    /// How times are written.
    fn scale(&self) -> TimeScale {
        TimeScale::parts(self.study.parts * self.parts_per_time)
    }

    /// A time in the unit that times were given in; divided once, at the end.
    fn time(&self, of: u64) -> f64 {
        of as f64 / (self.study.parts as f64 * self.parts_per_time as f64)
    }

    fn in_flight(&self) -> Vec<f64> {
        self.study.peak_in_flight.iter().map(|&of| of as f64 / self.study.parts as f64).collect()
    }

    /// The whole step, where it can be shown.
    fn played(&self) -> Result<PlayedOrder, SimulateError> {
        let order = self.schedule.shown()?;
        Ok(PlayedOrder::new(&order, self.times)?)
    }

    fn as_json(&self, explain: Explain) -> Result<Value, SimulateError> {
        let study = &self.study;
        let mut found = json!({
            "makespan": self.time(study.makespan),
            "longest_rank_span": self.time(study.longest_rank_span),
            "ideal": self.time(study.ideal),
            "bubble_rate": study.bubble_rate(),
            "bubble_rate_longest_rank": study.bubble_rate_longest_rank(),
            "peak_in_flight": self.in_flight(),
        });
        if explain == Explain::CriticalPath {
            let played = self.played()?;
            found["critical_path"] = path_json(&played.program, &path_of(&played), "", |of| self.time(of));
        }
        Ok(found)
    }

    fn as_text(&self, request: &ScheduleRequest) -> Result<String, SimulateError> {
        let study = &self.study;
        let time = |of| format!("{}", self.time(of));
        let mut times = Table::new(["", "time", "bubble"]);
        times.row(["a rank's computes".to_owned(), time(study.ideal)]);
        times.row(["all ranks".to_owned(), time(study.makespan), percent(study.bubble_rate())]);
        times.row([
            "the longest rank alone".to_owned(),
            time(study.longest_rank_span),
            percent(study.bubble_rate_longest_rank()),
        ]);
        let in_flight: Vec<String> = self.in_flight().iter().map(ToString::to_string).collect();
        let shown = match self.schedule.shown() {
            // The path of such a step is not told either, which is an error for who asks for it.
            Err(SimulateError::TooLongToShow { .. }) if request.explain == Explain::Nothing => None,
            order => Some(order?),
        };
        let drawn = shown.as_ref().map_or_else(
            || "left out, it is too long\n".to_owned(),
            |order| render::order(order, request.width),
        );
        let mut text = format!(
            "{times}\nmicro-batches in flight at most, by rank, until their input gradient: {}\n\n\
             order of work (F, I and W one column, B two):\n{drawn}",
            in_flight.join(", ")
        );
        if let Some(order) = shown.filter(|_| request.explain == Explain::CriticalPath) {
            let played = PlayedOrder::new(&order, self.times)?;
            text += &format!("\n{}", explain(&played.program, &path_of(&played), self.scale()));
        }
        Ok(text)
    }

    fn as_picture(&self) -> Result<String, SimulateError> {
        let played = self.played()?;
        let title = format!("{}: {} bubble", self.schedule.title(), percent(self.study.bubble_rate()));
        Ok(result_file::svg(&Gantt {
            title: &title,
            program: &played.program,
            timeline: &played.timeline,
            memory: &[],
            scale: self.scale(),
            shown: Shown::MicroBatches,
        }))
    }
}

fn path_of(played: &PlayedOrder) -> CriticalPath {
    critical_path(&played.program, &played.costs, &played.timeline)
}
