//! What a stage exchanges with its neighbours: a message, or on one rank the slot of the earlier stage.

use pipezero_comm::memory::TrackedBuffer;
use pipezero_schedule::{Edge, MicroBatch};

use super::compute::Compute;
use super::rank::Rank;

impl Rank {
    /// Elements of a micro-batch that cross an edge.
    pub(super) fn message_len(&self, edge: Edge, micro_batch: MicroBatch) -> usize {
        let (Edge::Up(stage) | Edge::Down(stage)) = edge;
        self.plan.output_len(stage, self.shapes.of(micro_batch))
    }

    /// The output of the stage before, for the first unit of a stage.
    pub(super) fn take_input(&mut self, compute: Compute<'_>) -> Option<TrackedBuffer> {
        let before = self.plan.stage_before(compute.unit)?;
        let edge = Edge::Up(before);
        Some(if self.plan.crosses_ranks(edge) {
            self.edges.take_held(edge, compute.micro_batch)
        } else {
            self.activations.slot_mut(before, compute.slot(before)).output.lend()
        })
    }

    /// Gives back what [`Rank::take_input`] took.
    pub(super) fn return_input(&mut self, compute: Compute<'_>, input: TrackedBuffer) {
        let before = self.plan.stage_before(compute.unit).expect("an input comes from the stage before");
        let edge = Edge::Up(before);
        if self.plan.crosses_ranks(edge) {
            self.edges.give_back(edge, input);
        } else {
            self.activations.slot_mut(before, compute.slot(before)).output.give_back(input);
        }
    }

    /// For the last unit of a stage that sends its output: copies the output's gradient into the gradient stream. The
    /// stream is as wide as the widest activation.
    pub(super) fn take_output_gradient(&mut self, compute: Compute<'_>) {
        if !self.plan.sends_output(compute.unit) {
            return;
        }
        let stage = self.plan.unit(compute.unit).stage;
        let edge = Edge::Down(stage);
        let len = self.message_len(edge, compute.micro_batch);
        if self.plan.crosses_ranks(edge) {
            let message = self.edges.take_held(edge, compute.micro_batch);
            let gradient = self.activations.gradient.view_mut().range(0..len);
            self.queue.copy(message.view().range(0..len), gradient);
            self.edges.give_back(edge, message);
        } else {
            self.activations.read_output_gradient(&*self.queue, stage, compute.slot(stage), len);
        }
    }

    /// For the first unit of a stage: copies the gradient of its input to where the stage before reads it, if that has a backward.
    pub(super) fn pass_input_gradient(&mut self, compute: Compute<'_>) {
        let before = self.plan.stage_before(compute.unit);
        let Some(before) = before.filter(|&before| self.plan.has_backward(before)) else { return };
        let edge = Edge::Down(before);
        if self.plan.crosses_ranks(edge) {
            let mut message = self.edges.take_free(edge);
            let own = 0..self.message_len(edge, compute.micro_batch);
            let gradient = self.activations.gradient.view().range(own.clone());
            self.queue.copy(gradient, message.view_mut().range(own));
            self.edges.hold(edge, compute.micro_batch, message);
        } else {
            let len = self.message_len(edge, compute.micro_batch);
            self.activations.write_output_gradient(&*self.queue, before, compute.slot(before), len);
        }
    }
}
