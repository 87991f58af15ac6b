//! How long messages were on their way.
//!
//! The arrival of a message is known only where a rank stood still for it, and its way begins when its link was free: when the
//! message before it on the link was there, but for the latency. So only messages that were seen to arrive count, whose
//! predecessor was seen too or was there before they set out; of a link without any, the shortest way bounds it from above.

use std::collections::BTreeMap;

use pipezero_schedule::{Instruction, Lane};

use super::carrier::Carrier;
use super::median;
use crate::measure::trace::members::Site;
use crate::measure::trace::moments::MessageMoments;
use crate::measure::trace::recorded::Recorded;
use crate::plan::Plan;

/// A wait that was no longer may have been no more than a look: the message was there.
const LOOK_NS: u64 = 20_000;

/// Whether a rank stood still for a message, so that the moment of its arrival is known.
pub(in crate::measure::trace) fn was_waited_for(message: &MessageMoments, sets_out_ns: u64) -> bool {
    message.awaited_ns <= sets_out_ns || message.exposed_ns() > LOOK_NS
}

/// The ways of messages in several steps.
#[derive(Debug, Default)]
pub(super) struct Ways {
    alone: BTreeMap<Carrier, Vec<u64>>,
    /// The shortest of those that may have waited for their link.
    queued: BTreeMap<Carrier, u64>,
}

/// A message that one rank took in.
struct Taken {
    carrier: Carrier,
    sets_out_ns: u64,
    arrived_ns: u64,
    was_seen: bool,
}

impl Ways {
    /// The middle one of those known; 0 of what nobody ever stood still for, which may as well take no time.
    pub(super) fn median_ns(&self, carrier: Carrier) -> u64 {
        match self.alone.get(&carrier) {
            Some(ways) => median(ways),
            None => self.queued.get(&carrier).copied().unwrap_or(0),
        }
    }

    /// Adds those of a step.
    pub(super) fn add(&mut self, plan: &Plan, recorded: &Recorded) {
        for rank in 0..recorded.grid().world_size() {
            for link in taken_by_link(plan, recorded, rank).into_values() {
                self.add_link(plan, &link);
            }
        }
    }

    /// Adds the messages of a link in the order in which they set out.
    fn add_link(&mut self, plan: &Plan, link: &[Taken]) {
        let mut before: Option<&Taken> = None;
        for taken in link {
            let latency_ns = taken.carrier.latency_ns(plan);
            let (begins_ns, is_known) = match before {
                Some(before) if before.arrived_ns > taken.sets_out_ns => {
                    let frees_ns = before.arrived_ns.saturating_sub(latency_ns);
                    (
                        if before.was_seen { frees_ns.max(taken.sets_out_ns) } else { taken.sets_out_ns },
                        before.was_seen,
                    )
                }
                _ => (taken.sets_out_ns, true),
            };
            let way_ns = taken.arrived_ns.saturating_sub(begins_ns);
            if taken.was_seen && is_known {
                self.alone.entry(taken.carrier).or_default().push(way_ns);
            } else if taken.was_seen {
                let shortest = self.queued.entry(taken.carrier).or_insert(way_ns);
                *shortest = way_ns.min(*shortest);
            }
            before = Some(taken);
        }
    }
}

/// What a rank took in, by link and in the order in which it set out.
fn taken_by_link(plan: &Plan, recorded: &Recorded, rank: usize) -> BTreeMap<Lane, Vec<Taken>> {
    let program = plan.training();
    let mut links: BTreeMap<Lane, Vec<Taken>> = BTreeMap::new();
    for (index, moments) in recorded.row(rank).iter().enumerate() {
        let Some(message) = moments.message() else { continue };
        let site = Site::new(recorded.grid(), rank, index);
        let instruction = site.instruction(program);
        // A send is done when its buffer is free again, whoever has its message.
        let carrier = match instruction {
            Instruction::Send { .. } => continue,
            _ => Carrier::of(instruction).expect("a message has a carrier"),
        };
        let (_, sets_out_ns) = recorded.sets_out(program, site);
        let was_seen = was_waited_for(message, sets_out_ns);
        let taken = Taken { carrier, sets_out_ns, arrived_ns: message.arrived_ns, was_seen };
        links.entry(carrier.link(plan)).or_default().push(taken);
    }
    links.values_mut().for_each(|link| link.sort_by_key(|taken| taken.sets_out_ns));
    links
}
