//! ZeRO-3 whose unit holds all layers of a rank, refused with a pipeline: the rule that the run file's reader cannot
//! check where the split follows from what layers cost.

use std::fmt;

use pipezero_partition::{LayerRole, Tying};
use pipezero_schedule::{PipelineRank, Unit};

use super::{Plan, PlanError, PlannedUnit, RankForecast};
use crate::config::{
    Allowed, CombinationRow, CombinationTable, PartitionConfig, ReductionPolicy, Run, ScheduleConfig,
    UnitLayersConfig, ZeroLevel,
};

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
    /// Keys and values to write instead, the one that needs the fewest bytes first.
    pub repairs: Vec<String>,
    /// What the combination costs beside those that are allowed, counted from their programs.
    pub table: CombinationTable,
}

/// In the words with which the run file's reader refuses the same.
impl fmt::Display for LoneUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pipeline, pipeline_rank, partition, first_layer, last_layer, repairs, table } = self;
        write!(
            f,
            "ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is {pipeline}, and \
             `parallel.partition` \"{partition}\" leaves pipeline rank {pipeline_rank} a single unit of layers, {first_layer} \
             to {last_layer}): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; \
             write {}\n\n{table}",
            repairs.join(", or ")
        )
    }
}

impl Plan {
    /// A rank of a pipeline that has all its layers in one unit, under ZeRO-3: it gathers everything for every micro-batch.
    /// A tied weight is a unit of its own: beside it one layer may be alone, but not several in a unit that is too large.
    pub(super) fn lone_unit(&self) -> Option<(PipelineRank, Unit)> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.grid.pipeline_degree == 1 {
            return None;
        }
        self.training.ranks().find_map(|rank| {
            let has_tied = self.units_of(rank).any(|(_, unit)| unit.tying != Tying::Untied);
            let mut units = self.units_of(rank).filter(|(_, unit)| unit.tying == Tying::Untied);
            let (first, unit) = units.next()?;
            let is_lone = units.next().is_none() && (!has_tied || self.num_blocks(unit) > 1);
            is_lone.then_some((rank, first))
        })
    }

    /// Transformer layers that a unit has a part of.
    fn num_blocks(&self, unit: &PlannedUnit) -> usize {
        let index_of = |layer| match self.graph.layer(layer).role {
            LayerRole::Block { index } => Some(index),
            LayerRole::Embedding | LayerRole::Head => None,
        };
        let mut blocks: Vec<usize> = unit.layers.clone().filter_map(index_of).collect();
        blocks.dedup();
        blocks.len()
    }

    /// Refuses a lone unit where the split is the plan's own. Uniform and manual splits are the file's, and so is the
    /// check of them: a run made by hand is free to have them.
    ///
    /// # Errors
    /// [`PlanError::LoneUnit`].
    pub(super) fn refuse_lone_unit(&self) -> Result<(), PlanError> {
        let partition = match &self.run.parallel.partition {
            PartitionConfig::Uniform | PartitionConfig::Manual(_) => return Ok(()),
            PartitionConfig::Parameters => "parameters".to_owned(),
            PartitionConfig::Type(pattern) => format!("type:{pattern}"),
            PartitionConfig::Balanced => "balanced".to_owned(),
        };
        let Some((rank, unit)) = self.lone_unit() else { return Ok(()) };
        let layers = self.unit(unit).layers.clone();
        let name = |layer: usize| self.graph.layer(layer).name.clone();
        let (repairs, table) = self.instead_of_lone_unit();
        Err(PlanError::LoneUnit(Box::new(LoneUnit {
            pipeline: self.grid.pipeline_degree,
            pipeline_rank: rank.index(),
            partition,
            first_layer: name(layers.start),
            last_layer: name(layers.end - 1),
            repairs,
            table,
        })))
    }

    /// What to write instead, and what each costs beside the refused.
    fn instead_of_lone_unit(&self) -> (Vec<String>, CombinationTable) {
        let (pipeline, data) = (self.grid.pipeline_degree, self.grid.data_degree);
        let name = format!("refused: ZeRO-3, pipeline {pipeline} x data {data}, one unit on a rank");
        let mut rows = vec![row(name, None, &self.forecast())];
        let mut repairs: Vec<(u128, String)> = Vec::new();
        for Alternative { repair, name, allowed, change } in alternatives(pipeline, data) {
            let mut run = self.run.clone();
            change(&mut run);
            // Not every model has halves, not every split as many layers as that.
            let Ok(plan) = Self::planned(run, self.model.clone()) else { continue };
            if plan.lone_unit().is_none() {
                let row = row(name, Some(allowed), &plan.forecast());
                repairs.extend(repair.map(|repair| (row.total_bytes(), repair.to_owned())));
                rows.push(row);
            }
        }
        // The one that needs the fewest bytes in the table comes first.
        repairs.sort_by_key(|(bytes, _)| *bytes);
        (repairs.into_iter().map(|(_, repair)| repair).collect(), CombinationTable { rows })
    }
}

/// What may stand in for the refused.
struct Alternative {
    /// How to write it, if one key does.
    repair: Option<&'static str>,
    /// How the table names it.
    name: String,
    allowed: Allowed,
    change: fn(&mut Run),
}

