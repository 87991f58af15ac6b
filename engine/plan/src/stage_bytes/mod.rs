//! What a stage would need if it had these layers: the bound of the balanced split, before there is a program.
//!
//! It is an estimate: gather buffers are those that the residency allows, of which a program may fill fewer; gradients are
//! sent from two buffers, and activations in front of what is trained from two slots, of which a looped schedule may need more; and no unit counts as persistent. Whether the resulting
//! split fits is then decided by its program.
//!
//! A splitter asks for as many ranges as `p * L^2 / 2`, and nearly all of them are alike: inside a run of equal blocks a
//! range is known by its length. So few are ever computed, and those that differ only in micro-batches in flight are one.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use pipezero_config::Checkpointing;
use pipezero_models::layer::{LossInputs, MicroBatchShape};
use pipezero_models::model::ModelLayer;
use pipezero_partition::{
    LayerNode, LayerRole, ModelStates, RankFacts, RankMemory, StageFacts, Tying, Unit, UnitLayers,
    units_of_stage,
};
use pipezero_schedule::{ComputeOrder, Stage, protocol};

use super::forecast::{element_bytes, memory_facts_of, num_loss_inputs_of_step, num_of_step, sharding};
use super::run_model::RunModel;
use super::tokens_read::{TokensRead, loss_inputs, reads_documents};
use super::units::{first_trained, planned_unit};
use super::{PlanError, PlannedUnit, programs};

/// The bytes of all stages that may be cut from a model.
pub(super) struct StageBytes<'a> {
    of: RunModel<'a>,
    unit_layers: UnitLayers,
    /// The layers before it are in front of all that is trained.
    first_trained: usize,
    /// `[stage]`: units that its rank may hold gathered.
    resident_units: Vec<usize>,
    /// `[stage]`: micro-batches whose activations it holds.
    in_flight: Vec<u64>,
    /// `[stage]`: the same if the stage is in front of all that is trained.
    in_flight_before_trained: Vec<u64>,
    /// `[stage]`: micro-batches that wait for their weight gradient.
    num_weight_input_buffers: Vec<u64>,
    /// `[block]`: the first of the run of equal blocks that it belongs to.
    first_alike: Vec<usize>,
    /// `[layer]`: of the layers before it, and one entry for all.
    least: Vec<LeastElements>,
    units: RefCell<HashMap<Range<usize>, Rc<PlannedUnit>>>,
    /// By the units that may be held gathered, and the layers.
    known: RefCell<HashMap<(usize, Range<usize>), Needs>>,
}

/// Peak bytes of a rank that runs these layers alone.
#[derive(Clone, Copy)]
struct Needs {
    /// With nothing in flight.
    fixed_bytes: u64,
    /// For each micro-batch in flight.
    slot_bytes: u64,
    /// For each that waits for its weight gradient.
    weight_input_bytes: u64,
}

/// Elements that some layers hold however they are cut into units, prefix sums of which are ranges.
#[derive(Clone, Copy, Default)]
struct LeastElements {
    /// Parameters that are trained, unpadded.
    parameters: u128,
    /// Parameters that are not.
    frozen: u128,
    /// Saved for each micro-batch in flight.
    saved: u128,
}

/// Micro-batches whose gradients are looked at: a unit may take one buffer in the first and another in the second, and the third is
/// like one of them.
const MICRO_BATCHES: usize = 3;

impl<'a> StageBytes<'a> {
    pub(super) fn new(of: RunModel<'a>, order: &ComputeOrder) -> Result<Self, PlanError> {
        let stages = || (0..order.placement.num_stages() as u32).map(Stage);
        let weights = programs::weights(of.run)?;
        let resident_units = |stage| weights.max_copies(order.placement.rank(stage), usize::MAX);
        let ranks = order.placement.ranks_by_stage();
        let sends =
            |stage: Stage| ranks.get(stage.index() + 1).is_some_and(|&next| next != ranks[stage.index()]);
        let trains = of.run.trains();
        let in_training = |stage| order.in_flight(stage) as u64;
        let in_flight_before_trained = |stage| match sends(stage) {
            true => in_training(stage).min(protocol::FORWARD_SLOTS as u64),
            false if trains => in_training(stage),
            false => 1,
        };
        let in_flight = |stage| if trains { in_training(stage) } else { in_flight_before_trained(stage) };
        let num_waiting = |stage| if trains { order.num_weight_input_buffers(stage) as u64 } else { 0 };
        Ok(Self {
            of,
            unit_layers: of.run.zero.unit_layers,
            first_trained: first_trained(of.graph),
            resident_units: stages().map(resident_units).collect(),
            in_flight: stages().map(in_flight).collect(),
            in_flight_before_trained: stages().map(in_flight_before_trained).collect(),
            num_weight_input_buffers: stages().map(num_waiting).collect(),
            first_alike: first_alike(of),
            least: least_elements(of),
            units: RefCell::default(),
            known: RefCell::default(),
        })
    }

