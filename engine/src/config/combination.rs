//! What a combination of ZeRO level and grid costs: closed forms, for the table beside a refusal.
//!
//! A refused combination has no program, so nothing can be counted from one; these formulas are for comparing rows of
//! one table. What an allowed run holds and sends is counted from its program by `plan`, padding and all.
//!
//! With P parameters on the fullest stage, U in its largest unit, data degree d, m micro-batches, prefetch k, f32, and
//! s f32 of optimizer state per parameter (ZeRO, arXiv:1910.02054, section 5 for memory and section 7 for traffic):
//!
//! | | parameters | gathered | gradients | optimizer | sent per step |
//! |---|---|---|---|---|---|
//! | ZeRO-1 | 4P | | 4P | 4sP/d | 2 G |
//! | ZeRO-2 | 4P | | 4P/d + 8U | 4sP/d | (m + 1) G |
//! | ZeRO-3 | 4P/d | 4U (1 + k) | 4P/d + 8U | 4sP/d | at most 3m G |
//!
//! where G = 4P (d - 1) / d is what a rank sends in one all-gather or one reduce-scatter of the stage. ZeRO-2 and ZeRO-3
//! reduce after every micro-batch: one unit's gradient is being made while another is on its way, hence 8U. ZeRO-3
//! gathers for every forward and every backward pass unless a unit is still there from the pass before.

use std::fmt;

use super::resolved::{GptConfig, ModelConfig, PartitionConfig};

/// The costs of a refused combination and of those that may stand in for it, a row each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombinationTable {
    /// The refused one first.
    pub rows: Vec<CombinationRow>,
}

/// Bytes of one rank of the fullest stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombinationRow {
    /// The combination in words.
    pub name: String,
    /// Parameters at rest.
    pub parameters_bytes: u128,
    /// Gathered copies of parameters.
    pub gathered_bytes: u128,
    /// Gradients.
    pub gradients_bytes: u128,
    /// Optimizer state.
    pub optimizer_bytes: u128,
    /// Sent to the other data ranks in a step.
    pub sent_bytes: u128,
}

/// The run that combinations are compared for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Study<'a> {
    pub(crate) model: &'a ModelConfig,
    pub(crate) partition: &'a PartitionConfig,
    /// p.
    pub(crate) pipeline: usize,
    /// d.
    pub(crate) data: usize,
    /// m.
    pub(crate) num_micro_batches: usize,
    /// Layers of a unit, for ZeRO-3 with units.
    pub(crate) unit_layers: usize,
    /// k.
    pub(crate) prefetch_units: usize,
    /// s.
    pub(crate) optimizer_states: u128,
}

