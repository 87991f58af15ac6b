//! Refuses ZeRO-3 in a pipeline where one unit holds all layers of a rank, with the alternatives and what they cost.

use pipezero_config::{
    Checkpointing, CombinationTable, PartitionConfig, Refusal, ResidencyConfig, Run, UnitLayers, ZeroLevel,
};
use pipezero_schedule::{PipelineRank, Unit};

use super::price::{as_zero_1, row, without_pipeline};
use crate::{Plan, PlanError};

impl Plan {
    /// A rank that trains under ZeRO-3 and has all its layers in one unit, unless that is whole. A tied weight and a slice are units of their
    /// own: in a pipeline, one layer beside it is not alone, but several layers in one unit are.
    pub(crate) fn lone_unit(&self) -> Option<(PipelineRank, Unit)> {
        if self.run.zero.level != ZeroLevel::Zero3 || !self.run.trains() {
            return None;
        }
        // A whole unit is reduced once, as under ZeRO-1; a persistent one makes it ZeRO-2.
        let is_refused = |unit: &Unit| !self.unit(*unit).is_whole();
        let lone = |rank| Some((rank, self.lone_unit_of(rank).filter(is_refused)?));
        self.training.ranks().find_map(lone)
    }

    /// The unit that holds all layers of a rank, whatever becomes of it.
    pub(crate) fn lone_unit_of(&self, rank: PipelineRank) -> Option<Unit> {
        let in_pipeline = self.grid.pipeline_degree > 1;
        let has_table = self.units_of(rank).any(|(_, unit)| unit.is_table());
        let mut units = self.units_of(rank).filter(|(_, unit)| !unit.is_table());
        let (first, unit) = units.next()?;
        let is_alone = !(in_pipeline && has_table) || self.num_blocks(unit.layers.clone()) > 1;
        (units.next().is_none() && is_alone).then_some(first)
    }

    /// Whether users are refused this plan.
    pub(crate) fn is_refused(&self) -> bool {
        (self.grid.pipeline_degree > 1 && self.lone_unit().is_some()) || !self.zero_2_ranks().is_empty()
    }

    /// Refuses a lone unit in a pipeline, since everything would be gathered for every micro-batch.
    ///
    /// # Errors
    /// [`PlanError::LoneUnit`].
    pub(crate) fn refuse_lone_unit(&self) -> Result<(), PlanError> {
        if self.grid.pipeline_degree == 1 {
            return Ok(());
        }
        let Some((rank, unit)) = self.lone_unit() else { return Ok(()) };
        let partition = match &self.run.parallel.partition {
            PartitionConfig::Uniform => "\"uniform\"".to_owned(),
            PartitionConfig::Manual(layers) => format!("{layers:?}"),
            PartitionConfig::Parameters => "\"parameters\"".to_owned(),
            PartitionConfig::Type(pattern) => format!("\"type:{pattern}\""),
            PartitionConfig::Balanced => "\"balanced\"".to_owned(),
        };
        let layers = self.unit(unit).layers.clone();
        let name = |layer: usize| &self.graph.layer(layer).name;
        let (repairs, table) = self.instead_of_lone_unit();
        let headline = format!(
            "ZeRO-3 with one unit for all layers of a rank is incompatible with pipeline parallelism (`parallel.pipeline` is {}, \
             and with the split {partition} one unit holds all layers of pipeline rank {}, {} to {})",
            self.grid.pipeline_degree,
            rank.index(),
            name(layers.start),
            name(layers.end - 1)
        );
        let reason = match self.run.batch.num_micro_batches {
            1 => "everything would be gathered at once, and the peak memory is that of no sharding",
            _ => {
                "everything would be gathered for every micro-batch, and the peak memory is that of no sharding"
            }
        };
        let table = Some(table);
        Err(PlanError::LoneUnit(Box::new(Refusal { headline, reason: reason.to_owned(), repairs, table })))
    }

