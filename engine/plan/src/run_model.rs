//! A run and its model, as they are cut into stages and units.

use pipezero_config::Run;
use pipezero_models::layer::MicroBatchShape;
use pipezero_models::model::Model;
use pipezero_partition::LayerGraph;

/// A run's model, with its layers as a graph of what each costs for a micro-batch of this shape.
#[derive(Clone, Copy)]
pub(super) struct RunModel<'a> {
    pub(super) run: &'a Run,
    pub(super) model: &'a Model,
    pub(super) graph: &'a LayerGraph,
    pub(super) shape: MicroBatchShape,
}
