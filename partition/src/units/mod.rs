//! FSDP units: which layers of a stage are gathered at once.
//!
//! A unit is cut from the layers of one stage, so it never straddles two. Units are counted in transformer
//! blocks; layers outside blocks join a neighbour: untied embeddings the stage's first unit, untied heads its
//! last. Where layers without a trained parameter border on others a unit ends too, so of a unit's layers either each has one or none has. A tied layer is a separate unit, because the same weight must have the same flat layout where the
//! embedding and where the head uses it; a slice of a vocabulary's table is one, because that is what it is cut for; an input encoder is
//! one, so that it can be left whole where the rest is sharded.
//!
//! Units of half a block keep attention and MLP apart: half the gathered memory where a whole block is too much. A
//! block of `k` layers is cut after the first `ceil(k / 2)` of them.

#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::ops::Range;

use serde::Serialize;

use crate::graph::LayerGraph;
use crate::role::{LayerRole, Tying};
use crate::split::Split;

/// How large units are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitLayers {
    /// Half a transformer block: attention and MLP apart. Every block needs at least two layers.
    Half,
    /// So many transformer blocks; the last unit of a stage may be shorter.
    #[serde(rename = "layers")]
    Blocks(NonZeroUsize),
    /// All of a stage in one unit (tied layers and slices still apart).
    Stage,
}

impl UnitLayers {
    /// Units of one transformer block.
    pub const ONE: Self = Self::Blocks(NonZeroUsize::MIN);

    /// Units of `num_blocks` transformer blocks; `None` for 0.
    pub const fn of_blocks(num_blocks: usize) -> Option<Self> {
        match NonZeroUsize::new(num_blocks) {
            Some(num_blocks) => Some(Self::Blocks(num_blocks)),
            None => None,
        }
    }
}

/// Why a model cannot be cut into such units.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A block of one layer has no halves.
    #[error(
        "transformer layer {block} is the single piece `{layer}`, and a unit of half a layer needs two; use units of at \
         least 1 layer, or a model whose layers have parts"
    )]
    BlockOfOneLayer {
        /// The block.
        block: usize,
        /// Its layer.
        layer: String,
    },
}

/// One FSDP unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The stage that it belongs to.
    pub stage: usize,
    /// Its layers, at least one.
    pub layers: Range<usize>,
    /// Whether its parameters are shared; a unit that is not [`Tying::Untied`] is one layer.
    pub tying: Tying,
    /// Whether none of its layers is trained; otherwise all are, at least in part.
    pub is_frozen: bool,
}

/// The units of a model in chain order: complete, contiguous, non-empty, every stage at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSplit {
    units: Vec<Unit>,
}

impl UnitSplit {
    /// Cuts every stage of `split`, which must be a split of `graph`, into units.
    ///
    /// # Errors
    /// [`UnitError::BlockOfOneLayer`] for [`UnitLayers::Half`].
    ///
    /// # Panics
    /// If the split has more layers than the graph.
    pub fn new(graph: &LayerGraph, split: &Split, unit_layers: UnitLayers) -> Result<Self, UnitError> {
        if unit_layers == UnitLayers::Half {
            check_halves(graph)?;
        }
        let units = split
            .stages()
            .enumerate()
            .flat_map(|(stage, layers)| units_of_stage(graph, stage, layers, unit_layers))
            .collect();
        Ok(Self { units })
    }

    /// Number of units of the whole model.
    pub fn num_units(&self) -> usize {
        self.units.len()
    }

    /// The units from the first to the last.
    pub fn iter(&self) -> std::slice::Iter<'_, Unit> {
        self.units.iter()
    }

    /// The units of a stage; empty if the stage does not exist.
    pub fn of_stage(&self, stage: usize) -> &[Unit] {
        let start = self.units.partition_point(|unit| unit.stage < stage);
        let end = self.units.partition_point(|unit| unit.stage <= stage);
        &self.units[start..end]
    }
}

/// The units that a stage of these layers would have: what a splitter asks for stages that it considers.
///
/// Blocks that [`UnitLayers::Half`] cannot cut stay whole here; [`UnitSplit::new`] refuses them.
///
/// # Panics
/// If there are no such layers.
pub fn units_of_stage(
    graph: &LayerGraph,
    stage: usize,
    layers: Range<usize>,
    unit_layers: UnitLayers,
) -> Vec<Unit> {
    let starts = unit_starts(graph, layers.clone(), unit_layers);
    let ends = starts.clone().into_iter().skip(1).chain([layers.end]);
    let unit = |(start, end)| {
        let first = graph.layer(start);
        Unit { stage, layers: start..end, tying: first.tying, is_frozen: first.is_frozen }
    };
    starts.into_iter().zip(ends).map(unit).collect()
}

/// Whether every block can be cut.
fn check_halves(graph: &LayerGraph) -> Result<(), UnitError> {
    match (0..graph.num_blocks()).find(|&block| graph.block_layers(block).len() < 2) {
        Some(block) => {
            let layer = graph.layer(graph.block_layers(block).start).name.clone();
            Err(UnitError::BlockOfOneLayer { block, layer })
        }
        None => Ok(()),
    }
}

/// The first layers of the units of one stage.
fn unit_starts(graph: &LayerGraph, stage: Range<usize>, unit_layers: UnitLayers) -> Vec<usize> {
    let is_alone = |position: usize| graph.layer(position).is_alone();
    let pieces_per_unit = match unit_layers {
        UnitLayers::Half => 1,
        UnitLayers::Blocks(num_blocks) => num_blocks.get(),
        UnitLayers::Stage => usize::MAX,
    };
    let mut starts = vec![stage.start];
    let mut num_pieces = 0;
    for position in stage.clone() {
        let begins_piece = begins_piece(graph, position, unit_layers);
        // Layers that are alone come before the first or after the last block, so they do not disturb the count.
        let is_full = begins_piece && num_pieces > 0 && num_pieces % pieces_per_unit == 0;
        let follows_lone = position > stage.start && is_alone(position - 1);
        let is_frozen = |position: usize| graph.layer(position).is_frozen;
        let is_border = position > stage.start && is_frozen(position) != is_frozen(position - 1);
        if position > stage.start && (is_full || is_alone(position) || follows_lone || is_border) {
            starts.push(position);
        }
        num_pieces += usize::from(begins_piece);
    }
    starts
}

/// Whether a block begins at this layer, or where units are halves, half a block.
fn begins_piece(graph: &LayerGraph, position: usize, unit_layers: UnitLayers) -> bool {
    let LayerRole::Block { index } = graph.layer(position).role else { return false };
    let block = graph.block_layers(index);
    let middle = block.start + block.len().div_ceil(2);
    position == block.start || (unit_layers == UnitLayers::Half && position == middle)
}