    /// What to write instead, and what each costs beside the refused.
    fn instead_of_lone_unit(&self) -> (Vec<String>, CombinationTable) {
        let (pipeline, data) = (self.grid.pipeline_degree, self.grid.data_degree);
        let name = format!("refused: ZeRO-3, pipeline {pipeline} x data {data}, one unit on a rank");
        let mut rows = vec![row(name, &self.forecast())];
        // Whether it exceeds `memory`, and its bytes.
        let mut repairs: Vec<((bool, u128), String)> = Vec::new();
        let fits = |plan: &Self| self.run.memory_bytes.is_none_or(|limit| plan.needs().rank_bytes <= limit);
        // Whether the alternative works, and is ZeRO-3.
        let mut offer = |Alternative { repair, name, change }: Alternative| {
            let Some(plan) = self.without_lone_unit(change) else { return false };
            let row = row(name, &plan.forecast());
            let order = (!fits(&plan), row.total_bytes());
            repairs.extend(repair.map(|repair| (order, repair.to_owned())));
            rows.push(row);
            plan.run.zero.level == ZeroLevel::Zero3
        };
        let mut has_zero_3 = false;
        for alternative in alternatives(pipeline, data) {
            has_zero_3 |= offer(alternative);
        }
        // Where the run has one of the two, the other was tried alone.
        let has_neither = self.run.parallel.partition != PartitionConfig::Uniform
            && self.run.zero.unit_layers != UnitLayers::ONE;
        if !has_zero_3 && has_neither {
            has_zero_3 = offer(uniform_units_of_1_layer(pipeline, data));
        }
        // The one that needs the fewest bytes in the table comes first. What would not fit is left out, unless nothing does.
        repairs.sort_by_key(|(order, _)| *order);
        if repairs.first().is_some_and(|((exceeds, _), _)| !exceeds) {
            repairs.retain(|((exceeds, _), _)| !exceeds);
        }
        let mut repairs: Vec<String> = repairs.into_iter().map(|(_, repair)| repair).collect();
        if !has_zero_3 {
            repairs.extend(self.shorter_pipeline().map(|pipeline| {
                let of_each = if matches!(self.asked_residency, ResidencyConfig::PerRank(_)) {
                    // A list has a number for each pipeline rank.
                    ", \"resident_units\": \"level\""
                } else {
                    ""
                };
                format!("\"pipeline\": {pipeline}{of_each}")
            }));
        }
        (repairs, CombinationTable { rows })
    }

    /// Half as many pipeline ranks, or a quarter, and so on, where each of them has several units.
    fn shorter_pipeline(&self) -> Option<usize> {
        let shorter = |&pipeline: &usize| (pipeline > 3).then_some(pipeline / 2);
        let mut pipelines = std::iter::successors(Some(self.grid.pipeline_degree), shorter).skip(1);
        pipelines.find(|&pipeline| {
            let plan = self.without_lone_unit(|run| {
                run.parallel.pipeline = pipeline;
                run.zero.resident_units = self.least_residency();
            });
            plan.is_some()
        })
    }

    /// The plan of this run with something changed, if that leaves no rank a lone unit.
    fn without_lone_unit(&self, change: impl FnOnce(&mut Run)) -> Option<Self> {
        let mut run = self.asked_run();
        run.zero.resident_units = self.run.zero.resident_units.clone();
        run.checkpointing = self.run.checkpointing;
        let before = run.clone();
        change(&mut run);
        if run == before || !self.suits_recomputation(&run) {
            return None;
        }
        // Not every model has halves, not every split as many layers as that.
        let plan = Self::planned(run, self.model.clone()).ok()?;
        (plan.lone_unit().is_none() && !plan.is_refused()).then_some(plan)
    }
}

impl Plan {
    /// Whether recomputation as the file says it goes with a run's units, which it never crosses.
    fn suits_recomputation(&self, run: &Run) -> bool {
        match (run.checkpointing, run.zero.unit_layers) {
            _ if self.auto_recomputation.is_some() => true,
            (Checkpointing::Layers(_), UnitLayers::Half) => false,
            (Checkpointing::Layers(layers), UnitLayers::Blocks(unit)) => layers <= unit.get(),
            _ => true,
        }
    }
}

/// What may stand in for the refused.
struct Alternative {
    /// What to write, if it is offered as a repair.
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
            change: |run| run.zero.unit_layers = UnitLayers::ONE,
        },
        Alternative {
            repair: Some("\"unit_layers\": 0.5"),
            name: format!("ZeRO-3, {own}, units of half a layer"),
            change: |run| run.zero.unit_layers = UnitLayers::Half,
        },
        Alternative { repair: Some("\"stage\": 1"), name: format!("ZeRO-1, {own}"), change: as_zero_1 },
        Alternative {
            repair: None,
            name: format!("ZeRO-2, pipeline 1 x data {}", pipeline * data),
            change: without_pipeline,
        },
    ]
}

/// Where either of the two changes alone leaves a rank a lone unit.
fn uniform_units_of_1_layer(pipeline: usize, data: usize) -> Alternative {
    Alternative {
        repair: Some("\"partition\": \"uniform\" together with \"unit_layers\": 1"),
        name: format!("ZeRO-3, pipeline {pipeline} x data {data}, uniform split, units of 1 layer"),
        change: |run| {
            run.parallel.partition = PartitionConfig::Uniform;
            run.zero.unit_layers = UnitLayers::ONE;
        },
    }
}
