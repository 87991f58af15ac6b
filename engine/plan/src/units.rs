//! Units: how a stage's layers are grouped, what each group holds and recomputes.

use std::ops::Range;
use std::sync::Arc;

use pipezero_config::Checkpointing;
use pipezero_models::{Layer, Unit as ModelUnit};
use pipezero_partition::{LayerGraph, LayerRole, Split, Unit, UnitSharding, UnitSplit};
use pipezero_schedule::Stage;

use super::element_types::ElementTypes;
use super::run_model::RunModel;
use super::unit::PlannedUnit;
use super::{PlanError, sharding};

/// The units of every stage.
pub(super) fn units(of: RunModel<'_>, split: &Split) -> Result<Vec<PlannedUnit>, PlanError> {
    let units = UnitSplit::new(of.graph, split, of.run.zero.unit_layers)?;
    let mut planned: Vec<PlannedUnit> = units.iter().map(|unit| planned_unit(of, unit)).collect();
    sharding::mark(of.run, of.graph, &mut planned)?;
    Ok(planned)
}

pub(super) fn planned_unit(of: RunModel<'_>, unit: &Unit) -> PlannedUnit {
    let RunModel { run, model, graph, shape } = of;
    let has_backward = unit.layers.end > first_trained(graph);
    let layers: Vec<Arc<dyn Layer>> =
        model.layers[unit.layers.clone()].iter().map(|layer| Arc::clone(&layer.layer)).collect();
    let built = ModelUnit::new(layers)
        .with_precision(ElementTypes::of(&run.precision).parameter)
        .computing_in(ElementTypes::computed_in(run))
        .with_checkpoints(match has_backward {
            true => segments(run.checkpointing, graph, unit.layers.clone()),
            // Nothing reads what it saves.
            false => segments(Checkpointing::Unit, graph, unit.layers.clone()),
        });
    let mut sizes = built.sizes(shape);
    if !built.table_slice().is_first() {
        // They are the first slice's.
        (sizes.saved, sizes.weight_inputs) = (0, 0);
    }
    if unit.is_frozen {
        // There is no weight gradient that could read them.
        sizes.weight_inputs = 0;
    }
    let is_frozen = |(layer, parameter)| {
        let layer = graph.layer(layer);
        layer.is_frozen || layer.frozen_parameters.contains(&parameter)
    };
    let counted = |layer: usize| (0..model.layers[layer].layer.parameters().len()).map(move |of| (layer, of));
    let frozen: Vec<bool> = unit.layers.clone().flat_map(counted).map(is_frozen).collect();
    let kinds = vec![UnitSharding::Sharded; frozen.len()];
    let mut planned = PlannedUnit {
        stage: Stage(unit.stage as u32),
        sizes,
        forward_flops: built.forward_flops(shape),
        unit: built,
        layers: unit.layers.clone(),
        tying: unit.tying,
        parts: Vec::new(),
        is_frozen: unit.is_frozen,
        has_backward,
    };
    planned.set_parts(&kinds, &frozen, run.parallel.data);
    planned
}

/// The first layer of which something is trained; the layers in front of it have no backward.
pub(super) fn first_trained(graph: &LayerGraph) -> usize {
    graph.layers().take_while(|layer| layer.is_frozen).count()
}

/// The layers of a unit that are recomputed together, counted from the unit's first: transformer blocks alone. Embeddings
/// save next to nothing, and a head would be recomputed only to be differentiated at once.
fn segments(checkpointing: Checkpointing, graph: &LayerGraph, layers: Range<usize>) -> Vec<Range<usize>> {
    let blocks_per_segment = match checkpointing {
        Checkpointing::Off | Checkpointing::Auto => return Vec::new(),
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
