//! The plan: what every rank will do, hold and send, from the resolved run alone.
//!
//! A pure function of the run, so every rank computes the same one. It is the only place that knows the three leaves:
//! it cuts the model (`partition`), builds the layers (`models`), and has the program generated, lowered and checked
//! (`schedule`). What it predicts is what [`crate::Engine`] allocates and runs.

mod alternatives;
mod bytes;
pub mod costs;
mod cut;
mod error;
mod forecast;
mod from_file;
pub mod grid;
mod model;
mod programs;
mod refusal;
mod remarks;
mod residencies;
mod residency;
mod sizes;
mod stage_bytes;
mod stages;
mod units_too_large;

use std::ops::Range;

use pipezero_models::layer::MicroBatchShape;
use pipezero_models::unit::UnitSizes;
use pipezero_models::{ElementType, Model, Unit as ModelUnit};
use pipezero_partition::{LayerGraph, Tying};
use pipezero_schedule::closed_form::{bubble_share, looped_bubble_share};
use pipezero_schedule::simulate::{Links, idle_share};
use pipezero_schedule::{CheckedProgram, ComputeOrder, Edge, PipelineRank, Stage, Unit};

pub(crate) use alternatives::Changes;
pub use alternatives::{Change, Needs, changes_that_fit};
pub use bytes::Bytes;
pub use error::PlanError;
pub use forecast::{Persistent, RankForecast};
pub use from_file::FromFileError;
pub use model::gpt_config;
pub use pipezero_partition::{RankMemory, Traffic, Volume};
pub use refusal::LoneUnit;
pub use remarks::{PersistentUnits, Remark};
pub use residencies::ResidencyCost;
pub(crate) use sizes::{EdgeBuffers, RankSizes};
pub use units_too_large::UnitsTooLarge;

use self::cut::ChosenSplit;
use crate::config::{PartitionConfig, Precision, ReductionPolicy, ResidencyConfig, Run, ScheduleConfig};
use crate::plan::grid::Grid;
use pipezero_partition::ShardLayout;

/// One unit of the plan.
#[derive(Clone, Debug)]
pub struct PlannedUnit {
    /// The stage that it belongs to.
    pub stage: Stage,
    /// Its layers, with one flat parameter buffer.
    pub unit: ModelUnit,
    /// Their positions in the model's chain.
    pub layers: Range<usize>,
    /// Whether its weight is used twice.
    pub tying: Tying,
    /// How its flat buffer is cut over the data ranks.
    pub layout: ShardLayout,
    /// What it needs for a micro-batch.
    pub sizes: UnitSizes,
    /// Floating-point operations of a forward of one micro-batch.
    pub forward_flops: u64,
    /// Whether its weights stay gathered all step.
    pub is_persistent: bool,
}

impl PlannedUnit {
    /// Elements of its largest parameter, which decides whether it persists.
    pub(crate) fn largest_parameter(&self) -> u64 {
        self.unit.entries().iter().map(|entry| entry.range.len() as u64).max().unwrap_or(0)
    }
}

/// What every rank will do.
#[derive(Clone, Debug)]
pub struct Plan {
    run: Run,
    grid: Grid,
    shape: MicroBatchShape,
    model: Model,
    graph: LayerGraph,
    units: Vec<PlannedUnit>,
    order: ComputeOrder,
    training: CheckedProgram,
    evaluation: CheckedProgram,
    /// The embedding and the head that use a tied weight: looked up for every unit that is used.
    tied: Option<(Unit, Unit)>,
    /// Whether the split is proved to be the best by the measure of the run's method.
    is_split_proven: bool,
    /// Whether the run left the residency to its memory.
    is_residency_auto: bool,
}

impl Plan {
    /// Plans a run.
    ///
    /// # Errors
    /// When the model cannot be built or cut as the run says, or a rule is broken that depends on the cut; the run
    /// file's own rules have been checked before.
    pub fn new(run: Run) -> Result<Self, PlanError> {
        let model = model::build(&run.model)?;
        Self::with_model(run, model)
    }

