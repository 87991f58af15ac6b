//! The stages of a rank with their units, and what enters and leaves each: read once, for what is allocated and for what is
//! forecast.

use pipezero_schedule::{Edge, PipelineRank, Stage, Unit, protocol};

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

impl Plan {
    /// The stages of a rank, ascending, each with its units.
    pub(super) fn stages_of(&self, rank: PipelineRank) -> Vec<PlannedStage<'_>> {
        let planned = |stage: Stage| {
            let units: Vec<_> = self.units_of_stage(stage).collect();
            let (first, last) = (units[0].1, units[units.len() - 1]);
            let before = stage.0.checked_sub(1).map(Stage);
            let receives = before.is_some_and(|before| self.crosses_ranks(Edge::Up(before)));
            let output = if self.sends_output(last.0) { last.1.sizes.output } else { 0 };
            let [output_cut, local_output] =
                if output > 0 && self.crosses_ranks(Edge::Up(stage)) { [output, 0] } else { [0, output] };
            let input_cut = if receives { first.sizes.input } else { 0 };
            PlannedStage { stage, input_cut, output_cut, local_output, units }
        };
        self.training.placement().stages(rank).map(planned).collect()
    }

    /// Buffers out of which a stage sends its input's gradient to another rank.
    pub(super) fn num_gradient_send_buffers(&self, stage: Stage) -> usize {
        let edge = stage.0.checked_sub(1).map(|before| Edge::Down(Stage(before)));
        let sent_over = edge.filter(|&edge| self.training.chain().is_sent_over(edge));
        sent_over.map_or(0, |edge| self.training.num_gradient_send_buffers(edge))
    }

    /// Buffers into which a stage receives its output's gradient from another rank.
    pub(super) fn num_gradient_receive_buffers(&self, stage: Stage) -> usize {
        if self.training.chain().is_sent_over(Edge::Down(stage)) { protocol::RECEIVE_BUFFERS } else { 0 }
    }
}
