//! A step as it happened: the moments of every instruction on every rank.

use pipezero_schedule::CheckedProgram;
use pipezero_schedule::simulate::{Span, Timeline};

use super::columns::Columns;
use super::consistent;
use super::fault::Fault;
use super::members::{Site, members};
use super::moments::Moments;
use crate::plan::Plan;
use crate::plan::grid::Grid;
use crate::run::engine::StepReport;

/// A recorded step, known to be one that the program can have gone through: every instruction once, each rank one thing at a
/// time, nothing before what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    step: u64,
    step_ns: u64,
    grid: Grid,
    /// `[world rank][index]`
    rows: Vec<Vec<Moments>>,
}

impl Recorded {
    /// What a step of an engine that records has left.
    ///
    /// # Errors
    /// [`Fault`] where nothing was recorded; any other would be the executor's own.
    pub fn new(plan: &Plan, report: &StepReport) -> Result<Self, Fault> {
        let (program, grid) = (plan.training(), plan.grid());
        let events = || (0..grid.world_size()).map(|rank| report.events(rank));
        let Some(origin_ns) = events().flatten().map(|event| event.at_ns).min() else {
            return Err(Fault::NotRecorded { step: report.step });
        };
        let columns = events()
            .enumerate()
            .map(|(rank, events)| Columns::of_events(program, Site::new(grid, rank, 0), events, origin_ns));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        Self::of_columns(program, grid, (report.step, nanoseconds(report.step_s)), &columns)
    }

    /// The columns of every world rank; `step` and how long it took.
    pub(super) fn of_columns(
        program: &CheckedProgram,
        grid: Grid,
        (step, step_ns): (u64, u64),
        columns: &[Columns],
    ) -> Result<Self, Fault> {
        let (found, expected) = (columns.len(), grid.world_size());
        if found != expected {
            return Err(Fault::NumRanks { found, expected });
        }
        let rows = columns.iter().enumerate();
        let rows = rows.map(|(rank, columns)| columns.moments(program, Site::new(grid, rank, 0)));
        let recorded = Self { step, step_ns, grid, rows: rows.collect::<Result<_, _>>()? };
        consistent::check(program, &recorded)?;
        Ok(recorded)
    }

    /// The step, from 1.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How long the step took: the longest rank's time, with what it does before its first instruction and after its last.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// By what steps are put in order: how long each took and, where that is the same, which it was.
    pub(crate) fn length(&self) -> (u64, u64) {
        (self.step_ns, self.step)
    }

    /// The ranks that ran it.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// `[index]`: the instructions of a world rank.
    ///
    /// # Panics
    /// If there is no such rank; so do the other methods that take one.
    pub fn row(&self, rank: usize) -> &[Moments] {
        &self.rows[rank]
    }

    /// When a world rank was done with everything that it had begun.
    pub fn end_ns(&self, rank: usize) -> u64 {
        self.rows[rank].iter().map(Moments::ended_ns).max().unwrap_or(0)
    }

    /// From the first start on any rank to the last end on any.
    pub fn makespan_ns(&self) -> u64 {
        (0..self.rows.len()).map(|rank| self.end_ns(rank)).max().unwrap_or(0)
    }

    /// The step in the shape of a prediction, one timeline for each data rank.
    ///
    /// A message lasts from when the last of its members had issued it to when this rank knew that it was there.
    ///
    /// # Panics
    /// If the step is of another program.
    pub fn timelines(&self, program: &CheckedProgram) -> Vec<Timeline> {
        (0..self.grid.data_degree).map(|data_rank| self.timeline(program, data_rank)).collect()
    }

    fn timeline(&self, program: &CheckedProgram, data_rank: usize) -> Timeline {
        let row = |pipeline_rank: usize| {
            let rank = self.grid.rank(pipeline_rank, data_rank);
            (0..self.rows[rank].len()).map(move |index| self.span(program, Site::new(self.grid, rank, index)))
        };
        Timeline::from_spans((0..self.grid.pipeline_degree).map(|rank| row(rank).collect()).collect())
    }

    pub(super) fn span(&self, program: &CheckedProgram, site: Site) -> Span {
        match self.moments(site) {
            Moments::Compute { started_ns, ended_ns } | Moments::Meeting { started_ns, ended_ns, .. } => {
                Span { start: *started_ns, end: *ended_ns }
            }
            Moments::Message(message) => {
                let end = message.arrived_ns;
                // Whoever joins last carries the exchange out, so the others may have it before that rank goes on.
                Span { start: self.sets_out(program, site).1.min(end), end }
            }
        }
    }

    /// The member that issued a message last, and when: then the message sets out.
    pub(super) fn sets_out(&self, program: &CheckedProgram, site: Site) -> (Site, u64) {
        let issued = members(program, self.grid, site).into_iter();
        let issued = issued.map(|member| (member, self.moments(member).goes_on_ns()));
        issued.max_by_key(|&(_, at_ns)| at_ns).expect("an instruction is its own member at least")
    }

    pub(super) fn moments(&self, site: Site) -> &Moments {
        &self.rows[site.rank][site.index]
    }

    /// Every instruction of the grid.
    pub(super) fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        let of_rank =
            move |rank: usize| (0..self.rows[rank].len()).map(move |index| Site::new(self.grid, rank, index));
        (0..self.rows.len()).flat_map(of_rank)
    }
}

fn nanoseconds(seconds: f64) -> u64 {
    // A cast saturates; no step is negative.
    (seconds * 1e9).round() as u64
}