    /// Plans a run of any model: one's own layers, or a loss of one's own. Of the run's model section only the length of
    /// a sequence counts. For [`crate::Engine::logits`] the last layer must save its logits `[N, V]` first.
    ///
    /// A run that was made by hand rather than resolved from a file is not held to the file's rules.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn with_model(run: Run, model: Model) -> Result<Self, PlanError> {
        let plan = Self::of_model(run, model)?;
        plan.refuse_lone_unit()?;
        plan.fitting()
    }

    /// The plan of a run that users are refused because it costs more than it gains: for tests and studies of just that.
    ///
    /// # Errors
    /// As [`Plan::new`], but for [`PlanError::LoneUnit`].
    pub fn even_if_refused(run: Run) -> Result<Self, PlanError> {
        let model = model::build(&run.model)?;
        Self::of_model(run, model)?.fitting()
    }

    fn of_model(run: Run, model: Model) -> Result<Self, PlanError> {
        match run.zero.resident_units {
            ResidencyConfig::Auto => Self::with_what_fits(run, model),
            _ => Self::planned_around(run, model),
        }
    }

    /// This plan, if every rank fits `memory`.
    fn fitting(self) -> Result<Self, PlanError> {
        match self.run.memory_bytes {
            Some(limit_bytes) if self.needs().rank_bytes > limit_bytes => {
                Err(self.rank_does_not_fit(limit_bytes))
            }
            _ => Ok(self),
        }
    }

    /// The plan of a run whose residency is resolved, whether it fits or not.
    ///
    /// A balanced split is bound by memory only where the fastest one does not fit, as its program tells; with one stage
    /// there is no other.
    fn planned(run: Run, model: Model) -> Result<Self, PlanError> {
        let limit_bytes = run.memory_bytes.filter(|_| run.parallel.partition == PartitionConfig::Balanced);
        if let Some(limit_bytes) = limit_bytes {
            let fastest = Self::planned_within(run.clone(), model.clone(), None)?;
            if fastest.needs().rank_bytes <= limit_bytes || run.parallel.num_stages() == 1 {
                return Ok(fastest);
            }
        }
        Self::planned_within(run, model, limit_bytes)
    }

    /// As [`Plan::planned`], and where a balanced split does not fit, or none is found, bounds around `memory` are tried.
    ///
    /// What a stage needs is estimated before there are programs, and the estimate errs to either side: a larger bound
    /// may lead to a split that fits after all, a smaller one to a split that fits where the estimate was too low. The
    /// first split whose program fits is taken; nobody has proved it the fastest.
    fn planned_around(run: Run, model: Model) -> Result<Self, PlanError> {
        let planned = Self::planned(run.clone(), model.clone());
        let is_bound = run.parallel.partition == PartitionConfig::Balanced && run.parallel.num_stages() > 1;
        let Some(limit_bytes) = run.memory_bytes.filter(|_| is_bound) else { return planned };
        let fits = |plan: &Self| plan.needs().rank_bytes <= limit_bytes;
        let is_settled = match &planned {
            Ok(plan) => fits(plan),
            Err(error) => !matches!(error, PlanError::StageMemory { .. }),
        };
        if is_settled {
            return planned;
        }
        // In 32nds of the limit, the nearest first.
        for part in [33, 31, 34, 30, 36, 28, 40, 24, 48, 64] {
            let bound_bytes = u128::from(limit_bytes) * part / 32;
            let bound_bytes = u64::try_from(bound_bytes).unwrap_or(u64::MAX);
            if let Ok(mut plan) = Self::planned_within(run.clone(), model.clone(), Some(bound_bytes))
                && fits(&plan)
            {
                plan.is_split_proven = false;
                return Ok(plan);
            }
        }
        planned
    }

    /// The plan of a run whose balanced split is bound by this memory of a rank.
    fn planned_within(run: Run, model: Model, limit_bytes: Option<u64>) -> Result<Self, PlanError> {
        let grid = Grid { pipeline_degree: run.parallel.pipeline, data_degree: run.parallel.data };
        let seq_length = run.model.seq_length();
        if seq_length > model.seq_length {
            return Err(PlanError::SequenceLength { seq_length, longest: model.seq_length });
        }
        let shape = MicroBatchShape { num_sequences: run.batch.micro_batch_size, seq_length };
        let graph = cut::graph(&model, shape)?;
        let order = programs::order(&run)?;
        let ChosenSplit { split, is_proven: is_split_proven } =
            cut::split(&run, &model, &graph, &order, shape, limit_bytes)?;
        let units = cut::units(&run, &model, &graph, shape, &split)?;
        let training = programs::training(&run, &order, &units)?;
        let evaluation = programs::evaluation(&run, &order.placement, &units)?;
        Ok(Self {
            run,
            grid,
            shape,
            model,
            graph,
            tied: tied(&units),
            units,
            order,
            training,
            evaluation,
            is_split_proven,
            is_residency_auto: false,
        })
    }

    /// Bytes of the units that a rank gathers, the largest first.
    fn gathered_unit_bytes(&self, rank: PipelineRank) -> Vec<u64> {
        let element_bytes = self.element_type().num_bytes();
        let units = self.units_of(rank).filter(|(_, unit)| !unit.is_persistent);
        let mut bytes: Vec<u64> =
            units.map(|(_, unit)| (element_bytes * unit.layout.padded_len()) as u64).collect();
        bytes.sort_unstable_by(|a, b| b.cmp(a));
        bytes
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The grid of ranks.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The shape of every micro-batch.
    pub fn micro_batch_shape(&self) -> MicroBatchShape {
        self.shape
    }

    /// V: tokens are below this number.
    pub fn vocab_size(&self) -> usize {
        self.model.vocab_size
    }

    /// The layers as a graph with their costs.
    pub fn graph(&self) -> &LayerGraph {
        &self.graph
    }

    /// All units in chain order.
    pub fn units(&self) -> &[PlannedUnit] {
        &self.units
    }

    /// One unit.
    pub fn unit(&self, unit: Unit) -> &PlannedUnit {
        &self.units[unit.index()]
    }

    /// The order of compute that the program was lowered from.
    pub fn order(&self) -> &ComputeOrder {
        &self.order
    }

    /// The program of a training step.
    pub fn training(&self) -> &CheckedProgram {
        &self.training
    }

    /// The program that computes the losses of one batch.
    pub fn evaluation(&self) -> &CheckedProgram {
        &self.evaluation
    }

    /// The pipeline rank of a stage.
    pub fn pipeline_rank_of(&self, stage: Stage) -> PipelineRank {
        self.training.placement().rank(stage)
    }

    /// The units of a pipeline rank with their numbers, in chain order.
    pub fn units_of(&self, rank: PipelineRank) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
        self.training.placement().stages(rank).flat_map(|stage| self.units_of_stage(stage))
    }

    /// The units of a stage, which lie side by side in the chain.
    fn units_of_stage(&self, stage: Stage) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
        let start = self.units.partition_point(|unit| unit.stage < stage);
        let end = self.units.partition_point(|unit| unit.stage <= stage);
        self.units[start..end].iter().zip(start as u32..).map(|(unit, index)| (Unit(index), unit))
    }

    /// The units that have parameters of their own, in chain order: a tied weight comes once, as the embedding.
    pub fn owned_units(&self) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
        self.numbered_units().filter(|(_, unit)| unit.tying != Tying::Head)
    }

    /// Number of parameters of the model, a tied weight counted once.
    pub fn num_parameters(&self) -> u64 {
        self.owned_units().map(|(_, unit)| unit.unit.num_parameters() as u64).sum()
    }

    /// The share of a step that the schedule leaves a rank idle, were all stages equal and transfers free.
    pub fn bubble_share(&self) -> f64 {
        let (pipeline, micro_batches) =
            (self.grid.pipeline_degree as u32, self.run.batch.num_micro_batches as u32);
        match self.run.parallel.schedule {
            ScheduleConfig::GPipe | ScheduleConfig::OneFOneB | ScheduleConfig::EagerOneFOneB => {
                bubble_share(pipeline, micro_batches)
            }
            ScheduleConfig::Interleaved { .. } | ScheduleConfig::Bfs => {
                looped_bubble_share(pipeline, self.run.parallel.virtual_stages as u32, micro_batches)
            }
            ScheduleConfig::ZbH1
            | ScheduleConfig::ZbH2
            | ScheduleConfig::ZbV
            | ScheduleConfig::File { .. } => idle_share(&self.order),
        }
    }

    /// Floating-point operations of a training step over the whole grid: forward, and twice as many backward; `u64::MAX`
    /// where they are more.
    pub fn step_flops(&self) -> u64 {
        let forward: u128 = self.units.iter().map(|unit| u128::from(unit.forward_flops)).sum();
        let num_forwards = self.run.batch.num_micro_batches as u128 * self.grid.data_degree as u128;
        u64::try_from(forward.saturating_mul(3 * num_forwards)).unwrap_or(u64::MAX)
    }

    fn numbered_units(&self) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
        self.units.iter().enumerate().map(|(index, unit)| (Unit(index as u32), unit))
    }

    /// The unit whose parameters a unit uses: itself, or the embedding where both uses of a tied weight are on one
    /// rank.
    pub(crate) fn weights_owner(&self, unit: Unit) -> Unit {
        match self.tied {
            Some((embedding, head)) if head == unit && self.rank_of(embedding) == self.rank_of(head) => {
                embedding
            }
            _ => unit,
        }
    }

    /// The pipeline ranks of both uses of a tied weight, ascending, where they differ. On most placements the embedding's
    /// is the lower one; a schedule file may have it otherwise.
    pub(crate) fn tied_pipeline_ranks(&self) -> Option<(PipelineRank, PipelineRank)> {
        let (embedding, head) = self.tied?;
        let (embedding, head) = (self.rank_of(embedding), self.rank_of(head));
        (embedding != head).then(|| (embedding.min(head), embedding.max(head)))
    }

    /// Whether the unit's gradient counts in the norm: a tied weight counts once, as the embedding.
    pub(crate) fn counts_in_norm(&self, unit: Unit) -> bool {
        self.unit(unit).tying != Tying::Head
    }

    /// Whether gradients are reduced after every micro-batch.
    pub(crate) fn reduces_every_micro_batch(&self) -> bool {
        self.run.zero.reduce == ReductionPolicy::Every
    }

    /// The stage that the unit takes its input from, if that is another than its own.
    pub(crate) fn stage_before(&self, unit: Unit) -> Option<Stage> {
        let before = self.units.get(unit.index().checked_sub(1)?)?.stage;
        (before != self.unit(unit).stage).then_some(before)
    }

    /// Whether the ends of an edge lie on different ranks; else it is a place in memory.
    pub(crate) fn crosses_ranks(&self, edge: Edge) -> bool {
        self.training.chain().crosses_ranks(edge)
    }

    /// The type of parameters and activations.
    pub(crate) fn element_type(&self) -> ElementType {
        element_type(&self.run.precision)
    }

    /// Which messages occupy the same link, where the run imitates links.
    pub(crate) fn links(&self) -> Option<Links> {
        let links = self.run.comm.links?;
        Some(if links.shared { Links::SharedByCollectives } else { Links::Own })
    }

    /// Whether the unit's output goes to the next stage.
    pub(crate) fn sends_output(&self, unit: Unit) -> bool {
        self.units.get(unit.index() + 1).is_some_and(|next| next.stage != self.unit(unit).stage)
    }

    /// Whether a rank reads tokens: it runs the first unit, or the loss.
    pub(crate) fn reads_tokens(&self, rank: PipelineRank) -> bool {
        let ends = [0, self.units.len() - 1];
        ends.into_iter().any(|index| self.pipeline_rank_of(self.units[index].stage) == rank)
    }

    /// Targets of a step, were none ignored.
    pub(crate) fn num_targets_capacity(&self) -> f64 {
        (self.run.batch.train_batch_size * self.shape.seq_length) as f64
    }

    /// What the loss's gradient is seeded with, where the loss is scaled.
    pub(crate) fn loss_seed(&self, loss_scale: f64) -> f32 {
        (loss_scale / self.num_targets_capacity()) as f32
    }

    /// Whether gradients may overflow, so that the step is left out: fp16.
    pub(crate) fn scales_loss(&self) -> bool {
        matches!(self.run.precision, Precision::Fp16(_))
    }

    /// The unit that ends with the loss, if `rank` runs it.
    pub(crate) fn head_of(&self, rank: PipelineRank) -> Option<Unit> {
        let unit = Unit(self.units.len() as u32 - 1);
        (self.rank_of(unit) == rank).then_some(unit)
    }

    fn rank_of(&self, unit: Unit) -> PipelineRank {
        self.pipeline_rank_of(self.unit(unit).stage)
    }
}

/// Both uses of a tied weight.
fn tied(units: &[PlannedUnit]) -> Option<(Unit, Unit)> {
    let find = |tying| units.iter().position(|unit| unit.tying == tying).map(|index| Unit(index as u32));
    Some((find(Tying::Embedding)?, find(Tying::Head)?))
}

/// The type of parameters and activations that a precision stands for.
fn element_type(precision: &Precision) -> ElementType {
    match precision {
        Precision::F32 => ElementType::F32,
        Precision::Bf16 => ElementType::Bf16,
        Precision::Fp16(_) => ElementType::F16,
    }
}
