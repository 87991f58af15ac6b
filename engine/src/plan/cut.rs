//! Cuts the model: layers to a graph with costs, the graph to stages and units.

use std::ops::Range;
use std::sync::Arc;

use pipezero_models::layer::MicroBatchShape;
use pipezero_models::model::{self, Model};
use pipezero_models::{Layer, Unit as ModelUnit};
use pipezero_partition::{
    Balanced, LayerGraph, LayerNode, LayerRole, MemoryBound, Split, SplitError, Tying, Unit, UnitLayers,
    UnitSplit, balanced, by_type, manual, parameters, uniform,
};
use pipezero_schedule::{ComputeOrder, Stage};
use regex::RegexBuilder;

use super::PlanError;
use super::planned::element_type;
use super::stage_bytes::StageBytes;
use super::unit::PlannedUnit;
use crate::config::{Checkpointing, PartitionConfig, Run, UnitLayersConfig, ZeroLevel};
use pipezero_partition::ShardLayout;

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
    run: &Run,
    model: &Model,
    graph: &LayerGraph,
    order: &ComputeOrder,
    shape: MicroBatchShape,
    limit_bytes: Option<u64>,
) -> Result<ChosenSplit, PlanError> {
    let num_stages = order.placement.num_stages();
    let split = match &run.parallel.partition {
        PartitionConfig::Uniform => uniform(graph, num_stages)?,
        PartitionConfig::Manual(blocks) => manual(graph, blocks)?,
        PartitionConfig::Parameters => parameters(graph, num_stages)?,
        PartitionConfig::Type(pattern) => {
            let regex = RegexBuilder::new(pattern).case_insensitive(true).build();
            let none = |error: regex::Error| PlanError::Pattern {
                pattern: pattern.clone(),
                reason: error.to_string(),
            };
            let pattern = regex.map_err(none)?;
            by_type(graph, num_stages, |layer| pattern.is_match(&layer.name)).map_err(
                |error| match error {
                    SplitError::NoLayerMatches { num_layers } => {
                        no_layer_matches(pattern.as_str(), graph, num_layers)
                    }
                    other => PlanError::Split(other),
                },
            )?
        }
        PartitionConfig::Balanced => {
            let costs: Vec<u64> = graph.layers().map(|layer| step_cost(run, layer)).collect();
            let ranks: Vec<usize> =
                order.placement.ranks_by_stage().iter().map(|rank| rank.index()).collect();
            let stages = StageBytes::new(run, model, graph, shape, order)?;
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

fn no_layer_matches(pattern: &str, graph: &LayerGraph, num_layers: usize) -> PlanError {
    let name = |layer: usize| graph.layer(layer).name.clone();
    PlanError::NoLayerMatches {
        pattern: pattern.to_owned(),
        num_layers,
        first: name(0),
        second: name(1.min(num_layers - 1)),
        last: name(num_layers - 1),
    }
}

/// Operations of a layer for one micro-batch: forward, a backward of twice as many, and a second forward where it is
/// recomputed. A layer without matrix products weighs its activation.
fn step_cost(run: &Run, layer: &LayerNode) -> u64 {
    let is_block = matches!(layer.role, LayerRole::Block { .. });
    let passes = if is_block && run.checkpointing != Checkpointing::Off { 4 } else { 3 };
    layer.forward_flops.max(layer.saved_elements).saturating_mul(passes)
}

/// The units of every stage.
pub(super) fn units(
    run: &Run,
    model: &Model,
    graph: &LayerGraph,
    shape: MicroBatchShape,
    split: &Split,
) -> Result<Vec<PlannedUnit>, PlanError> {
    let units = UnitSplit::new(graph, split, unit_layers(run)?)?;
    let mut planned: Vec<PlannedUnit> =
        units.iter().map(|unit| planned_unit(run, model, graph, shape, unit)).collect();
    mark_persistent(run, &mut planned);
    Ok(planned)
}

pub(super) fn unit_layers(run: &Run) -> Result<UnitLayers, PlanError> {
    match run.zero.unit_layers {
        UnitLayersConfig::Half => Ok(UnitLayers::Half),
        UnitLayersConfig::Layers(layers) => UnitLayers::of_blocks(layers).ok_or(PlanError::EmptyUnit),
        UnitLayersConfig::Stage => Ok(UnitLayers::Stage),
    }
}

pub(super) fn planned_unit(
    run: &Run,
    model: &Model,
    graph: &LayerGraph,
    shape: MicroBatchShape,
    unit: &Unit,
) -> PlannedUnit {
    let layers: Vec<Arc<dyn Layer>> =
        model.layers[unit.layers.clone()].iter().map(|layer| Arc::clone(&layer.layer)).collect();
    let built = ModelUnit::new(layers)
        .with_precision(element_type(&run.precision))
        .with_checkpoints(segments(run.checkpointing, graph, unit.layers.clone()));
    PlannedUnit {
        stage: Stage(unit.stage as u32),
        layout: ShardLayout::new(built.num_elements(), run.parallel.data),
        sizes: built.sizes(shape),
        forward_flops: built.forward_flops(shape),
        unit: built,
        layers: unit.layers.clone(),
        tying: unit.tying,
        is_persistent: false,
    }
}

/// The layers of a unit that are recomputed together, counted from the unit's first: transformer blocks alone. Embeddings
/// save next to nothing, and a head would be recomputed only to be differentiated at once.
fn segments(checkpointing: Checkpointing, graph: &LayerGraph, layers: Range<usize>) -> Vec<Range<usize>> {
    let blocks_per_segment = match checkpointing {
        Checkpointing::Off => return Vec::new(),
        Checkpointing::Unit => usize::MAX,
        Checkpointing::Layers(blocks) => blocks,
    };
    let mut segments: Vec<Range<usize>> = Vec::new();
    let mut first_block = 0;
    for position in layers.clone() {
        let LayerRole::Block { index } = graph.layer(position).role else { continue };
        let place = position - layers.start;
        match segments.last_mut() {
            Some(last) if index - first_block < blocks_per_segment => last.end = place + 1,
            _ => {
                first_block = index;
                segments.push(place..place + 1);
            }
        }
    }
    segments
}

/// Marks the units whose every parameter is small enough to stay gathered, in chain order, passing over those that would
/// exceed the model's threshold: DeepSpeed's rule, by units, because a unit is what is gathered. A tied weight is one parameter: it counts once,
/// as the embedding, and both its units are alike.
fn mark_persistent(run: &Run, units: &mut [PlannedUnit]) {
    if run.zero.level != ZeroLevel::Zero3 {
        return;
    }
    let mut num_elements = 0;
    let mut is_table_persistent = false;
    for unit in units {
        if unit.tying == Tying::Head {
            unit.is_persistent = is_table_persistent;
            continue;
        }
        let largest = unit.largest_parameter();
        let own = unit.unit.num_parameters() as u64;
        let fits = num_elements + own <= run.zero.model_persistence_threshold;
        if largest <= run.zero.param_persistence_threshold && fits {
            unit.is_persistent = true;
            num_elements += own;
            is_table_persistent |= unit.tying == Tying::Embedding;
        }
    }
}
