//! ZeRO-3 whose unit holds everything on a rank, refused with a pipeline: the rule that the run file's reader cannot
//! check where the split follows from what layers cost.

use std::fmt;

use pipezero_schedule::{PipelineRank, Unit};

use super::{Plan, PlanError, RankForecast};
use crate::config::{
    CombinationRow, CombinationTable, PartitionConfig, ReductionPolicy, Run, ScheduleConfig,
    UnitLayersConfig, ZeroLevel,
};

/// A unit that holds everything on its rank, and what to do instead.
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
    /// Keys and values to write instead.
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
            "ZeRO-3 with one unit per stage is incompatible with pipeline parallelism (`parallel.pipeline` is {pipeline}, and \
             `parallel.partition` \"{partition}\" leaves pipeline rank {pipeline_rank} a single unit, {first_layer} to \
             {last_layer}): everything would be gathered for every micro-batch, and the peak memory is that of no sharding; \
             write {}\n\n{table}",
            repairs.join(", or ")
        )
    }
}

impl Plan {
    /// A rank of a pipeline that has one unit alone, under ZeRO-3: it gathers everything for every micro-batch.
    pub(super) fn lone_unit(&self) -> Option<(PipelineRank, Unit)> {
        if self.run.zero.level != ZeroLevel::Zero3 || self.grid.pipeline_degree == 1 {
            return None;
        }
        (0..self.grid.pipeline_degree as u32).map(PipelineRank).find_map(|rank| {
            let mut units = self.units_of(rank).map(|(unit, _)| unit);
            let first = units.next()?;
            units.next().is_none().then_some((rank, first))
        })
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
        let mut rows = vec![row(name, &self.forecast())];
        let mut repairs = Vec::new();
        for Alternative { repair, name, change } in alternatives(pipeline, data) {
            let mut run = self.run.clone();
            change(&mut run);
            // Not every model has halves, not every split as many layers as that.
            let Ok(plan) = Self::planned(run, self.model.clone()) else { continue };
            if plan.lone_unit().is_none() {
                repairs.extend(repair.map(str::to_owned));
                rows.push(row(name, &plan.forecast()));
            }
        }
        (repairs, CombinationTable { rows })
    }
}

/// What may stand in for the refused.
struct Alternative {
    /// How to write it, if one key does.
    repair: Option<&'static str>,
    /// How the table names it.
    name: String,
    change: fn(&mut Run),
}

fn alternatives(pipeline: usize, data: usize) -> [Alternative; 5] {
    let own = format!("pipeline {pipeline} x data {data}");
    [
        Alternative {
            repair: Some("\"partition\": \"uniform\""),
            name: format!("ZeRO-3, {own}, uniform split"),
            change: |run| run.parallel.partition = PartitionConfig::Uniform,
        },
        Alternative {
            repair: Some("\"unit_layers\": 1"),
            name: format!("ZeRO-3, {own}, units of 1 layer"),
            change: |run| run.zero.unit_layers = UnitLayersConfig::Layers(1),
        },
        Alternative {
            repair: Some("\"unit_layers\": 0.5"),
            name: format!("ZeRO-3, {own}, units of half a layer"),
            change: |run| run.zero.unit_layers = UnitLayersConfig::Half,
        },
        Alternative {
            repair: Some("\"stage\": 1"),
            name: format!("ZeRO-1, {own}"),
            change: |run| {
                run.zero.level = ZeroLevel::Zero1;
                run.zero.reduce = ReductionPolicy::Last;
            },
        },
        Alternative {
            repair: None,
            name: format!("ZeRO-2, pipeline 1 x data {}", pipeline * data),
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
fn row(name: String, ranks: &[RankForecast]) -> CombinationRow {
    let held = |rank: &&RankForecast| {
        let memory = &rank.memory;
        memory.parameters + memory.gathered + memory.gradients + memory.optimizer
    };
    let fullest = ranks.iter().max_by_key(held).expect("a grid has ranks");
    let (memory, traffic) = (&fullest.memory, &fullest.traffic);
    CombinationRow {
        name,
        parameters_bytes: memory.parameters.into(),
        gathered_bytes: memory.gathered.into(),
        gradients_bytes: memory.gradients.into(),
        optimizer_bytes: memory.optimizer.into(),
        sent_bytes: u128::from(traffic.all_gather.bytes) + u128::from(traffic.reduce_scatter.bytes),
    }
}
