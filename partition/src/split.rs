//! A split: which contiguous layers each stage has. Complete and without an empty stage by construction.

use std::ops::Range;

use crate::graph::LayerGraph;

/// Which layers each stage has.
///
/// Made by [`uniform`](crate::uniform()), [`manual`](crate::manual()), [`parameters`](crate::parameters()),
/// [`by_type`](crate::by_type()) and [`balanced`](crate::balanced()); stages follow each other without gap or overlap
/// and every stage has at least one transformer block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// One past the last layer of each stage, strictly ascending; the last one is the number of layers.
    ends: Vec<usize>,
}

impl Split {
    /// Gives each stage the next `blocks_per_stage[stage]` blocks; what comes before the first block joins the first
    /// stage and what comes after the last block the last.
    pub(crate) fn by_blocks(graph: &LayerGraph, blocks_per_stage: &[usize]) -> Result<Self, SplitError> {
        let num_blocks = graph.num_blocks();
        if let Some(stage) = blocks_per_stage.iter().position(|&blocks| blocks == 0) {
            return Err(SplitError::EmptyStage { stage, num_stages: blocks_per_stage.len() });
        }
        Self::check_num_stages(graph, blocks_per_stage.len())?;
        let sum = blocks_per_stage.iter().copied().fold(0, usize::saturating_add);
        if sum != num_blocks {
            return Err(SplitError::WrongSum { sum, num_blocks });
        }
        let mut ends: Vec<usize> = blocks_per_stage
            .iter()
            .scan(0, |next_block, &blocks| {
                *next_block += blocks;
                Some(graph.block_layers(*next_block - 1).end)
            })
            .collect();
        if let Some(last) = ends.last_mut() {
            *last = graph.num_layers();
        }
        Ok(Self { ends })
    }

    /// Whether every stage can have a block.
    pub(crate) fn check_num_stages(graph: &LayerGraph, num_stages: usize) -> Result<(), SplitError> {
        let num_blocks = graph.num_blocks();
        match num_stages {
            0 => Err(SplitError::NoStages),
            _ if num_stages > num_blocks => Err(SplitError::MoreStagesThanBlocks { num_stages, num_blocks }),
            _ => Ok(()),
        }
    }

    /// Number of stages, at least one.
    pub fn num_stages(&self) -> usize {
        self.ends.len()
    }

    /// The layers of a stage.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn layers(&self, stage: usize) -> Range<usize> {
        let start = if stage == 0 { 0 } else { self.ends[stage - 1] };
        start..self.ends[stage]
    }

    /// The layers of every stage, from the first.
    pub fn stages(&self) -> impl ExactSizeIterator<Item = Range<usize>> {
        (0..self.num_stages()).map(|stage| self.layers(stage))
    }
}

/// Why layers cannot be split so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The number of stages is 0.
    #[error("there are 0 pipeline stages; a model needs at least 1")]
    NoStages,
    /// A stage would have no block.
    #[error(
        "stage {stage} of {num_stages} gets 0 transformer layers; give every stage at least 1, or use fewer stages"
    )]
    EmptyStage {
        /// The stage, counted from 0.
        stage: usize,
        /// All stages.
        num_stages: usize,
    },
    /// Some stage would have no block, however they were distributed.
    #[error(
        "{num_blocks} transformer layers cannot fill {num_stages} pipeline stages, every stage needs at least 1; use at \
         most {num_blocks} stages or more layers"
    )]
    MoreStagesThanBlocks {
        /// Stages asked for.
        num_stages: usize,
        /// Blocks of the model.
        num_blocks: usize,
    },
    /// The blocks per stage do not add up to the model's.
    #[error(
        "the stages' transformer layers add up to {sum} but the model has {num_blocks}; {} {}",
        if sum < num_blocks { "add" } else { "remove" },
        sum.abs_diff(*num_blocks)
    )]
    WrongSum {
        /// What they add up to.
        sum: usize,
        /// Blocks of the model.
        num_blocks: usize,
    },
    /// No layer is of the type that was to be distributed evenly.
    #[error(
        "the pattern matches none of the model's {num_layers} layers, so there is nothing to distribute evenly; match at \
         least one layer, or use the uniform split"
    )]
    NoLayerMatches {
        /// Layers of the model.
        num_layers: usize,
    },
}
