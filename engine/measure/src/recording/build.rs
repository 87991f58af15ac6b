//! Recordings, from what the ranks of a step reported or from times that were read.

use pipezero_plan::Plan;
use pipezero_run::engine::{ProcessReport, StepReport};

use super::check::check;
use super::clocks::Clock;
use super::events::times_of_events;
use super::fault::Fault;
use super::recorded::Recording;
use super::times::Times;

impl<'a> Recording<'a> {
    /// What a step that was recorded has left, in the process of rank 0.
    ///
    /// # Errors
    /// [`Fault::NotRecorded`] where nothing was recorded, [`Fault::Partial`] in a process without rank 0; any other would be a mistake of
    /// the executor, or of the world's estimate of the clocks.
    pub fn new(plan: &'a Plan, report: &StepReport) -> Result<Self, Fault> {
        let (step, found, expected) = (report.step, report.ranks().count(), plan.grid().world_size());
        if found != expected {
            return Err(Fault::Partial { step, found, expected });
        }
        let clocks: Option<Vec<Clock>> = report.processes.iter().map(clock).collect();
        let Some(clocks) = clocks else { return Err(Fault::NotRecorded { step: report.step }) };
        // A cast saturates; no step is negative.
        let step_ns = (report.step_s * 1e9).round() as u64;
        let mut recording = Self::unchecked_rows(plan, (report.step, step_ns), |recording, rank| {
            let zero_ns = clocks.iter().find(|clock| clock.ranks.contains(&rank)).map_or(0, |of| of.zero_ns);
            times_of_events(report.events(rank), zero_ns, recording.row(rank).len(), |index| {
                let place = recording.place(rank, index);
                (place, recording.shape(place))
            })
        })?;
        recording.put_on_one_clock(&clocks);
        check(&recording)?;
        Ok(recording)
    }

    /// A step and how long it took, with the times of each world rank; `times` is given a recording that has none yet.
    pub(crate) fn of_rows(
        plan: &'a Plan,
        step: (u64, u64),
        times: impl Fn(&Self, usize) -> Result<Vec<Times>, Fault>,
    ) -> Result<Self, Fault> {
        let recording = Self::unchecked_rows(plan, step, times)?;
        check(&recording)?;
        Ok(recording)
    }

    fn unchecked_rows(
        plan: &'a Plan,
        (step, step_ns): (u64, u64),
        times: impl Fn(&Self, usize) -> Result<Vec<Times>, Fault>,
    ) -> Result<Self, Fault> {
        let empty = Self { plan, step, step_ns, times: Vec::new() };
        let times = empty.ranks().map(|rank| times(&empty, rank)).collect::<Result<_, _>>()?;
        Ok(Self { times, ..empty })
    }
}

/// The clock of a process whose times begin with its first event; none of one that recorded nothing.
fn clock(process: &ProcessReport) -> Option<Clock> {
    let events = process.ranks.iter().flat_map(|rank| &rank.events);
    let zero_ns = events.map(|event| event.at_ns).min()?;
    let ranks = process.first_rank..process.first_rank + process.ranks.len();
    Some(Clock { ranks, zero_ns, offset: process.clock })
}
