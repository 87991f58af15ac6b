//! Cuts the model: layers to a graph with costs, the graph to stages and units.

use std::sync::Arc;

use pipezero_models::layer::MicroBatchShape;
use pipezero_models::model::{self, Model};
use pipezero_models::{Layer, Unit as ModelUnit};
use pipezero_partition::{LayerGraph, LayerNode, LayerRole, Tying, UnitLayers, UnitSplit, manual, uniform};
use pipezero_schedule::Stage;

use super::{PlanError, PlannedUnit};
use crate::config::{PartitionConfig, Run};
use crate::shard::ShardLayout;

/// The model's layers with what each costs for one micro-batch.
pub(super) fn graph(model: &Model, shape: MicroBatchShape) -> Result<LayerGraph, PlanError> {
    let nodes = model.layers.iter().map(|layer| node(layer, shape)).collect();
    let outputs = model.layers.iter().map(|layer| layer.layer.sizes(shape).output as u64);
    let cuts: Vec<u64> = outputs.take(model.layers.len() - 1).collect();
    Ok(LayerGraph::chain(nodes, &cuts)?)
}

fn node(layer: &model::ModelLayer, shape: MicroBatchShape) -> LayerNode {
    let sizes = layer.layer.sizes(shape);
    LayerNode {
        name: layer.layer.name().to_owned(),
        role: match layer.role {
            model::LayerRole::Embedding => LayerRole::Embedding,
            model::LayerRole::Block { index } => LayerRole::Block { index },
            model::LayerRole::Head => LayerRole::Head,
        },
        tying: tying(layer.tying),
        num_parameters: layer.layer.parameters().iter().map(|spec| spec.num_elements() as u64).sum(),
        forward_flops: layer.layer.forward_flops(shape),
        saved_elements: (sizes.input + sizes.saved) as u64,
    }
}

fn tying(tying: model::Tying) -> Tying {
    match tying {
        model::Tying::Untied => Tying::Untied,
        model::Tying::Embedding => Tying::Embedding,
        model::Tying::Head => Tying::Head,
    }
}

/// The units of every stage.
pub(super) fn units(
    run: &Run,
    model: &Model,
    graph: &LayerGraph,
    shape: MicroBatchShape,
) -> Result<Vec<PlannedUnit>, PlanError> {
    let split = match &run.parallel.partition {
        PartitionConfig::Uniform => uniform(graph, run.parallel.pipeline)?,
        PartitionConfig::Manual(blocks) => manual(graph, blocks)?,
    };
    let unit_layers = UnitLayers::of_blocks(run.zero.unit_layers).ok_or(PlanError::EmptyUnit)?;
    let units = UnitSplit::new(graph, &split, unit_layers);
    let planned = units.iter().map(|unit| {
        let layers: Vec<Arc<dyn Layer>> =
            model.layers[unit.layers.clone()].iter().map(|layer| Arc::clone(&layer.layer)).collect();
        let built = ModelUnit::new(layers);
        PlannedUnit {
            stage: Stage(unit.stage as u32),
            layout: ShardLayout::new(built.num_elements(), run.parallel.data),
            sizes: built.sizes(shape),
            forward_flops: built.forward_flops(shape),
            unit: built,
            layers: unit.layers.clone(),
            tying: unit.tying,
        }
    });
    Ok(planned.collect())
}