impl Study<'_> {
    /// ZeRO-2 with a pipeline, both ways to do it, beside what is allowed.
    pub(crate) fn of_zero2(&self) -> CombinationTable {
        let grid = self.grid();
        CombinationTable {
            rows: vec![
                self.reduced_once(format!("refused: ZeRO-2, {grid}, reduced once per step")),
                self.zero2(format!("refused: ZeRO-2, {grid}, reduced every micro-batch")),
                self.reduced_once(format!("ZeRO-1, {grid}")),
                self.zero3(self.name_of_units(), self.unit_parameters()),
                self.without_pipeline(),
            ],
        }
    }

    /// ZeRO-3 with a pipeline and one unit per stage, beside what is allowed: units, where a stage has layers for two.
    pub(crate) fn of_whole_stages(&self) -> CombinationTable {
        let grid = self.grid();
        let whole = format!("refused: ZeRO-3, {grid}, one unit per stage");
        let mut rows = vec![
            // There is no second unit to prefetch.
            Study { prefetch_units: 0, ..*self }.zero3(whole, self.stage_parameters()),
            self.reduced_once(format!("ZeRO-1, {grid}")),
        ];
        if self.smallest_stage_layers() > 1 {
            let one_layer = Study { unit_layers: 1, ..*self };
            rows.push(one_layer.zero3(one_layer.name_of_units(), one_layer.unit_parameters()));
        }
        rows.push(self.without_pipeline());
        CombinationTable { rows }
    }

    fn grid(&self) -> String {
        format!("pipeline {} x data {}", self.pipeline, self.data)
    }

    fn name_of_units(&self) -> String {
        let layers = if self.unit_layers == 1 { "layer" } else { "layers" };
        format!("ZeRO-3, {}, units of {} {layers}", self.grid(), self.unit_layers)
    }

    /// ZeRO-1's costs, which are also ZeRO-2's where gradients accumulate unsharded.
    fn reduced_once(&self, name: String) -> CombinationRow {
        let parameters = self.stage_parameters();
        CombinationRow {
            name,
            parameters_bytes: 4 * parameters,
            gathered_bytes: 0,
            gradients_bytes: 4 * parameters,
            optimizer_bytes: 4 * self.optimizer_states * self.shard(parameters),
            sent_bytes: 2 * self.collective_bytes(parameters),
        }
    }

    fn zero2(&self, name: String) -> CombinationRow {
        let parameters = self.stage_parameters();
        CombinationRow {
            name,
            parameters_bytes: 4 * parameters,
            gathered_bytes: 0,
            gradients_bytes: 4 * self.shard(parameters) + 8 * self.unit_parameters(),
            optimizer_bytes: 4 * self.optimizer_states * self.shard(parameters),
            sent_bytes: (self.num_micro_batches as u128 + 1) * self.collective_bytes(parameters),
        }
    }

    fn zero3(&self, name: String, unit_parameters: u128) -> CombinationRow {
        let parameters = self.stage_parameters();
        CombinationRow {
            name,
            parameters_bytes: 4 * self.shard(parameters),
            gathered_bytes: 4 * unit_parameters * (1 + self.prefetch_units as u128),
            gradients_bytes: 4 * self.shard(parameters) + 8 * unit_parameters,
            optimizer_bytes: 4 * self.optimizer_states * self.shard(parameters),
            sent_bytes: 3 * self.num_micro_batches as u128 * self.collective_bytes(parameters),
        }
    }

    /// ZeRO-2 on as many ranks, all of them data ranks, each with its part of the step's micro-batches.
    fn without_pipeline(&self) -> CombinationRow {
        let study = Study {
            partition: &PartitionConfig::Uniform,
            pipeline: 1,
            data: self.data * self.pipeline,
            num_micro_batches: self.num_micro_batches.div_ceil(self.pipeline),
            ..*self
        };
        study.zero2(format!("ZeRO-2, {}", study.grid()))
    }

    fn shard(&self, parameters: u128) -> u128 {
        parameters.div_ceil(self.data as u128)
    }

    /// G.
    fn collective_bytes(&self, parameters: u128) -> u128 {
        4 * (self.data as u128 - 1) * self.shard(parameters)
    }

    /// P. The stages between first and last have no more blocks than the first under a uniform partition, and neither
    /// embedding nor head.
    fn stage_parameters(&self) -> u128 {
        let ModelParameters { block, embedding, head } = ModelParameters::of(self.model, self.pipeline);
        let layers = self.model.sizes().num_layers;
        if self.pipeline == 1 {
            return block * layers as u128 + embedding + head;
        }
        let (first, inner, last) = match self.partition {
            PartitionConfig::Uniform => (layers.div_ceil(self.pipeline), 0, layers / self.pipeline),
            PartitionConfig::Manual(layers) => (
                layers.first().copied().unwrap_or(0),
                layers.iter().copied().max().unwrap_or(0),
                layers.last().copied().unwrap_or(0),
            ),
        };
        let first = block * first as u128 + embedding;
        let last = block * last as u128 + head;
        first.max(block * inner as u128).max(last)
    }

    fn smallest_stage_layers(&self) -> usize {
        match self.partition {
            PartitionConfig::Uniform => self.model.sizes().num_layers / self.pipeline,
            PartitionConfig::Manual(layers) => layers.iter().copied().min().unwrap_or(0),
        }
    }

    /// U. An untied embedding or head belongs to the unit beside it; a tied weight is a unit of its own.
    fn unit_parameters(&self) -> u128 {
        let sizes = self.model.sizes();
        let ModelParameters { block, embedding, head } = ModelParameters::of(self.model, self.pipeline);
        let blocks = block * self.unit_layers.min(sizes.num_layers) as u128;
        let unit = if sizes.tie_embeddings {
            let tied = vocab_parameters(sizes);
            let rest = embedding.saturating_sub(tied).max(head.saturating_sub(tied));
            tied.max(blocks + rest)
        } else {
            blocks + embedding.max(head)
        };
        unit.min(self.stage_parameters())
    }
}