fn alternatives(pipeline: usize, data: usize) -> [Alternative; 5] {
    let own = format!("pipeline {pipeline} x data {data}");
    [
        Alternative {
            repair: Some("\"partition\": \"uniform\""),
            name: format!("ZeRO-3, {own}, uniform split"),
            allowed: Allowed::Zero3,
            change: |run| run.parallel.partition = PartitionConfig::Uniform,
        },
        Alternative {
            repair: Some("\"unit_layers\": 1"),
            name: format!("ZeRO-3, {own}, units of 1 layer"),
            allowed: Allowed::Zero3,
            change: |run| run.zero.unit_layers = UnitLayersConfig::Layers(1),
        },
        Alternative {
            repair: Some("\"unit_layers\": 0.5"),
            name: format!("ZeRO-3, {own}, units of half a layer"),
            allowed: Allowed::Zero3,
            change: |run| run.zero.unit_layers = UnitLayersConfig::Half,
        },
        Alternative {
            repair: Some("\"stage\": 1"),
            name: format!("ZeRO-1, {own}"),
            allowed: Allowed::Zero1,
            change: |run| {
                run.zero.level = ZeroLevel::Zero1;
                run.zero.reduce = ReductionPolicy::Last;
            },
        },
        Alternative {
            repair: None,
            name: format!("ZeRO-2, pipeline 1 x data {}", pipeline * data),
            allowed: Allowed::NoPipeline,
            change: without_pipeline,
        },
    ]
}

/// ZeRO-2 on as many ranks, all of them data ranks, each with its part of the step's micro-batches.
fn without_pipeline(run: &mut Run) {
    let pipeline = std::mem::replace(&mut run.parallel.pipeline, 1);
    run.parallel.data *= pipeline;
    run.parallel.schedule = ScheduleConfig::OneFOneB;
    run.parallel.virtual_stages = 1;
    run.batch.num_micro_batches = run.batch.num_micro_batches.div_ceil(pipeline);
    run.batch.train_batch_size = run.batch.micro_batch_size * run.batch.num_micro_batches * run.parallel.data;
    run.zero.level = ZeroLevel::Zero2;
    run.zero.reduce = ReductionPolicy::Every;
}

/// The rank with most of what sharding is about.
fn row(name: String, allowed: Option<Allowed>, ranks: &[RankForecast]) -> CombinationRow {
    let held = |rank: &&RankForecast| {
        let memory = &rank.memory;
        memory.parameters + memory.gathered + memory.gradients + memory.optimizer
    };
    let fullest = ranks.iter().max_by_key(held).expect("a grid has ranks");
    let (memory, traffic) = (&fullest.memory, &fullest.traffic);
    CombinationRow {
        name,
        allowed,
        parameters_bytes: memory.parameters.into(),
        gathered_bytes: memory.gathered.into(),
        gradients_bytes: memory.gradients.into(),
        optimizer_bytes: memory.optimizer.into(),
        sent_bytes: u128::from(traffic.all_gather.bytes) + u128::from(traffic.reduce_scatter.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{RunFile, World};

    /// The plan of 6 blocks on two pipeline ranks, or why the file or the plan refuses it.
    fn planned(partition: &str, tied: bool, zero: &str) -> Result<Plan, String> {
        let text = format!(
            r#"{{
                "model": {{"family": "gpt2", "num_layers": 6, "hidden_size": 16, "num_attention_heads": 2, "seq_length": 8,
                    "vocab_size": 768, "tie_embeddings": {tied}}},
                "data": {{"text": "text"}},
                "parallel": {{"pipeline": 2, "data": 2, "partition": {partition}}},
                "zero_optimization": {zero},
                "train_batch_size": 8,
                "optimizer": {{"type": "AdamW", "params": {{"lr": 0.01}}}},
                "steps": 1
            }}"#
        );
        let file = RunFile::parse("run.json", &text).map_err(|error| error.to_string())?;
        let (run, _) = file.resolve(World::this_host()).map_err(|error| error.to_string())?;
        Plan::new(run).map_err(|error| error.to_string())
    }

    /// The head costs as much as four blocks, so that the last stage gets one. Where the head's weight is tied it is a unit of
    /// its own and the stage has two; else block and head are one.
    #[test]
    fn a_split_is_refused_however_it_is_written() {
        let mut num_refused = 0;
        for tied in [false, true] {
            let balanced = planned("\"balanced\"", tied, r#"{"stage": 1}"#).unwrap();
            assert_eq!(
                balanced.units().iter().filter(|unit| unit.stage.0 == 0).count(),
                5 + usize::from(tied)
            );
            // From 3 on the file's reader refuses what is left to costs, whatever the split would be.
            for unit_layers in ["0.5", "1", "2"] {
                let zero = format!(r#"{{"stage": 3, "unit_layers": {unit_layers}}}"#);
                let [by_cost, by_hand] =
                    ["\"balanced\"", "[5, 1]"].map(|partition| planned(partition, tied, &zero).err());
                let is_refused = |error: &Option<String>| {
                    let told = "ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism";
                    error.as_ref().inspect(|error| assert!(error.contains(told), "{error}")).is_some()
                };
                assert_eq!(is_refused(&by_cost), is_refused(&by_hand), "tied: {tied}, {zero}: {by_cost:?}");
                let is_lone = unit_layers != "0.5" && !tied;
                assert_eq!(is_refused(&by_hand), is_lone, "tied: {tied}, {zero}");
                num_refused += usize::from(is_refused(&by_hand));
            }
        }
        assert_eq!(num_refused, 2);
        // Several layers in one unit are too many, also beside a tied weight.
        let zero = r#"{"stage": 3, "unit_layers": 2}"#;
        assert!(planned("[4, 2]", true, zero).is_err());
    }
}
