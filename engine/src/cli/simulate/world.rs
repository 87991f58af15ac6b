//! A step under "what if": what was played, what it adds to the step, and how that is told.

use pipezero_schedule::render::Track;
use pipezero_schedule::simulate::MemoryError;
use pipezero_schedule::simulate::cluster::{Cluster, Computes};
use serde_json::{Value, json};

use super::SimulateError;
use super::picture::curves;
use super::ranks::rank_json;
use super::result_file::chrome;
use super::what_if::{self, WhatIf};
use crate::cli::units::nanoseconds;
use crate::plan::Plan;
use crate::plan::costs::{Predicted, Step, WorldStep};

/// A step, the world that it was played in, and the step of the same ranks were they alike.
pub(super) struct Played {
    pub(super) step: WorldStep,
    world: Cluster,
    without: Step,
}

impl Played {
    /// Plays both.
    pub(super) fn new(
        plan: &Plan,
        predicted: &Predicted,
        what_if: &WhatIf,
        computes: Computes,
    ) -> Result<Self, SimulateError> {
        let alike = predicted.world(plan);
        let world = what_if.change(alike.clone(), plan.grid().world_size(), computes)?;
        let step = WorldStep::new(plan, predicted, &world)?;
        let without = WorldStep::new(plan, predicted, &alike)?.slowest().clone();
        Ok(Self { step, world, without })
    }

    /// How many times as long as without.
    fn times(&self) -> f64 {
        let without_s = self.without.step_s();
        if without_s > 0.0 { self.step.slowest().step_s() / without_s } else { 1.0 }
    }

    /// What was changed, and what that makes of the step.
    pub(super) fn summary(&self) -> String {
        let (times, without) = (self.times(), nanoseconds(self.without.step_ns()));
        format!(
            "what if: {}\n         {times:.3} x the step without, {without}\n",
            what_if::describe(&self.world)
        )
    }

    /// Which data rank the grid, the picture and the critical path are of.
    pub(super) fn shown(&self) -> String {
        let num_data_ranks = self.step.by_data_rank().len();
        if self.step.is_alike() {
            format!("data rank 0, as all {num_data_ranks}")
        } else {
            format!("data rank {}, the slowest of {num_data_ranks}", self.step.slowest_data_rank())
        }
    }

    /// What was changed, for programs.
    pub(super) fn what_if_json(&self) -> Value {
        let mut found = what_if::as_json(&self.world);
        found["step_without_s"] = json!(self.without.step_s());
        found["times_without"] = json!(self.times());
        found["slowest_data_rank"] = json!(self.step.slowest_data_rank());
        found
    }

    /// `[world rank]`, for programs.
    pub(super) fn ranks_json(&self, plan: &Plan) -> Result<Value, MemoryError> {
        let grid = plan.grid();
        let steps = self.step.by_data_rank();
        let curves = steps.iter().map(|step| curves(plan, step)).collect::<Result<Vec<_>, _>>()?;
        let of_rank = |rank: usize| {
            let (pipeline_rank, data_rank) = (grid.pipeline_rank(rank), grid.data_rank(rank));
            let curve = &curves[data_rank][pipeline_rank];
            let mut found = rank_json(pipeline_rank, &steps[data_rank].ranks[pipeline_rank], curve);
            found["rank"] = json!(rank);
            found["data_rank"] = json!(data_rank);
            found
        };
        Ok((0..grid.world_size()).map(of_rank).collect())
    }

    /// All data ranks as a trace.
    pub(super) fn trace(&self, plan: &Plan) -> String {
        let tracks = self.step.by_data_rank().iter().zip(0..).map(|(step, data_rank)| Track {
            name: "predicted",
            data_rank: Some(data_rank),
            program: plan.training(),
            timeline: &step.timeline,
        });
        chrome(&tracks.collect::<Vec<_>>())
    }
}
