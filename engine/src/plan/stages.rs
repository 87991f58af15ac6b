//! The stages of a rank with their units, and what enters and leaves each: read once, for what is allocated and for what is
//! forecast.

use pipezero_schedule::{Edge, PipelineRank, Stage, Unit};

use super::{Plan, PlannedUnit};

/// One stage of a rank and what leaves and enters it, in activation elements of a micro-batch.
#[derive(Debug)]
pub(super) struct PlannedStage<'a> {
    pub(super) stage: Stage,
    /// From another rank.
    pub(super) input_cut: usize,
    /// To another rank.
    pub(super) output_cut: usize,
    /// To the next stage, where that lies on the same rank.
    pub(super) local_output: usize,
    pub(super) units: Vec<(Unit, &'a PlannedUnit)>,
}

impl PlannedStage<'_> {
    fn new(stage: Stage) -> Self {
        Self { stage, input_cut: 0, output_cut: 0, local_output: 0, units: Vec::new() }
    }
}

impl Plan {
    /// The stages of a rank, ascending, each with its units.
    pub(super) fn stages_of(&self, rank: PipelineRank) -> Vec<PlannedStage<'_>> {
        let mut stages: Vec<PlannedStage<'_>> = Vec::new();
        for (id, unit) in self.units_of(rank) {
            if stages.last().is_none_or(|last| last.stage != unit.stage) {
                stages.push(PlannedStage::new(unit.stage));
            }
            let stage = stages.last_mut().expect("a stage was pushed for its first unit");
            if self.stage_before(id).is_some_and(|before| self.crosses_ranks(Edge::Up(before))) {
                stage.input_cut = unit.sizes.input;
            }
            if self.sends_output(id) {
                let output = if self.crosses_ranks(Edge::Up(unit.stage)) {
                    &mut stage.output_cut
                } else {
                    &mut stage.local_output
                };
                *output = unit.sizes.output;
            }
            stage.units.push((id, unit));
        }
        stages
    }

    /// Buffers out of which a stage sends its input's gradient.
    pub(super) fn num_gradient_send_buffers(&self, stage: Stage) -> usize {
        let before = stage.0.checked_sub(1).map(Stage);
        before.map_or(0, |before| self.training.num_gradient_send_buffers(Edge::Down(before)))
    }
}