/// Parameters of a model's parts.
struct ModelParameters {
    /// Of one transformer block.
    block: u128,
    /// Of what joins the first stage.
    embedding: u128,
    /// Of what joins the last stage.
    head: u128,
}

impl ModelParameters {
    /// A tied weight counts where it is used; at p = 1 both uses share it.
    fn of(model: &ModelConfig, pipeline: usize) -> Self {
        let sizes = model.sizes();
        let hidden = sizes.hidden_size as u128;
        let vocab = vocab_parameters(sizes);
        let head = if sizes.tie_embeddings && pipeline == 1 { 0 } else { vocab };
        match model {
            // Per block: attention 4h^2 + 4h, MLP 8h^2 + 5h, two norms 4h. Positions Th, final norm 2h.
            ModelConfig::Gpt2(_) => Self {
                block: 12 * hidden * hidden + 13 * hidden,
                embedding: vocab + sizes.seq_length as u128 * hidden,
                head: head + 2 * hidden,
            },
            ModelConfig::Mlp(_) => Self { block: hidden * hidden + hidden, embedding: vocab, head },
        }
    }
}

fn vocab_parameters(sizes: &GptConfig) -> u128 {
    sizes.vocab_size as u128 * sizes.hidden_size as u128
}

/// Parameters of the whole model, a tied weight counted once.
pub(crate) fn num_parameters(model: &ModelConfig) -> u128 {
    let ModelParameters { block, embedding, head } = ModelParameters::of(model, 1);
    block * model.sizes().num_layers as u128 + embedding + head
}

/// Parameters of a model of any size, rounded: for the test that they can be counted at all.
pub(crate) fn approximate_parameters(model: &ModelConfig) -> f64 {
    let sizes = model.sizes();
    let hidden = sizes.hidden_size as f64;
    let per_block = match model {
        ModelConfig::Gpt2(_) => 12.0 * hidden * hidden + 13.0 * hidden,
        ModelConfig::Mlp(_) => hidden * hidden + hidden,
    };
    per_block * sizes.num_layers as f64
        + hidden * (2.0 * sizes.vocab_size as f64 + sizes.seq_length as f64 + 2.0)
}

impl fmt::Display for CombinationTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["per rank", "parameters", "gathered", "gradients", "optimizer", "total", "sent per step"];
        let mut cells = vec![head.map(str::to_owned)];
        cells.extend(self.rows.iter().map(CombinationRow::cells));
        let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        for (i, row) in cells.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "  {:<1$}", row[0], widths[0])?;
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                write!(f, "  {cell:>width$}")?;
            }
        }
        Ok(())
    }
}

impl CombinationRow {
    fn cells(&self) -> [String; 7] {
        let total = self.parameters_bytes + self.gathered_bytes + self.gradients_bytes + self.optimizer_bytes;
        [
            self.name.clone(),
            bytes(self.parameters_bytes),
            bytes(self.gathered_bytes),
            bytes(self.gradients_bytes),
            bytes(self.optimizer_bytes),
            bytes(total),
            bytes(self.sent_bytes),
        ]
    }
}

/// Bytes in the largest unit that leaves at least 1.
fn bytes(count: u128) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
