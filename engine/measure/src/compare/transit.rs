//! How long messages were in transit.
//!
//! When a message arrived is known only if a rank waited for it. Its transit starts when its link is free: when the message
//! before it on the link had arrived, less the latency. So only messages count whose arrival is known, and whose predecessor's
//! arrival is known too or came before they were issued. For a link without any such message, the shortest transit is an upper
//! bound.

use std::collections::BTreeMap;

use pipezero_plan::Plan;
use pipezero_plan::costs::{Messages, Route};
use pipezero_schedule::{Instruction, Lane};

use super::median::median;
use super::waits::was_waited_for;
use crate::recording::Recording;

/// The transit times of messages in several steps.
#[derive(Debug)]
pub(super) struct TransitTimes<'a> {
    plan: &'a Plan,
    messages: Messages,
    routes: BTreeMap<Route, RouteTimes>,
}

/// Those of the messages of one route.
#[derive(Debug, Default)]
struct RouteTimes {
    latency_ns: u64,
    alone_ns: Vec<u64>,
    /// The shortest of those that may have waited for their link.
    queued_ns: Option<u64>,
}

/// A message that one rank received.
struct Received {
    route: Route,
    latency_ns: u64,
    ready_ns: u64,
    arrived_ns: u64,
    was_waited_for: bool,
}

impl<'a> TransitTimes<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { plan, messages: Messages::of(plan), routes: BTreeMap::new() }
    }

    /// How long a message occupies its link, and how much later it arrives: by the median of the transit times that are known. 0 for
    /// messages that no rank ever waited for, which may as well take no time.
    pub(super) fn occupied_and_latency_ns(&self, route: Route) -> [u64; 2] {
        let Some(times) = self.routes.get(&route) else { return [0, 0] };
        let transit_ns = match times.alone_ns.as_slice() {
            [] => times.queued_ns.unwrap_or(0),
            alone_ns => median(alone_ns),
        };
        let latency_ns = times.latency_ns.min(transit_ns);
        [transit_ns - latency_ns, latency_ns]
    }

    /// Adds those of a step.
    pub(super) fn add(&mut self, recording: &Recording<'_>) {
        for rank in recording.ranks() {
            for link in self.received_by_link(recording, rank).into_values() {
                self.add_link(&link);
            }
        }
    }

    /// Adds the messages of a link in the order in which they set out.
    fn add_link(&mut self, link: &[Received]) {
        let mut before: Option<&Received> = None;
        for received in link {
            let (begins_ns, is_known) = match before {
                Some(before) if before.arrived_ns > received.ready_ns => {
                    let free_ns = before.arrived_ns.saturating_sub(received.latency_ns);
                    let begins_ns = if before.was_waited_for { free_ns } else { 0 };
                    (begins_ns.max(received.ready_ns), before.was_waited_for)
                }
                _ => (received.ready_ns, true),
            };
            let transit_ns = received.arrived_ns.saturating_sub(begins_ns);
            let times = self.routes.entry(received.route).or_default();
            times.latency_ns = received.latency_ns;
            if received.was_waited_for && is_known {
                times.alone_ns.push(transit_ns);
            } else if received.was_waited_for {
                times.queued_ns =
                    Some(times.queued_ns.map_or(transit_ns, |shortest| shortest.min(transit_ns)));
            }
            before = Some(received);
        }
    }

    /// What a rank received, by link and in the order in which it set out.
    fn received_by_link(&self, recording: &Recording<'_>, rank: usize) -> BTreeMap<Lane, Vec<Received>> {
        let mut links: BTreeMap<Lane, Vec<Received>> = BTreeMap::new();
        for place in recording.places_of(rank).filter(|place| !place.is_send()) {
            let route = Route::of(place.instruction).filter(|route| !route.kind.is_joint());
            let Some(route) = route else { continue };
            links.entry(recording.link(place)).or_default().push(Received {
                route,
                latency_ns: self.latency_ns(place.instruction),
                ready_ns: recording.ready_ns(place),
                arrived_ns: recording.times(place).arrived_ns,
                was_waited_for: was_waited_for(recording, place),
            });
        }
        links.values_mut().for_each(|link| link.sort_by_key(|received| received.ready_ns));
        links
    }

    /// The part of a message's way that does not occupy its link, where the run emulates links: the longest of all data ranks,
    /// since a prediction has one for all. Elsewhere the two cannot be separated, and all of the way counts as occupied.
    fn latency_ns(&self, instruction: Instruction) -> u64 {
        let shaped = self.plan.run().comm.links.zip(self.messages.get(instruction));
        let longest = shaped.and_then(|(links, message)| {
            message.groups.iter().map(|ranks| links.between(ranks).latency_ns()).max()
        });
        longest.unwrap_or(0)
    }
}
