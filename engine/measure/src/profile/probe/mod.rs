//! Messages of other sizes than the run's, so that a costs file serves other unit sizes, micro-batches and grids.
//!
//! ```text
//! routes  what is sent at once, and between whom      \
//! sizes   how large                                    +-> rounds -> means by size -> level -> costs file
//! Engine::probe  on the run's own ranks and links     /
//! ```
//!
//! After the recorded steps the same ranks send each kind of message that the run has, at its own sizes and at others, with
//! nothing between. Alone a message is cheaper than in the midst of computes, so what a probe says of a size is brought to the
//! level of the run by what it says of the run's own sizes, whose figures stay as the steps gave them.

mod budget;
mod level;
mod rounds;
mod routes;
mod sizes;

use std::time::Duration;

use pipezero_files::host::available_bytes;
use pipezero_plan::costs::{CostsFile, MessageTimes};
use pipezero_run::engine::{Engine, EngineError};
use pipezero_run::executor::Probe;

use super::facts::{Facts, MessageKey};
use super::into_file::message_times;
use super::sums::MessageTotals;

use self::budget::{Budget, Size};
use self::routes::Routes;

/// What all kinds of messages may take together, each an equal part. Small ones need a tenth of it; over slow links, the largest
/// sizes are not sent, or a whole kind is not.
pub(super) const TIME: Duration = Duration::from_secs(4);

/// Adds sizes to every kind of message of a file that was measured on this engine, in so much time.
///
/// # Errors
/// When a rank stops.
pub(super) fn add_sizes(
    engine: &mut Engine,
    facts: &Facts<'_>,
    costs: &mut CostsFile,
    time: Duration,
) -> Result<(), EngineError> {
    let of_kind = time / costs.messages.len().max(1) as u32;
    for measured in &mut costs.messages {
        let MessageTimes { kind, ranks, .. } = *measured;
        if let Some(routes) = Routes::of(facts, kind) {
            let probed = probe(engine, facts, &routes, measured, of_kind)?;
            // One kind between one number of ranks.
            let sizes = message_times(&probed).pop().map_or_else(Vec::new, |times| times.sizes);
            level::add(measured, &sizes, |bytes| facts.num_messages(MessageKey { kind, ranks, bytes }));
        }
    }
    Ok(())
}

/// What the messages of a kind cost when nothing else runs, at the run's own sizes and at others, as far as time and memory
/// last. Nothing if they do not last for any of the run's own: there would be nothing to compare the others with.
fn probe(
    engine: &mut Engine,
    facts: &Facts<'_>,
    routes: &Routes,
    measured: &MessageTimes,
    time: Duration,
) -> Result<MessageTotals, EngineError> {
    let mut totals = MessageTotals::default();
    let Some(own) = measured.sizes.first() else { return Ok(totals) };
    let mut budget = Budget::new(time, own);
    let sizes = sizes::to_probe(measured, routes.element_type);
    for (index, &bytes) in sizes.iter().enumerate() {
        if index == measured.sizes.len() && totals.iter().next().is_none() {
            break;
        }
        let size = Size { bytes, on_its_link: routes.longest_on_its_link(facts, bytes) };
        if !fits(facts, routes, size) {
            continue;
        }
        let mut send = |num_rounds| {
            let Routes { rows, element_type } = routes.clone();
            let num_elements = bytes as usize / element_type.num_bytes();
            let events = engine.probe(Probe { rows, element_type, num_elements, num_rounds })?;
            Ok(rounds::of_events(facts, routes, &events, num_rounds))
        };
        let num_left = (sizes.len() - index) as u32;
        if let Some(rounds) = budget.spend(size, num_left, &mut send)? {
            rounds::add(facts, routes, bytes, rounds, &mut totals);
        }
    }
    Ok(totals)
}

/// Whether messages of a size fit in memory, and no wait for one is longer than the run allows.
fn fits(facts: &Facts<'_>, routes: &Routes, size: Size) -> bool {
    let needed_bytes = routes.num_buffers(facts).saturating_mul(size.bytes);
    available_bytes().is_none_or(|available| needed_bytes <= available / 2)
        && size.on_its_link <= facts.plan.run().comm.timeout / 2
}

#[cfg(test)]
mod tests;
