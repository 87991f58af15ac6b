//! A step as it happened: the times of every instruction on every rank.

use pipezero_plan::Plan;
use pipezero_plan::grid::Grid;
use pipezero_schedule::simulate::{Span, Timeline};
use pipezero_schedule::{CheckedProgram, Instruction, PipelineRank};

use super::place::Place;
use super::times::{Shape, Times, makespan_ns};

/// A recorded step of a plan. Its program can have run like that: every instruction once, each rank one thing at a time, nothing
/// before what it waits for.
///
/// # Panics
/// Methods that take a rank panic if the plan has no such rank.
#[derive(Clone, Debug)]
pub struct Recording<'a> {
    pub(super) plan: &'a Plan,
    pub(super) step: u64,
    pub(super) step_ns: u64,
    /// `[world rank][index]`
    pub(super) times: Vec<Vec<Times>>,
}

impl<'a> Recording<'a> {
    /// The step, from 1.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How long the step took: the longest rank's time, with what it does before its first instruction and after its last.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// By what steps are put in order: how long each took and, where that is the same, which it was.
    pub fn length(&self) -> (u64, u64) {
        (self.step_ns, self.step)
    }

    /// What ran.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// The program that ran.
    pub(crate) fn program(&self) -> &'a CheckedProgram {
        self.plan.training()
    }

    /// The ranks that ran it.
    pub(crate) fn grid(&self) -> Grid {
        self.plan.grid()
    }

    /// `[index]`: the times of a world rank's instructions.
    pub fn row_times(&self, rank: usize) -> &[Times] {
        &self.times[rank]
    }

    /// `[index]`: the instructions of a world rank.
    pub(crate) fn row(&self, rank: usize) -> &'a [Instruction] {
        self.program().row(self.pipeline_rank(rank))
    }

    pub(crate) fn pipeline_rank(&self, rank: usize) -> PipelineRank {
        PipelineRank(self.grid().pipeline_rank(rank) as u32)
    }

    pub(crate) fn ranks(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.grid().world_size()
    }

    pub(crate) fn place(&self, rank: usize, index: usize) -> Place {
        Place { rank, index, instruction: self.row(rank)[index] }
    }

    /// Every instruction of a world rank.
    pub(crate) fn places_of(&self, rank: usize) -> impl Iterator<Item = Place> + use<'a> {
        let row = self.row(rank).iter().enumerate();
        row.map(move |(index, &instruction)| Place { rank, index, instruction })
    }

    /// Every instruction of every rank.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.ranks().flat_map(|rank| self.places_of(rank))
    }

    pub(crate) fn times(&self, place: Place) -> Times {
        self.times[place.rank][place.index]
    }

    pub(crate) fn shape(&self, place: Place) -> Shape {
        Shape::of(self.program(), place.instruction)
    }

    /// When a world rank was done with everything that it had begun.
    pub fn end_ns(&self, rank: usize) -> u64 {
        self.times[rank].iter().map(|times| times.ended_ns).max().unwrap_or(0)
    }

    /// From the first start on any rank to the last end on any.
    pub fn makespan_ns(&self) -> u64 {
        makespan_ns(&self.times)
    }

    /// The step in the shape of a prediction, one timeline for each data rank.
    ///
    /// A message lasts from when the last of its members had issued it to when this rank knew that it was there.
    pub fn timelines(&self) -> Vec<Timeline> {
        let row = |rank: usize| self.places_of(rank).map(|place| self.span(place)).collect();
        let grid = self.grid();
        let timeline = |data_rank: usize| {
            let rows = (0..grid.pipeline_degree).map(|rank| row(grid.rank(rank, data_rank)));
            Timeline::from_spans(rows.collect())
        };
        (0..grid.data_degree).map(timeline).collect()
    }

    fn span(&self, place: Place) -> Span {
        let end = self.done_ns(place);
        let start = match self.shape(place) {
            Shape::Compute | Shape::Joint => self.times(place).started_ns,
            // The last to join carries the exchange out, so the others may have it before that rank goes on.
            Shape::Message => self.ready_ns(place).min(end),
        };
        Span { start, end }
    }
}
