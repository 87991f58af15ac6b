//! What a plan holds, and what can be read off it at once.

use std::collections::BTreeSet;

use pipezero_config::{
    Checkpointing, OverlapComm, Purpose, ResidencyConfig, Run, ScheduleConfig, ShardingConfig,
};
use pipezero_models::input_encoder::EncoderSpec;
use pipezero_models::layer::{LossInputs, MicroBatchShape};
use pipezero_models::{ElementType, Model};
use pipezero_partition::{LayerGraph, Tying};
use pipezero_schedule::closed_form::{bubble_share, looped_bubble_share};
use pipezero_schedule::simulate::{Links, idle_share};
use pipezero_schedule::{CheckedProgram, ComputeOrder, Edge, PipelineRank, Program, Stage, Unit};

use super::BesideZero1;
use super::auto_overlap::AutoOverlap;
use super::auto_recomputation::AutoRecomputation;
use super::element_types::ElementTypes;
use super::grid::Grid;
use super::tokens_read::{TokensRead, loss_inputs, reads_documents};
use super::unit::PlannedUnit;

/// What every rank will do.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) run: Run,
    pub(super) grid: Grid,
    pub(super) shape: MicroBatchShape,
    pub(super) model: Model,
    pub(super) graph: LayerGraph,
    pub(super) units: Vec<PlannedUnit>,
    pub(super) order: ComputeOrder,
    pub(super) training: CheckedProgram,
    pub(super) evaluation: CheckedProgram,
    /// Names of parameters that are drawn although others are read.
    pub(super) new_parameters: BTreeSet<String>,
    /// Whether the split is proved to be the best by the measure of the run's method.
    pub(super) is_split_proven: bool,
    /// What the run said of residency, which its `level` and `auto` are resolved from.
    pub(super) asked_residency: ResidencyConfig,
    /// What it said of sharding, whose `auto` is resolved into a list.
    pub(super) asked_sharding: ShardingConfig,
    /// Why recomputation came out as it did, where it was left to the plan.
    pub(super) auto_recomputation: Option<AutoRecomputation>,
    /// Why ranks have as many gradient buffers as they have, where that was left to the plan.
    pub(super) auto_overlap: Option<AutoOverlap>,
    /// `[pipeline rank]`: its lowest peak with the lists of what is sharded that were tried; empty where the run brought its own, or
    /// another residency than the fewest units.
    pub(super) least_tried_peak_bytes: Vec<u64>,
    /// `[pipeline rank]`: beside itself under ZeRO-1; empty where nothing is compared.
    pub(super) beside_zero_1: Vec<BesideZero1>,
    /// Whether `level` keeps fewer units than it could, because all ranks share the memory of one host.
    pub(super) is_level_lowered: bool,
}

impl Plan {
    /// Bytes of the units that a rank gathers, the largest first.
    pub(super) fn gathered_unit_bytes(&self, rank: PipelineRank) -> Vec<u64> {
        let element_bytes = self.element_type().num_bytes();
        let units = self.units_of(rank).filter(|(_, unit)| unit.is_sharded());
        let mut bytes: Vec<u64> =
            units.map(|(_, unit)| (element_bytes * unit.gathered_len()) as u64).collect();
        bytes.sort_unstable_by(|a, b| b.cmp(a));
        bytes
    }

    /// This plan for ranks that only evaluate and compute logits. What it has resolved for training, such as residency and a split, stays.
    pub fn without_training(mut self) -> Self {
        self.run.purpose = Purpose::Inference;
        self.beside_zero_1.clear();
        self.new_parameters.clear();
        self
    }

    /// The run as its author asked for it: with what the plan has resolved since left to the plan again.
    pub(super) fn asked_run(&self) -> Run {
        let mut run = self.run.clone();
        run.zero.resident_units = self.asked_residency.clone();
        run.zero.sharding = self.asked_sharding.clone();
        if self.auto_recomputation.is_some() {
            run.checkpointing = Checkpointing::Auto;
        }
        if self.auto_overlap.is_some() {
            run.zero.overlap_comm = OverlapComm::Auto;
        }
        run
    }

    /// The run.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// What the run said of residency; what it came to is in [`Plan::run`].
    pub fn asked_residency(&self) -> &ResidencyConfig {
        &self.asked_residency
    }

