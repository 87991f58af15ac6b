//! Recordings, from what the ranks of a step reported or from times that were read.

use super::check::check;
use super::events::times_of_events;
use super::fault::Fault;
use super::recorded::Recording;
use super::times::Times;
use crate::plan::Plan;
use crate::run::engine::StepReport;

impl<'a> Recording<'a> {
    /// What a step of an engine that records has left.
    ///
    /// # Errors
    /// [`Fault::NotRecorded`] where nothing was recorded; any other would be a mistake of the executor.
    pub fn new(plan: &'a Plan, report: &StepReport) -> Result<Self, Fault> {
        let ranks = 0..plan.grid().world_size();
        let events = ranks.flat_map(|rank| report.events(rank));
        let Some(origin_ns) = events.map(|event| event.at_ns).min() else {
            return Err(Fault::NotRecorded { step: report.step });
        };
        // A cast saturates; no step is negative.
        let step_ns = (report.step_s * 1e9).round() as u64;
        Self::of_rows(plan, (report.step, step_ns), |recording, rank| {
            times_of_events(report.events(rank), origin_ns, recording.row(rank).len(), |index| {
                let place = recording.place(rank, index);
                (place, recording.shape(place))
            })
        })
    }

    /// A step and how long it took, with the times of each world rank; `times` is given a recording that has none yet.
    pub(in crate::measure) fn of_rows(
        plan: &'a Plan,
        (step, step_ns): (u64, u64),
        times: impl Fn(&Self, usize) -> Result<Vec<Times>, Fault>,
    ) -> Result<Self, Fault> {
        let empty = Self { plan, step, step_ns, times: Vec::new() };
        let times = empty.ranks().map(|rank| times(&empty, rank)).collect::<Result<_, _>>()?;
        let recording = Self { times, ..empty };
        check(&recording)?;
        Ok(recording)
    }
}
