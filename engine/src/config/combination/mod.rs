//! What a combination of ZeRO level and grid costs: closed forms, for the table beside a refusal.
//!
//! A refused combination has no program, so nothing can be counted from one; these formulas are for comparing rows of
//! one table. What an allowed run holds and sends is counted from its program by `plan`, padding and all.
//!
//! The formulas are [`Combination`]'s; here is what goes into them: P, the parameters of the fullest rank, and U, those of
//! its largest unit, from the model's sizes alone.

mod parameters;

use std::fmt;

use pipezero_partition::{Combination, CombinationBytes, ElementBytes, ReductionPolicy, Sharding, ZeroLevel};

use super::resolved::{ModelConfig, UnitLayersConfig};
use parameters::ModelParameters;

pub(crate) use parameters::{approximate_parameters, num_parameters};

/// The costs of a refused combination and of those that may stand in for it, a row each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombinationTable {
    /// The refused one first.
    pub rows: Vec<CombinationRow>,
}

/// Bytes of the fullest rank, or of the stage that the name gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CombinationRow {
    /// The combination in words.
    pub name: String,
    /// Which of those that may stand in for the refused it is; `None` for the refused.
    pub allowed: Option<Allowed>,
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

/// What may stand in for a refused combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// ZeRO-1 on the same grid.
    Zero1,
    /// ZeRO-3 on the same grid, in units of which a rank has several.
    Zero3,
    /// ZeRO-2 on as many ranks, all of them data ranks.
    NoPipeline,
}

/// The run that combinations are compared for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Study<'a> {
    pub(crate) model: &'a ModelConfig,
    /// What lies on each pipeline rank; p of them.
    pub(crate) ranks: &'a [RankLayers],
    /// d.
    pub(crate) data: usize,
    /// m.
    pub(crate) num_micro_batches: usize,
    /// The rank that rows are of; the fullest where it is `None`.
    pub(crate) priced: Option<PricedRank>,
    /// How large units are, for ZeRO-3 with units.
    pub(crate) unit_layers: UnitLayersConfig,
    /// c.
    pub(crate) gathered_units: usize,
    pub(crate) element_bytes: ElementBytes,
    /// Without a master copy.
    pub(crate) num_optimizer_states: u64,
}

/// A rank that is not the fullest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PricedRank {
    /// Its place along the pipeline axis.
    pub(crate) rank: usize,
    /// Its only stage, where the file alone says which one it is.
    pub(crate) stage: Option<usize>,
}

/// What lies on one pipeline rank.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RankLayers {
    /// Transformer blocks of all its stages.
    pub(crate) layers: usize,
    /// Those of its largest stage.
    pub(crate) largest_stage: usize,
    pub(crate) has_embedding: bool,
    pub(crate) has_head: bool,
}

