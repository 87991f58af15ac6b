//! `pipezero simulate --schedule`: a schedule without a model, from the times of a rank.

use std::path::PathBuf;

use pipezero_plan::what_if::{GeneratedSchedule, LoneSchedule, LoneScheduleError};
use pipezero_schedule::render::{self, Gantt, Shown, TimeScale, explain};
use pipezero_schedule::simulate::{CriticalPath, PlayedOrder, RankTimes, Study, critical_path};
use serde_json::{Value, json};

use super::critical_path::critical_path_json;
use super::error::SimulateError;
use super::output::{Format, Output};
use super::result_file;
use crate::decimal::Decimal;
use crate::figures::percent;
use crate::table::Table;

/// The schedule that the arguments name.
#[derive(Clone, Debug)]
pub(super) enum ScheduleSource {
    Generated(GeneratedSchedule),
    File(PathBuf),
}

/// A schedule and its times.
#[derive(Clone, Debug)]
pub(super) struct ScheduleRequest {
    pub(super) schedule: ScheduleSource,
    pub(super) forward: Decimal,
    pub(super) backward_input: Decimal,
    pub(super) backward_weight: Decimal,
    pub(super) latency: Decimal,
    pub(super) output: Output,
}

/// Simulates the schedule, and prints the result into a text.
pub(super) fn run(request: &ScheduleRequest) -> Result<String, SimulateError> {
    let schedule = match &request.schedule {
        ScheduleSource::Generated(schedule) => LoneSchedule::Generated(*schedule),
        ScheduleSource::File(path) => LoneSchedule::read(path)?,
    };
    let times = [request.forward, request.backward_input, request.backward_weight, request.latency];
    let num_behind = times.iter().map(|time| time.num_behind()).max().unwrap_or(0);
    let [forward, backward_input, backward_weight, latency] = times.map(|time| time.in_parts(num_behind));
    let times = RankTimes { forward, backward_input, backward_weight, latency };
    let study = schedule.simulate(times)?;
    let simulated = Simulated { schedule, times, study, parts_per_time: 10u64.pow(num_behind) };
    Ok(match request.output.format {
        Format::Json => result_file::json(simulated.as_json(request.output)?),
        Format::Text => simulated.as_text(request.output)?,
        Format::Svg => simulated.as_picture()?,
        Format::Chrome => return Err(SimulateError::NoUnit),
    })
}

/// A simulated schedule.
struct Simulated {
    schedule: LoneSchedule,
    times: RankTimes,
    study: Study,
    /// Parts, the unit of `times`, in the unit of the arguments.
    parts_per_time: u64,
}

impl Simulated {
    /// The unit in which times are written.
    fn scale(&self) -> TimeScale {
        TimeScale::parts(self.study.parts * self.parts_per_time)
    }

    /// A time in the unit of the arguments; divided once, at the end.
    fn time(&self, of: u64) -> f64 {
        of as f64 / (self.study.parts as f64 * self.parts_per_time as f64)
    }

    fn in_flight(&self) -> Vec<f64> {
        self.study.peak_in_flight.iter().map(|&of| of as f64 / self.study.parts as f64).collect()
    }

    fn as_json(&self, output: Output) -> Result<Value, LoneScheduleError> {
        let study = &self.study;
        let mut json = json!({
            "makespan": self.time(study.makespan),
            "longest_rank_span": self.time(study.longest_rank_span),
            "ideal": self.time(study.ideal),
            "bubble_rate": study.bubble_rate(),
            "bubble_rate_longest_rank": study.bubble_rate_longest_rank(),
            "peak_in_flight": self.in_flight(),
        });
        if output.explain {
            let step = self.schedule.simulate_to_show(self.times)?;
            json["critical_path"] =
                critical_path_json(&step.program, &path_of(&step), "", |time| self.time(time));
        }
        Ok(json)
    }

    fn as_text(&self, output: Output) -> Result<String, LoneScheduleError> {
        let study = &self.study;
        let time = |of| format!("{}", self.time(of));
        let mut times = Table::new(["", "time", "bubble"]);
        times.row("a rank's computes", [time(study.ideal)]);
        times.row("all ranks", [time(study.makespan), percent(study.bubble_rate())]);
        let longest = [time(study.longest_rank_span), percent(study.bubble_rate_longest_rank())];
        times.row("the longest rank alone", longest);
        let in_flight: Vec<String> = self.in_flight().iter().map(ToString::to_string).collect();
        let drawn = match self.schedule.order_to_show() {
            // With --explain it is an error, since the critical path would be missing too.
            Err(LoneScheduleError::TooLongToShow { .. }) if !output.explain => {
                "left out, it is too long\n".to_owned()
            }
            order => render::order(&*order?, output.width),
        };
        let mut text = format!(
            "{times:width$}\nmicro-batches in flight at most, by rank, until their input gradient: {}\n\n\
             order of work (F, I and W one column, B two):\n{drawn}",
            in_flight.join(", "),
            width = output.width
        );
        if output.explain {
            let step = self.schedule.simulate_to_show(self.times)?;
            text += &format!("\n{}", explain(&step.program, &path_of(&step), self.scale()));
        }
        Ok(text)
    }

    fn as_picture(&self) -> Result<String, LoneScheduleError> {
        let step = self.schedule.simulate_to_show(self.times)?;
        let title = format!("{}: {} bubble", self.schedule.title(), percent(self.study.bubble_rate()));
        Ok(result_file::svg(&Gantt {
            title: &title,
            program: &step.program,
            timeline: &step.timeline,
            memory: &[],
            scale: self.scale(),
            shown: Shown::MicroBatches,
        }))
    }
}

fn path_of(step: &PlayedOrder) -> CriticalPath {
    critical_path(&step.program, &step.costs, &step.timeline)
}
