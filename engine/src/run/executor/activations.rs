//! What runs through a rank's units, and what they keep from forward to backward.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipezero_models::{ElementType, ModelError};
use pipezero_schedule::{Stage, Unit};

use crate::plan::RankSizes;
use crate::run::memory::{Category, Ledger, Tagged};
use crate::run::shard::Loan;

/// The activation memory of one rank, sized by the plan and allocated once.
#[derive(Debug)]
pub(crate) struct Activations {
    /// For each stage of the rank its slots; a slot holds one micro-batch in flight.
    slots: BTreeMap<Stage, Vec<Slot>>,
    /// For each stage of the rank its stashes; a stash holds what each unit's input gradient leaves of one micro-batch for
    /// the weight gradient.
    stashes: BTreeMap<Stage, Vec<BTreeMap<Unit, Tagged>>>,
    /// Activations between units: one is read, the other written, then they swap.
    pub(crate) stream: [Tagged; 2],
    /// The gradient that runs down through the units, f32.
    pub(crate) gradient: Tagged,
    /// Room for what checkpointed layers recompute.
    pub(crate) recomputed: Tagged,
    /// Scratch of whichever unit runs, f32.
    pub(crate) workspace: Tagged,
}

/// The activations of one micro-batch in one stage.
#[derive(Debug)]
pub(crate) struct Slot {
    /// What each unit saved.
    pub(crate) saved: BTreeMap<Unit, Tagged>,
    /// The stage's output, lent while it is sent; empty in a stage that sends nothing. Where the next stage lies on the
    /// same rank, it holds the output's gradient once that stage has made it.
    pub(crate) output: Loan<Tagged>,
}

impl Activations {
    pub(crate) fn new(
        sizes: &RankSizes,
        element_type: ElementType,
        ledger: &Arc<Ledger>,
    ) -> Result<Self, ModelError> {
        let zeros = |len| Tagged::zeros_of(len, element_type, Category::Activations, ledger);
        let wide = |len| Tagged::zeros(len, Category::Activations, ledger);
        let of_units = |lens: &[(Unit, usize)]| {
            let buffers = lens.iter().map(|&(unit, len)| Ok((unit, zeros(len)?)));
            buffers.collect::<Result<BTreeMap<_, _>, ModelError>>()
        };
        let (mut slots, mut stashes) = (BTreeMap::new(), BTreeMap::new());
        for stage in &sizes.stages {
            let stage_slots = (0..stage.num_slots)
                .map(|_| {
                    Ok(Slot { saved: of_units(&stage.saved)?, output: Loan::new(zeros(stage.output_len)?) })
                })
                .collect::<Result<_, ModelError>>()?;
            slots.insert(stage.stage, stage_slots);
            let stage_stashes = (0..stage.num_stashes).map(|_| of_units(&stage.stashed));
            stashes.insert(stage.stage, stage_stashes.collect::<Result<_, _>>()?);
        }
        Ok(Self {
            slots,
            stashes,
            stream: [zeros(sizes.stream_len)?, zeros(sizes.stream_len)?],
            gradient: wide(sizes.gradient_len)?,
            recomputed: zeros(sizes.recompute_len)?,
            workspace: wide(sizes.workspace_len)?,
        })
    }

    /// A stage's slot.
    pub(crate) fn slot_mut(&mut self, stage: Stage, slot: usize) -> &mut Slot {
        let slots = self.slots.get_mut(&stage).expect("a rank runs only its own stages");
        &mut slots[slot]
    }

    /// A slot and a stash together with the buffers that both halves of a backward share.
    pub(crate) fn halves(&mut self, stage: Stage, slot: usize, stash: usize, unit: Unit) -> Halves<'_> {
        let slots = self.slots.get_mut(&stage).expect("a rank runs only its own stages");
        let stashes = self.stashes.get_mut(&stage).expect("a rank runs only its own stages");
        Halves {
            saved: slots[slot].saved.get_mut(&unit).expect("a slot has room for every unit of its stage"),
            stash: stashes[stash].get_mut(&unit).expect("a stash has room for every unit of its stage"),
            gradient: &mut self.gradient,
            workspace: &mut self.workspace,
        }
    }

    /// A slot together with the buffers that every unit shares.
    pub(crate) fn parts(&mut self, stage: Stage, slot: usize) -> Parts<'_> {
        let slots = self.slots.get_mut(&stage).expect("a rank runs only its own stages");
        Parts {
            slot: &mut slots[slot],
            stream: &mut self.stream,
            gradient: &mut self.gradient,
            recomputed: &mut self.recomputed,
            workspace: &mut self.workspace,
        }
    }
}

/// Borrowed apart, since a unit works on all of them at once.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) slot: &'a mut Slot,
    pub(crate) stream: &'a mut [Tagged; 2],
    pub(crate) gradient: &'a mut Tagged,
    pub(crate) recomputed: &'a mut Tagged,
    pub(crate) workspace: &'a mut Tagged,
}

/// What both halves of a unit's backward work on.
#[derive(Debug)]
pub(crate) struct Halves<'a> {
    pub(crate) saved: &'a mut Tagged,
    pub(crate) stash: &'a mut Tagged,
    pub(crate) gradient: &'a mut Tagged,
    pub(crate) workspace: &'a mut Tagged,
}
