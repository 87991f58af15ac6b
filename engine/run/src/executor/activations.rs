//! The activation buffers of a rank: what flows through its units, and what they save from forward to backward.

use std::collections::BTreeMap;

use pipezero_comm::memory::{Allocator, Category, Charge, Lendable, TrackedBuffer};
use pipezero_models::{ElementType, ModelError, Queue};
use pipezero_plan::RankSizes;
use pipezero_schedule::{Stage, Unit};

/// The activation memory of one rank, sized by the plan and allocated once.
#[derive(Debug)]
pub(crate) struct Activations {
    /// For each stage of the rank its slots; a slot holds one micro-batch in flight.
    slots: BTreeMap<Stage, Vec<Slot>>,
    /// For each stage of the rank its buffers of weight-gradient inputs; one holds what the input gradients of one
    /// micro-batch save for the weight gradients, by unit.
    weight_input_buffers: BTreeMap<Stage, Vec<BTreeMap<Unit, TrackedBuffer>>>,
    /// Activations between units: one is read, the other written, then they swap.
    stream: [TrackedBuffer; 2],
    /// The gradient that runs down through the units, f32.
    pub(super) gradient: TrackedBuffer,
    /// What checkpointed layers recompute.
    recomputed: TrackedBuffer,
    /// Scratch of whichever unit runs, f32.
    workspace: TrackedBuffer,
    /// What layers allocate themselves.
    _allocated: Charge,
}

/// The activations of one micro-batch in one stage.
#[derive(Debug)]
pub(crate) struct Slot {
    /// What each unit saved.
    pub(super) saved: BTreeMap<Unit, TrackedBuffer>,
    /// The stage's output, lent while it is sent; empty in a stage that sends nothing. Where the next stage lies on the
    /// same rank, it holds the output's gradient once that stage has made it.
    pub(super) output: Lendable<TrackedBuffer>,
}

impl Activations {
    pub(crate) fn new(
        sizes: &RankSizes,
        element_type: ElementType,
        memory: &Allocator,
    ) -> Result<Self, ModelError> {
        let zeros = |len| memory.zeros_of(len, element_type, Category::Activations);
        let wide = |len| memory.zeros(len, Category::Activations);
        let of_units = |lens: &[(Unit, usize)]| {
            let buffers = lens.iter().map(|&(unit, len)| Ok((unit, zeros(len)?)));
            buffers.collect::<Result<BTreeMap<_, _>, ModelError>>()
        };
        let (mut slots, mut weight_input_buffers) = (BTreeMap::new(), BTreeMap::new());
        for stage in &sizes.stages {
            let stage_slots = (0..stage.num_slots)
                .map(|_| {
                    Ok(Slot {
                        saved: of_units(&stage.saved)?,
                        output: Lendable::new(zeros(stage.output_len)?),
                    })
                })
                .collect::<Result<_, ModelError>>()?;
            slots.insert(stage.stage, stage_slots);
            let stage_weight_input_buffers =
                (0..stage.num_weight_input_buffers).map(|_| of_units(&stage.weight_inputs));
            weight_input_buffers.insert(stage.stage, stage_weight_input_buffers.collect::<Result<_, _>>()?);
        }
        Ok(Self {
            slots,
            weight_input_buffers,
            stream: [zeros(sizes.stream_len)?, zeros(sizes.stream_len)?],
            gradient: wide(sizes.gradient_len)?,
            recomputed: zeros(sizes.recompute_len)?,
            workspace: wide(sizes.workspace_len)?,
            _allocated: memory.charge(sizes.allocated_len, Category::Activations),
        })
    }

    /// A stage's slot.
    pub(crate) fn slot_mut(&mut self, stage: Stage, slot: usize) -> &mut Slot {
        &mut self.slots.get_mut(&stage).expect(OWN_STAGES)[slot]
    }

    /// What a forward, a recomputation or a backward of a unit works on, given the unit in whose buffers its activations lie.
    pub(super) fn parts(&mut self, stage: Stage, slot: usize, owner: Unit) -> Parts<'_> {
        let slot = &mut self.slots.get_mut(&stage).expect(OWN_STAGES)[slot];
        Parts {
            saved: slot.saved.get_mut(&owner).expect("a slot has a buffer for every unit of its stage"),
            output: &mut slot.output,
            weight_inputs: self.weight_input_buffers.get_mut(&stage).expect(OWN_STAGES),
            stream: &mut self.stream,
            gradient: &mut self.gradient,
            recomputed: &mut self.recomputed,
            workspace: &mut self.workspace,
        }
    }

    /// Copies the gradient that a slot holds in place of its stage's output to the gradient stream.
    pub(super) fn read_output_gradient(&mut self, queue: &dyn Queue, stage: Stage, slot: usize, len: usize) {
        let slot = &self.slots.get(&stage).expect(OWN_STAGES)[slot];
        queue.copy(slot.output.get().view().range(0..len), self.gradient.view_mut().range(0..len));
    }

    /// Copies the gradient stream to a slot, in place of its stage's output.
    pub(super) fn write_output_gradient(&mut self, queue: &dyn Queue, stage: Stage, slot: usize, len: usize) {
        let slot = &mut self.slots.get_mut(&stage).expect(OWN_STAGES)[slot];
        let output = slot.output.get_mut();
        queue.copy(self.gradient.view().range(0..len), output.view_mut().range(0..len));
    }
}

/// The buffers that one unit works on, each borrowed on its own.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    pub(super) saved: &'a mut TrackedBuffer,
    pub(super) output: &'a mut Lendable<TrackedBuffer>,
    /// All of the stage: the program says which one a micro-batch uses.
    pub(super) weight_inputs: &'a mut [BTreeMap<Unit, TrackedBuffer>],
    pub(super) stream: &'a mut [TrackedBuffer; 2],
    pub(super) gradient: &'a mut TrackedBuffer,
    pub(super) recomputed: &'a mut TrackedBuffer,
    pub(super) workspace: &'a mut TrackedBuffer,
}

const OWN_STAGES: &str = "a rank runs only its own stages";
