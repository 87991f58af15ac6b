//! Cuts the model: layers to a graph with costs, the graph to stages and units.

use pipezero_config::{Checkpointing, PartitionConfig, Run, pattern};
use pipezero_models::layer::{MicroBatchShape, Slice};
use pipezero_models::model::{self, Model};
use pipezero_partition::{
    Balanced, LayerGraph, LayerNode, LayerRole, MemoryBound, Split, SplitError, Tying, balanced, by_type,
    manual, parameters, uniform,
};
use pipezero_schedule::ComputeOrder;

use super::error::PatternFault;
use super::run_model::RunModel;
use super::stage_bytes::StageBytes;
use super::units::first_trained;
use super::{PlanError, frozen};

/// The model's layers with what each costs for one micro-batch.
///
/// # Errors
/// [`PlanError::TrainOnly`] where a pattern of names cannot be followed.
pub(super) fn graph(run: &Run, model: &Model, shape: MicroBatchShape) -> Result<LayerGraph, PlanError> {
    let mut nodes: Vec<LayerNode> = model.layers.iter().map(|layer| node(layer, shape)).collect();
    frozen::mark(run, model, &mut nodes)?;
    let outputs = model.layers.iter().map(|layer| layer.layer.sizes(shape).output as u64);
    let cuts: Vec<u64> = outputs.take(model.layers.len() - 1).collect();
    Ok(LayerGraph::chain(nodes, &cuts)?)
}

fn node(layer: &model::ModelLayer, shape: MicroBatchShape) -> LayerNode {
    let sizes = layer.layer.sizes(shape);
    let saved = sizes.input + sizes.saved + sizes.exact;
    LayerNode {
        name: layer.layer.name().to_owned(),
        role: match layer.role {
            model::LayerRole::Embedding => LayerRole::Embedding,
            model::LayerRole::Block { index } => LayerRole::Block { index },
            model::LayerRole::Head => LayerRole::Head,
        },
        tying: tying(layer.tying),
        num_parameters: layer.layer.parameters().iter().map(|spec| spec.num_elements() as u64).sum(),
        is_frozen: false,
        frozen_parameters: Vec::new(),
        forward_flops: layer.layer.forward_flops(shape),
        saved_elements: if layer.layer.table_slice().is_first() { saved as u64 } else { 0 },
        is_slice: layer.layer.table_slice() != Slice::WHOLE,
        is_input_encoder: layer.layer.input_encoder().is_some(),
    }
}

fn tying(tying: model::Tying) -> Tying {
    match tying {
        model::Tying::Untied => Tying::Untied,
        model::Tying::Embedding => Tying::Embedding,
        model::Tying::Head => Tying::Head,
    }
}

/// A split, and whether it is the one that was asked for.
pub(super) struct ChosenSplit {
    pub(super) split: Split,
    /// Whether none is better, by the measure of the method. Only a balanced split under a bound may not be known to be
    /// the fastest.
    pub(super) is_proven: bool,
}

/// The layers of every stage.
///
/// # Errors
/// When there is no such split, or none that fits the memory of a rank.
pub(super) fn split(
    run_model: RunModel<'_>,
    order: &ComputeOrder,
    limit_bytes: Option<u64>,
) -> Result<ChosenSplit, PlanError> {
    let RunModel { run, graph, .. } = run_model;
    let num_stages = order.placement.num_stages();
    let split = match &run.parallel.partition {
        PartitionConfig::Uniform => uniform(graph, num_stages)?,
        PartitionConfig::Manual(blocks) => manual(graph, blocks)?,
        PartitionConfig::Parameters => parameters(graph, num_stages)?,
        PartitionConfig::Type(pattern) => {
            let refused = |fault| PlanError::Pattern { pattern: pattern.clone(), fault };
            let regex = pattern::regex(pattern);
            let regex = regex.map_err(|error| refused(PatternFault::Syntax(error.to_string())))?;
            let name = |layer: usize| graph.layer(layer).name.clone();
            by_type(graph, num_stages, |layer| regex.is_match(&layer.name)).map_err(|error| match error {
                SplitError::NoLayerMatches { num_layers } => {
                    let names = [0, 1.min(num_layers - 1), num_layers - 1].map(name);
                    refused(PatternFault::NoLayerMatches { num_layers, names })
                }
                other => PlanError::Split(other),
            })?
        }
        PartitionConfig::Balanced => {
            let first_trained = first_trained(graph);
            let cost = |(position, layer)| step_cost(run, layer, position >= first_trained);
            let costs: Vec<u64> = graph.layers().enumerate().map(cost).collect();
            let ranks: Vec<usize> =
                order.placement.ranks_by_stage().iter().map(|rank| rank.index()).collect();
            let stages = StageBytes::new(run_model, order)?;
            let stage_bytes = |stage, layers| stages.peak(stage, layers);
            let least_bytes = |stage, layers| stages.least(stage, layers);
            let bound = limit_bytes.map(|limit_bytes| MemoryBound {
                limit_bytes,
                stage_bytes: &stage_bytes,
                least_bytes: &least_bytes,
            });
            let Balanced { split, is_exact, .. } = balanced(graph, &costs, &ranks, bound)?;
            return Ok(ChosenSplit { split, is_proven: is_exact });
        }
    };
    Ok(ChosenSplit { split, is_proven: true })
}

/// Operations of a layer for one micro-batch: forward, a backward of twice as many, of a frozen layer of as many, of one before all that is trained
/// of none, and a second forward where it is recomputed. A layer without matrix products weighs its activation.
fn step_cost(run: &Run, layer: &LayerNode, has_backward: bool) -> u64 {
    let is_block = matches!(layer.role, LayerRole::Block { .. });
    let recomputes = has_backward && is_block && run.checkpointing != Checkpointing::Off;
    let passes = 1 + u64::from(has_backward) + u64::from(!layer.is_frozen) + u64::from(recomputes);
    layer.forward_flops.max(layer.saved_elements).saturating_mul(passes)
}
