//! What connects the ranks of each engine of a task. Where ranks are processes, an engine's world is over those that have one of its ranks: all of them,
//! unless the task says otherwise. Then another world connects all processes of the job.

use std::sync::Arc;
use std::time::Duration;

use pipezero_comm::world::World;
use pipezero_files::host::LaunchedProcess;
use pipezero_plan::Plan;

use super::ready::Ready;
use crate::agreement::{connected, connected_beside, connected_job, connected_on_ranks};
use crate::failure::Failure;

/// An engine that is to be connected, and what this process has found that lets it start, or keeps it from that.
pub(super) struct ToConnect<'a> {
    pub(super) name: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) own: Result<Ready, Failure>,
}

/// The world of an engine, and what this process has found; `None` where it has none of the engine's ranks.
pub(super) type Connected = Option<(Arc<dyn World>, Ready)>;

/// The world of each engine, in their order, all of which have all processes.
///
/// # Errors
/// As [`connected`], with the name of the engine.
pub(super) fn connect(
    engines: Vec<ToConnect<'_>>,
    launched: Option<&LaunchedProcess>,
) -> Result<Vec<Connected>, Failure> {
    let mut all: Vec<Connected> = Vec::new();
    for ToConnect { name, plan, own } in engines {
        let connected = match all.first().and_then(Option::as_ref) {
            Some((first, _)) => connected_beside(plan, &**first, launched, own),
            None => connected(plan, launched, own),
        };
        all.push(Some(connected.map_err(|failure| failure.of_engine(name))?));
    }
    Ok(all)
}

/// What connects all processes of the job, with waits of at most `timeout`, and the world of each engine in which this process has a rank, in their order.
///
/// # Errors
/// As [`connected`], with the name of the engine.
pub(super) fn connect_on_ranks(
    engines: Vec<ToConnect<'_>>,
    timeout: Duration,
    launched: Option<&LaunchedProcess>,
) -> Result<(Arc<dyn World>, Vec<Connected>), Failure> {
    let mut plans = Vec::new();
    let mut found = Vec::new();
    for ToConnect { name, plan, own } in engines {
        plans.push((name, plan));
        found.push(own.map_err(|failure| failure.of_engine(name)));
    }
    let (_, first) = plans[0];
    let found: Result<Vec<Ready>, Failure> = found.into_iter().collect();
    let (job, found) = connected_job(first, timeout, launched, found)?;
    let mut all = Vec::new();
    for ((name, plan), ready) in plans.into_iter().zip(found) {
        let world = connected_on_ranks(plan, &*job, launched).map_err(|failure| failure.of_engine(name))?;
        all.push(world.map(|world| (world, ready)));
    }
    Ok((job, all))
}
