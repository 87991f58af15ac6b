//! A costs file made of the sums.

use std::thread::available_parallelism;

use pipezero_plan::costs::{
    COSTS_VERSION, CostsFile, Host, MessageTimes, PerElement, SizedTimes, UnitTimes, Workload,
    counted_elements, owned_elements,
};
use pipezero_schedule::InstructionKind;

use super::facts::{Facts, MessageKey};
use super::slowness;
use super::sums::{MessageTotal, MessageTotals};
use super::totals::Totals;
use crate::recording::Recording;

/// The costs file of steps that were measured on this host.
pub(super) fn costs_file(facts: &Facts<'_>, steps: &[Recording<'_>]) -> CostsFile {
    let totals = &Totals::of(facts, steps);
    let run = facts.plan.run();
    CostsFile {
        version: COSTS_VERSION,
        host: Host {
            name: host_name(),
            cores: available_parallelism().map_or(1, |cores| cores.get() as u64),
            ranks: facts.plan.grid().world_size() as u64,
            gpus: None,
        },
        workload: Workload::of(run),
        step_overhead_ns: totals.step_overhead.or_zero(),
        rank_slowness_ppm: slowness::of(facts, steps, totals),
        units: (0..facts.keys.len()).map(|key| unit_times(facts, totals, key)).collect(),
        messages: message_times(&totals.messages),
    }
}

fn unit_times(facts: &Facts<'_>, totals: &Totals, key: usize) -> UnitTimes {
    let computes = &totals.units[key];
    // Units of one kind are sharded alike.
    let unit = facts.first_of(key);
    let (counted, owned) = (counted_elements(facts.plan, unit), owned_elements(facts.plan, unit));
    // No clock is finer than a nanosecond, and what runs takes time.
    let measured = |kind| computes.mean(kind).get().map(|ns| ns.max(1));
    let of_backward = |kind| measured(kind).filter(|_| facts.keys[key].has_backward);
    UnitTimes {
        layers: facts.keys[key].layers(),
        parameters: facts.keys[key].parameters(),
        frozen: facts.keys[key].is_frozen,
        frozen_parameters: facts.keys[key].frozen_parameters(),
        forward_ns: measured(InstructionKind::Forward).expect("a step runs every unit forward"),
        backward_ns: of_backward(InstructionKind::Backward),
        backward_input_ns: of_backward(InstructionKind::BackwardInput),
        backward_weight_ns: of_backward(InstructionKind::BackwardWeight),
        recompute_ns: measured(InstructionKind::Recompute),
        gradient_norm: PerElement { elements: counted, ns: totals.own_norms.of_elements(counted) },
        // The second use of a tied weight has no step of its own where both lie on one rank.
        optimizer_step: computes
            .mean(InstructionKind::OptimizerStep)
            .get()
            .map_or(PerElement::default(), |ns| PerElement { elements: owned, ns }),
    }
}

/// One entry for each kind and number of ranks, with its sizes ascending.
pub(super) fn message_times(totals: &MessageTotals) -> Vec<MessageTimes> {
    let mut entries: Vec<MessageTimes> = Vec::new();
    for (MessageKey { kind, ranks, bytes }, MessageTotal { issue, delay, completion }) in totals.iter() {
        if entries.last().is_none_or(|last| (last.kind, last.ranks) != (kind, ranks)) {
            entries.push(MessageTimes { kind, ranks, sizes: Vec::new() });
        }
        let entry = entries.last_mut().expect("one was pushed if there was none");
        entry.sizes.push(SizedTimes {
            bytes,
            issue_ns: issue.or_zero(),
            // Threads carry a message out within its issue; what an emulated link takes, the run file says.
            occupied_ns: 0,
            latency_ns: delay.or_zero(),
            landing_ns: completion.or_zero(),
            probed: false,
        });
    }
    entries
}

/// What the system calls itself.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}