    /// Peak bytes of a rank that runs this stage alone with these layers.
    pub(super) fn peak(&self, stage: usize, layers: Range<usize>) -> u64 {
        let in_flight = self.in_flight(stage, &layers);
        let key = (self.resident_units[stage], self.first_alike_range(layers));
        let known = self.known.borrow().get(&key).copied();
        let needs = known.unwrap_or_else(|| {
            let needs = self.needs(key.0, key.1.clone());
            self.known.borrow_mut().insert(key, needs);
            needs
        });
        let slots = needs.slot_bytes.saturating_mul(in_flight);
        let weight_input_buffers =
            needs.weight_input_bytes.saturating_mul(self.num_weight_input_buffers[stage]);
        needs.fixed_bytes.saturating_add(slots).saturating_add(weight_input_buffers)
    }

    fn in_flight(&self, stage: usize, layers: &Range<usize>) -> u64 {
        if layers.end <= self.first_trained {
            self.in_flight_before_trained[stage]
        } else {
            self.in_flight[stage]
        }
    }

    /// A part of the peak that only grows with layers around these: model states and saved activations, nothing padded
    /// and nothing gathered, because both depend on where units begin.
    pub(super) fn least(&self, stage: usize, layers: Range<usize>) -> u64 {
        let (before, all) = (self.least[layers.start], self.least[layers.end]);
        let states = ModelStates {
            sharding: sharding(self.of.run),
            element_bytes: element_bytes(&self.of.run.precision),
            num_optimizer_states: self.of.run.optimizer.num_states() as u64,
        };
        let (trained, frozen) = (all.parameters - before.parameters, all.frozen - before.frozen);
        let states = match self.of.run.trains() {
            true => states.bytes(trained).saturating_add(states.frozen_bytes(frozen)),
            false => states.frozen_bytes(trained + frozen),
        };
        let saved = u128::from(element_bytes(&self.of.run.precision).activation) * (all.saved - before.saved);
        let bytes = saved.saturating_mul(self.in_flight(stage, &layers).into());
        u64::try_from(bytes.saturating_add(states)).unwrap_or(u64::MAX)
    }

    /// The first range that needs the same: among equal blocks only how many they are counts. With the first layer or
    /// the last come embedding and head.
    fn first_alike_range(&self, layers: Range<usize>) -> Range<usize> {
        let block_of = |layer: usize| match self.of.graph.layer(layer).role {
            LayerRole::Block { index } => Some(index),
            LayerRole::Embedding | LayerRole::Head => None,
        };
        match (block_of(layers.start), block_of(layers.end - 1)) {
            (Some(first), Some(last)) if self.first_alike[first] == self.first_alike[last] => {
                let start = self.of.graph.block_layers(self.first_alike[first]).start;
                // The first layer and the last read tokens, and the last sends nothing on: what has them is like no other.
                let has_end = layers.start == 0 || layers.end == self.of.graph.num_layers();
                if has_end { layers } else { start..start + layers.len() }
            }
            _ => layers,
        }
    }

    fn needs(&self, resident_units: usize, layers: Range<usize>) -> Needs {
        let has_next = layers.end < self.of.graph.num_layers();
        let (run, shape) = (self.of.run, self.of.shape);
        let document_starts = reads_documents(run);
        let tokens = layers.start == 0 || !has_next;
        let loss = if has_next { LossInputs::default() } else { loss_inputs(self.of.model) };
        let [sends_gradients, receives_gradients] =
            [layers.start, layers.end].map(|layer| u64::from(layer > self.first_trained));
        let units: Vec<Rc<PlannedUnit>> = units_of_stage(self.of.graph, 0, layers, self.unit_layers)
            .into_iter()
            .map(|unit| self.planned(unit))
            .collect();
        let encoder_values = units.iter().find_map(|unit| unit.encoder_values(shape));
        let reads = TokensRead { shape, tokens, document_starts, encoder_values, loss };
        let gathered: Vec<u64> = units.iter().map(|unit| unit.gathered_len() as u64).collect();
        let trained = units.iter().rev().filter(|unit| !unit.is_frozen);
        let gradients: Vec<u64> = trained.map(|unit| unit.gradient_len() as u64).collect();
        let input = units.first().map_or(0, |unit| unit.sizes.input) as u64;
        let output = units.last().filter(|_| has_next).map_or(0, |unit| unit.sizes.output) as u64;
        let mut facts = RankFacts {
            purpose: run.purpose,
            sharding: sharding(self.of.run),
            element_bytes: element_bytes(&self.of.run.precision),
            num_optimizer_states: self.of.run.optimizer.num_states() as u64,
            gather_buffer_elements: protocol::gather_buffer_bytes(gathered, resident_units),
            gradient_buffer_elements: protocol::gradient_buffer_bytes(
                &gradients.repeat(MICRO_BATCHES),
                programs::unreduced(run),
            ),
            // At most 32 MiB for each lane that adds, whatever the cut.
            num_term_elements: 0,
            copies_checkpoints: self.of.run.checkpoint.is_copied(),
            num_tokens: num_of_step(run, reads.num_tokens()),
            num_document_starts: num_of_step(run, reads.num_document_starts()),
            num_encoder_words: num_of_step(run, reads.num_encoder_words()),
            num_loss_inputs: num_loss_inputs_of_step(run, reads),
            stages: vec![StageFacts {
                num_activation_slots: 0,
                num_weight_input_buffers: 0,
                input_cut_elements: input,
                num_gradient_send_buffers: sends_gradients * protocol::GRADIENT_SEND_BUFFERS as u64,
                output_cut_elements: output,
                num_gradient_receive_buffers: receives_gradients * protocol::RECEIVE_BUFFERS as u64,
                local_output_elements: 0,
                units: units.iter().flat_map(|unit| memory_facts_of(unit, &unit.sizes)).collect(),
            }],
        };
        let fixed_bytes = RankMemory::of(&facts).peak;
        facts.stages[0].num_activation_slots = 1;
        // What is beyond counting stays so: the largest number and anything more is the largest number.
        let slot_bytes = RankMemory::of(&facts).peak - fixed_bytes;
        (facts.stages[0].num_activation_slots, facts.stages[0].num_weight_input_buffers) = (0, 1);
        Needs { fixed_bytes, slot_bytes, weight_input_bytes: RankMemory::of(&facts).peak - fixed_bytes }
    }