    /// What the run said of sharding; the list that it came to is in [`Plan::run`].
    pub fn asked_sharding(&self) -> &ShardingConfig {
        &self.asked_sharding
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

    /// The logits that the head gives for each token: V, unless the model's author has made another head.
    pub fn num_logits(&self) -> usize {
        let head = self.model.layers.last().and_then(|head| head.layer.num_logits());
        head.unwrap_or(self.model.vocab_size)
    }

    /// Names of what the loss reports beside its value ([`Loss::part_names`](pipezero_models::Loss::part_names)).
    pub fn loss_parts(&self) -> &[&'static str] {
        self.model.layers.last().map_or(&[], |head| head.layer.loss_parts())
    }

    /// What the loss minimises ([`Loss::description`](pipezero_models::Loss::description)); `None` of a model without one.
    pub fn loss_description(&self) -> Option<String> {
        self.model.layers.last().and_then(|head| head.layer.loss_description())
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

    /// This plan with another program for a training step, of the same units and options: what it holds and sends follows from the
    /// program. For tests of the executor; [`Plan::new`] makes the programs that runs have.
    ///
    /// # Panics
    /// If the program is of other units, options or micro-batches.
    #[doc(hidden)]
    pub fn with_training_program(self, training: CheckedProgram) -> Self {
        let of = |program: &CheckedProgram| {
            let Program { chain, num_micro_batches, purpose, options, .. } = program.program();
            (chain.clone(), *num_micro_batches, *purpose, options.clone())
        };
        assert_eq!(of(&training), of(&self.training), "the program and the plan");
        Self { training, ..self }
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
    pub(super) fn units_of_stage(&self, stage: Stage) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
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

    /// Floating-point operations of a training step over the whole grid: forward, as many for input gradients from the first trained unit on, and for
    /// weight gradients the share of what is trained.
    /// Large grids have more than a `u64` holds.
    pub fn step_flops(&self) -> u128 {
        let num_micro_batches = self.run.batch.num_micro_batches as u128 * self.grid.data_degree as u128;
        self.micro_batch_flops(self.shape).saturating_mul(num_micro_batches)
    }

    /// The same of one micro-batch of this shape.
    pub fn micro_batch_flops(&self, shape: MicroBatchShape) -> u128 {
        let forward = |unit: &PlannedUnit| match shape == self.shape {
            true => unit.forward_flops,
            false => unit.unit.forward_flops(shape),
        };
        let of_unit = |unit: &PlannedUnit| {
            let forward = u128::from(forward(unit));
            let input_gradients = if unit.has_backward { forward } else { 0 };
            forward + input_gradients + unit.trained_share().of(forward)
        };
        self.units.iter().map(of_unit).sum()
    }

    fn numbered_units(&self) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
        self.units.iter().enumerate().map(|(index, unit)| (Unit(index as u32), unit))
    }

    /// The unit whose parameters a unit uses: itself, or the embedding where both uses of a tied weight are on one
    /// rank.
    pub fn weights_owner(&self, unit: Unit) -> Unit {
        if self.unit(unit).tying != Tying::Head {
            return unit;
        }
        let embedding = self.training.chain().tied_embedding(unit);
        embedding.filter(|&embedding| self.rank_of(embedding) == self.rank_of(unit)).unwrap_or(unit)
    }

    /// The unit in whose buffers a unit's activations lie: the first of its slices.
    pub fn activations_owner(&self, unit: Unit) -> Unit {
        Unit(unit.0 - self.unit(unit).unit.table_slice().index as u32)
    }

    /// The units of a pipeline rank that hold weights of their own: a tied weight that is used twice there comes once.
    pub(super) fn weights_held(&self, rank: PipelineRank) -> impl Iterator<Item = (Unit, &PlannedUnit)> {
        self.units_of(rank).filter(|&(id, _)| self.weights_owner(id) == id)
    }

    /// Padded elements of the largest part of a unit, which is gathered and reduced in one message.
    pub fn largest_message(&self) -> usize {
        let parts = self.units.iter().flat_map(|planned| &planned.parts);
        parts.map(|part| part.layout.padded_len()).max().unwrap_or(0)
    }

    /// The pipeline ranks of both uses of a tied weight, ascending, where they differ. On most placements the embedding's
    /// is the lower one; a schedule file may have it otherwise.
    pub fn tied_pipeline_ranks(&self) -> Option<(PipelineRank, PipelineRank)> {
        let &(embedding, head) = self.training.chain().tied_pairs().first()?;
        let (embedding, head) = (self.rank_of(embedding), self.rank_of(head));
        (embedding != head).then(|| (embedding.min(head), embedding.max(head)))
    }

    /// Whether the unit's gradient counts in the norm: that of a tied weight counts once, as the embedding; a frozen unit has none.
    pub fn counts_in_norm(&self, unit: Unit) -> bool {
        let unit = self.unit(unit);
        unit.tying != Tying::Head && !unit.is_frozen
    }

    /// The stage that the unit takes its input from, if that is another than its own.
    pub fn stage_before(&self, unit: Unit) -> Option<Stage> {
        let before = self.units.get(unit.index().checked_sub(1)?)?.stage;
        (before != self.unit(unit).stage).then_some(before)
    }

    /// Whether a stage has a use for the gradient of its output: something is trained in it, or in a stage before it.
    pub fn has_backward(&self, stage: Stage) -> bool {
        let chain = self.training.chain();
        chain.has_backward(chain.last_unit(stage))
    }

    /// Stages in front of all that is trained, from the first one on.
    pub fn num_stages_without_backward(&self) -> usize {
        let stages = (0..self.training.chain().num_stages() as u32).map(Stage);
        stages.take_while(|&stage| !self.has_backward(stage)).count()
    }

    /// Whether the ends of an edge lie on different ranks; else it is a place in memory.
    pub fn crosses_ranks(&self, edge: Edge) -> bool {
        self.training.chain().crosses_ranks(edge)
    }

    /// The type of parameters and activations.
    pub fn element_type(&self) -> ElementType {
        self.element_types().parameter
    }

    /// The types of its values.
    pub fn element_types(&self) -> ElementTypes {
        ElementTypes::of(&self.run.precision)
    }

    /// Which messages occupy the same link, where the run emulates links.
    pub fn links(&self) -> Option<Links> {
        let links = self.run.comm.links?;
        Some(if links.shared { Links::SharedByCollectives } else { Links::Own })
    }

    /// Whether the unit's output goes to the next stage.
    pub fn sends_output(&self, unit: Unit) -> bool {
        self.units.get(unit.index() + 1).is_some_and(|next| next.stage != self.unit(unit).stage)
    }

    /// Elements that a stage hands to the next one, for a micro-batch of this shape.
    pub fn output_len(&self, stage: Stage, shape: MicroBatchShape) -> usize {
        let last = self.units.iter().rfind(|unit| unit.stage == stage).expect("every stage has a unit");
        if shape == self.shape { last.sizes.output } else { last.unit.sizes(shape).output }
    }

    /// The pipeline ranks of the first unit and of the last, which read tokens.
    pub fn ranks_of_ends(&self) -> [PipelineRank; 2] {
        [0, self.units.len() - 1].map(|index| self.pipeline_rank_of(self.units[index].stage))
    }

    /// What a rank reads of each micro-batch: tokens where it runs the first unit, or the loss, and where documents begin in any case, if
    /// its layers attend within these.
    pub fn tokens_read(&self, rank: PipelineRank) -> TokensRead {
        let tokens = self.ranks_of_ends().contains(&rank);
        let encoder_values = self.units_of(rank).find_map(|(_, planned)| planned.encoder_values(self.shape));
        let document_starts = reads_documents(&self.run);
        let has_loss = self.rank_of(self.head()) == rank;
        let loss = if has_loss { self.loss_inputs() } else { LossInputs::default() };
        TokensRead { shape: self.shape, tokens, document_starts, encoder_values, loss }
    }

    /// Which inputs the model's input encoder takes, if it has one.
    pub fn input_encoder(&self) -> Option<&EncoderSpec> {
        self.units.iter().find_map(|planned| planned.unit.input_encoder())
    }

    /// What the loss reads of each token beside its target.
    pub(crate) fn loss_inputs(&self) -> LossInputs {
        loss_inputs(&self.model)
    }

    /// Targets of a step, were none ignored.
    pub fn num_targets_capacity(&self) -> f64 {
        (self.run.batch.train_batch_size * self.shape.seq_length) as f64
    }

    /// What the loss's gradient is seeded with, where the loss is scaled.
    pub fn loss_seed(&self, loss_scale: f64) -> f32 {
        (loss_scale / self.num_targets_capacity()) as f32
    }

    /// The unit that ends with the loss, and, of a head in slices, the last.
    pub fn head(&self) -> Unit {
        Unit(self.units.len() as u32 - 1)
    }

    fn rank_of(&self, unit: Unit) -> PipelineRank {
        self.pipeline_rank_of(self.unit(unit).stage)
    }
}
