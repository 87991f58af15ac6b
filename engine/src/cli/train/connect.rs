//! What connects the ranks of each engine of a task: where ranks are processes, all engines have the same processes, and each a world of its own over them.

use std::sync::Arc;

use crate::cli::agreement::{connected, connected_beside};
use crate::cli::failure::Failure;
use crate::host::Launched;
use crate::plan::Plan;
use crate::run::world::World;

/// An engine that is to be connected, and what this process has found that lets it start, or keeps it from that.
pub(super) struct ToConnect<'a, T> {
    pub(super) name: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) own: Result<T, Failure>,
}

/// The world of an engine, and what this process has found.
type Connected<T> = (Arc<dyn World>, T);

/// The world of each engine, in their order.
///
/// # Errors
/// As [`connected`], with the name of the engine.
pub(super) fn connect<T>(
    engines: Vec<ToConnect<'_, T>>,
    launched: Option<&Launched>,
) -> Result<Vec<Connected<T>>, Failure> {
    let mut all: Vec<Connected<T>> = Vec::new();
    for ToConnect { name, plan, own } in engines {
        let connected = match all.first() {
            Some((first, _)) => connected_beside(plan, &**first, launched, own),
            None => connected(plan, launched, own),
        };
        all.push(connected.map_err(|failure| failure.of_engine(name))?);
    }
    Ok(all)
}