impl Study<'_> {
    /// ZeRO-2 with a pipeline, both ways to do it, beside what is allowed.
    pub(crate) fn of_zero2(&self) -> CombinationTable {
        let grid = self.grid();
        CombinationTable {
            rows: vec![
                self.reduced_once(format!("refused: ZeRO-2, {grid}, reduced once per step")),
                self.zero2(format!("refused: ZeRO-2, {grid}, reduced every micro-batch")),
                self.reduced_once(format!("ZeRO-1, {grid}")).allowed(Allowed::Zero1),
                self.zero3(self.name_of_units(), self.unit_parameters()).allowed(Allowed::Zero3),
                self.without_pipeline(),
            ],
        }
    }

    /// ZeRO-3 with a pipeline and one unit on rank `lone`, whose stage has `smallest_stage` layers, beside what is allowed:
    /// smaller units, where there are any. Rows are of that rank, unless the fullest has one unit too.
    pub(crate) fn of_whole_stages(&self, lone: PricedRank, smallest_stage: usize) -> CombinationTable {
        let parts = ModelParameters::of(self.model);
        let fullest = self.ranks.iter().max_by_key(|rank| parts.on(rank));
        let is_lone = |rank: &RankLayers| {
            rank.largest_stage == rank.layers && self.unit_layers.blocks_within(rank.layers) == rank.layers
        };
        let priced = if fullest.is_some_and(is_lone) { None } else { Some(lone) };
        Study { priced, ..*self }.whole_stages(smallest_stage)
    }

    fn whole_stages(&self, smallest_stage: usize) -> CombinationTable {
        let grid = self.grid();
        let whole = format!("refused: ZeRO-3, {grid}, one unit per stage");
        let mut rows = vec![
            // There is no second unit to prefetch.
            Study { gathered_units: 1, ..*self }.zero3(whole, self.rank_parameters()),
            self.reduced_once(format!("ZeRO-1, {grid}")).allowed(Allowed::Zero1),
        ];
        let smaller = match self.model {
            _ if smallest_stage > 1 => Some(UnitLayersConfig::Layers(1)),
            ModelConfig::Gpt2(_) => Some(UnitLayersConfig::Half),
            ModelConfig::Mlp(_) | ModelConfig::Timed(_) => None,
        };
        if let Some(unit_layers) = smaller {
            let study = Study { unit_layers, ..*self };
            let row = study.zero3(study.name_of_units(), study.unit_parameters());
            rows.push(row.allowed(Allowed::Zero3));
        }
        rows.push(self.without_pipeline());
        CombinationTable { rows }
    }

    fn grid(&self) -> String {
        let grid = format!("pipeline {} x data {}", self.ranks.len(), self.data);
        match self.priced {
            None => grid,
            Some(PricedRank { stage: Some(stage), .. }) => format!("{grid}, stage {stage}"),
            Some(PricedRank { stage: None, .. }) => format!("{grid}, smallest stage"),
        }
    }

    /// The ranks that rows are of.
    fn priced_ranks(&self) -> &[RankLayers] {
        match self.priced {
            Some(PricedRank { rank, .. }) => &self.ranks[rank..=rank],
            None => self.ranks,
        }
    }

    fn name_of_units(&self) -> String {
        let unit = match self.unit_layers {
            UnitLayersConfig::Half => "half a layer".to_owned(),
            UnitLayersConfig::Layers(1) => "1 layer".to_owned(),
            UnitLayersConfig::Layers(layers) => format!("{} layers", layers.min(self.largest_stage())),
            UnitLayersConfig::Stage => format!("{} layers", self.largest_stage()),
        };
        format!("ZeRO-3, {}, units of {unit}", self.grid())
    }

    /// ZeRO-1's costs, which are also ZeRO-2's where gradients accumulate unsharded.
    fn reduced_once(&self, name: String) -> CombinationRow {
        self.row(name, ZeroLevel::Zero1, ReductionPolicy::Last, 0)
    }

    fn zero2(&self, name: String) -> CombinationRow {
        self.row(name, ZeroLevel::Zero2, ReductionPolicy::Every, self.unit_parameters())
    }

    fn zero3(&self, name: String, unit_parameters: u128) -> CombinationRow {
        self.row(name, ZeroLevel::Zero3, ReductionPolicy::Every, unit_parameters)
    }

    fn row(
        &self,
        name: String,
        level: ZeroLevel,
        reduce: ReductionPolicy,
        unit_parameters: u128,
    ) -> CombinationRow {
        let combination = Combination {
            sharding: Sharding { level, reduce, data_degree: self.data as u64 },
            element_bytes: self.element_bytes,
            num_optimizer_states: self.num_optimizer_states,
            stage_parameters: self.rank_parameters(),
            unit_parameters,
            gathered_units: self.gathered_units as u128,
            num_micro_batches: self.num_micro_batches as u128,
        };
        let CombinationBytes { parameters, gathered, gradients, optimizer, sent } = combination.bytes();
        CombinationRow {
            name,
            allowed: None,
            parameters_bytes: parameters,
            gathered_bytes: gathered,
            gradients_bytes: gradients,
            optimizer_bytes: optimizer,
            sent_bytes: sent,
        }
    }

    /// ZeRO-2 on as many ranks, all of them data ranks, each with its part of the step's micro-batches.
    fn without_pipeline(&self) -> CombinationRow {
        let pipeline = self.ranks.len();
        let layers = self.model.num_layers();
        let whole = RankLayers { layers, largest_stage: layers, has_embedding: true, has_head: true };
        let study = Study {
            ranks: &[whole],
            priced: None,
            data: self.data * pipeline,
            num_micro_batches: self.num_micro_batches.div_ceil(pipeline),
            ..*self
        };
        study.zero2(format!("ZeRO-2, {}", study.grid())).allowed(Allowed::NoPipeline)
    }

    /// P.
    fn rank_parameters(&self) -> u128 {
        let parts = ModelParameters::of(self.model);
        self.priced_ranks().iter().map(|rank| parts.on(rank)).max().unwrap_or(0)
    }

    fn largest_stage(&self) -> usize {
        self.priced_ranks().iter().map(|rank| rank.largest_stage).max().unwrap_or(0)
    }

    /// U. An untied embedding or head belongs to the unit beside it; a tied weight is a unit of its own.
    fn unit_parameters(&self) -> u128 {
        let parts = ModelParameters::of(self.model);
        let ModelParameters { block, half, embedding, head, tied } = parts;
        let blocks = match self.unit_layers {
            UnitLayersConfig::Half => half,
            UnitLayersConfig::Layers(layers) => block * layers.min(self.model.num_layers()) as u128,
            UnitLayersConfig::Stage => block * self.largest_stage() as u128,
        };
        let any = |holds: fn(&RankLayers) -> bool| self.priced_ranks().iter().any(holds);
        let embedding = if any(|rank| rank.has_embedding) { embedding } else { tied };
        let head = if any(|rank| rank.has_head) { head } else { tied };
        let table = if any(|rank| rank.has_embedding || rank.has_head) { tied } else { 0 };
        let unit = table.max(blocks + (embedding - tied).max(head - tied));
        unit.min(self.rank_parameters())
    }
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
    fn allowed(self, allowed: Allowed) -> Self {
        Self { allowed: Some(allowed), ..self }
    }

    /// What the rank holds in all.
    pub fn total_bytes(&self) -> u128 {
        let held = [self.parameters_bytes, self.gathered_bytes, self.gradients_bytes, self.optimizer_bytes];
        held.into_iter().fold(0, u128::saturating_add)
    }

    fn cells(&self) -> [String; 7] {
        [
            self.name.clone(),
            bytes(self.parameters_bytes),
            bytes(self.gathered_bytes),
            bytes(self.gradients_bytes),
            bytes(self.optimizer_bytes),
            bytes(self.total_bytes()),
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
