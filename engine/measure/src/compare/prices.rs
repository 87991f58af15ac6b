//! How long ranks were busy with each kind of instruction of each unit.

use std::collections::BTreeMap;

use pipezero_plan::costs::Route;
use pipezero_schedule::{Instruction, InstructionKind, PipelineRank, Unit};

use super::median::median;
use crate::recording::{Place, Recording, computed_unit};

/// What has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Compute(InstructionKind, Unit),
    Issue(Route),
    Completion(Route),
    /// A rank's own part of the norm.
    OwnNorm(PipelineRank),
    /// What the norm takes once all ranks have joined.
    Norm,
    AddTied,
}

/// The means of several steps.
#[derive(Debug, Default)]
pub(super) struct Prices(BTreeMap<Item, Vec<u64>>);

impl Prices {
    /// The middle one of the steps' means; 0 of what never ran.
    pub(super) fn median_ns(&self, item: Item) -> u64 {
        self.0.get(&item).map_or(0, |means| median(means))
    }

    /// Adds those of a step.
    pub(super) fn add(&mut self, recording: &Recording<'_>) {
        let mut times: BTreeMap<Item, Vec<u64>> = BTreeMap::new();
        for place in recording.places() {
            for (item, time_ns) in items(recording, place).into_iter().flatten() {
                times.entry(item).or_default().push(time_ns);
            }
        }
        for (item, times) in times {
            self.0.entry(item).or_default().push(mean(&times));
        }
    }
}

/// What an instruction says of prices; a reshard has none in any prediction.
fn items(recording: &Recording<'_>, place: Place) -> [Option<(Item, u64)>; 2] {
    let times = recording.times(place);
    let own_ns = times.awaited_ns - times.started_ns;
    let together_ns = || times.ended_ns.saturating_sub(recording.ready_ns(place));
    if let Some(route) = Route::of(place.instruction).filter(|route| !route.kind.is_joint()) {
        let (issue, completion) = (Item::Issue(route), Item::Completion(route));
        return [Some((issue, times.issue_ns())), Some((completion, times.completion_ns()))];
    }
    match place.instruction {
        Instruction::GradientNorm => {
            let own = Item::OwnNorm(recording.pipeline_rank(place.rank));
            [Some((own, own_ns)), Some((Item::Norm, together_ns()))]
        }
        Instruction::AddTied { .. } => [Some((Item::AddTied, own_ns + together_ns())), None],
        instruction => {
            let unit = computed_unit(instruction);
            let item = unit.map(|unit| Item::Compute(instruction.kind(), unit));
            [item.map(|item| (item, times.duration_ns())), None]
        }
    }
}

fn mean(times: &[u64]) -> u64 {
    let sum: u128 = times.iter().map(|&time| u128::from(time)).sum();
    let num = times.len().max(1) as u128;
    u64::try_from((sum + num / 2) / num).expect("a mean is no larger than the largest")
}
