//! ZeRO-3 whose unit holds all layers of a rank: with a pipeline it is refused, since everything would be gathered for
//! every micro-batch.

use std::fmt;

use crate::config::{CombinationTable, Refusal};

/// A unit that holds all layers of its rank, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoneUnit {
    /// p.
    pub pipeline: usize,
    /// The rank with the unit.
    pub pipeline_rank: usize,
    /// How layers are split, as the run file spells it.
    pub partition: String,
    /// The unit's first layer.
    pub first_layer: String,
    /// Its last layer.
    pub last_layer: String,
    /// What to write instead, the one that needs the fewest bytes first.
    pub repairs: Vec<String>,
    /// What the combination costs beside those that are allowed, counted from their programs.
    pub table: CombinationTable,
}

impl LoneUnit {
    /// The refusal that a run file's reader is shown.
    pub(in crate::plan) fn refusal(&self) -> Refusal {
        let Self { pipeline, pipeline_rank, partition, first_layer, last_layer, repairs, table } = self;
        Refusal {
            headline: format!(
                "ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism \
                 (`parallel.pipeline` is {pipeline}, and the {partition} split leaves pipeline rank {pipeline_rank} a \
                 single unit of layers, {first_layer} to {last_layer})"
            ),
            reason: "everything would be gathered for every micro-batch, and the peak memory is that of no sharding"
                .to_owned(),
            repairs: repairs.clone(),
            table: Some(table.clone()),
        }
    }
}

impl fmt::Display for LoneUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal().fmt(f)
    }
}