    fn planned(&self, unit: Unit) -> Rc<PlannedUnit> {
        let mut units = self.units.borrow_mut();
        let entry = units.entry(unit.layers.clone());
        let built = || planned_unit(self.of, &unit);
        Rc::clone(entry.or_insert_with(|| Rc::new(built())))
    }
}

/// For each block, the first of the run of equal blocks that it belongs to.
fn first_alike(RunModel { model, graph, shape, .. }: RunModel<'_>) -> Vec<usize> {
    let layers = |block: usize| &model.layers[graph.block_layers(block)];
    let first_trained = first_trained(graph);
    let frozen = |block: usize| {
        graph.block_layers(block).map(|position| {
            let layer = graph.layer(position);
            // What begins at the first trained layer sends no gradient.
            (layer.is_frozen, position.cmp(&first_trained), &layer.frozen_parameters)
        })
    };
    let alike = |one, other| are_alike(layers(one), layers(other), shape) && frozen(one).eq(frozen(other));
    let mut first: Vec<usize> = Vec::with_capacity(graph.num_blocks());
    for block in 0..graph.num_blocks() {
        let before = block.checked_sub(1).filter(|&before| alike(before, block));
        first.push(before.map_or(block, |before| first[before]));
    }
    first
}

/// Whether units of the ones need what units of the others do.
fn are_alike(one: &[ModelLayer], other: &[ModelLayer], shape: MicroBatchShape) -> bool {
    let parameters = |layer: &ModelLayer| -> Vec<usize> {
        layer.layer.parameters().iter().map(|spec| spec.num_elements()).collect()
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.layer.sizes(shape) == other.layer.sizes(shape) && parameters(one) == parameters(other)
        })
}

/// Of the layers before each, and of all.
fn least_elements(RunModel { run, model, graph, .. }: RunModel<'_>) -> Vec<LeastElements> {
    let first_trained = first_trained(graph);
    // Nor is anything kept of a block that has no backward.
    let is_kept = |position: usize, layer: &LayerNode| {
        let is_block = matches!(layer.role, LayerRole::Block { .. });
        !is_block || run.checkpointing == Checkpointing::Off && position >= first_trained
    };
    let mut sums = vec![LeastElements::default()];
    let layers = graph.layers().zip(&model.layers).enumerate();
    sums.extend(layers.scan(LeastElements::default(), |sum, (position, (layer, built))| {
        // A rank that has both uses of a tied weight holds it once.
        let own = if layer.tying == Tying::Head { 0 } else { layer.num_parameters };
        let frozen = match layer.is_frozen {
            true => own,
            false if layer.frozen_parameters.is_empty() => 0,
            false => {
                let parameters = built.layer.parameters();
                let elements = |&parameter: &usize| parameters[parameter].num_elements() as u64;
                layer.frozen_parameters.iter().map(elements).sum::<u64>().min(own)
            }
        };
        let saved = if is_kept(position, layer) { layer.saved_elements } else { 0 };
        sum.frozen += u128::from(frozen);
        sum.parameters += u128::from(own - frozen);
        sum.saved += u128::from(saved);
        Some(*sum)
    }));
    sums
}
