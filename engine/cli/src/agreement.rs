//! What the processes of a job find before their ranks start is known to all: what is wrong is said by one, and all end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pipezero_files::host::{LaunchedProcess, job_files};
use pipezero_plan::Plan;
use pipezero_run::engine::{EngineError, Report};
use pipezero_run::world::{
    World, WorldError, connect_beside, connect_job, connect_ranks, world_of, world_spec,
};
use pipezero_train::TrainingError;

use super::failure::Failure;
use super::output::{be_silent, keep, note};
use super::terminal;

/// What a launcher says of this process, if one has started it, and whether it speaks for the job: that of rank 0 does, and the others are silent from
/// now on.
pub(super) fn place_in_job() -> Result<(Option<LaunchedProcess>, bool), Failure> {
    let launched = LaunchedProcess::this().map_err(WorldError::from)?;
    let is_first = launched.as_ref().is_none_or(|launched| launched.rank == 0);
    if !is_first {
        be_silent();
    }
    Ok((launched, is_first))
}

/// Connects the ranks of a plan, once this process has found something that lets it start, or keeps it from that.
///
/// # Errors
/// As [`agreed`], and when the ranks cannot be connected.
pub(super) fn connected<T>(
    plan: &Plan,
    launched: Option<&LaunchedProcess>,
    own: Result<T, Failure>,
) -> Result<(Arc<dyn World>, T), Failure> {
    connected_by(|| world_of(plan), launched, own)
}

/// As [`connected`], for another engine of the processes that a world connects already.
///
/// # Errors
/// As [`connected`].
pub(super) fn connected_beside<T>(
    plan: &Plan,
    first: &dyn World,
    launched: Option<&LaunchedProcess>,
    own: Result<T, Failure>,
) -> Result<(Arc<dyn World>, T), Failure> {
    connected_by(|| connect_beside(&world_spec(plan), first), launched, own)
}

/// Connects the processes of a job whose engines have ranks of their own, as the plan of one of them says, with waits of at most `timeout`.
///
/// # Errors
/// As [`connected`].
pub(super) fn connected_job<T>(
    plan: &Plan,
    timeout: Duration,
    launched: Option<&LaunchedProcess>,
    own: Result<T, Failure>,
) -> Result<(Arc<dyn World>, T), Failure> {
    connected_by(|| connect_job(&world_spec(plan), timeout), launched, own)
}

/// Connects the ranks of an engine in such a job; `None` in the processes that have none of them.
///
/// # Errors
/// As [`agreed`], and when the ranks cannot be connected.
pub(super) fn connected_on_ranks(
    plan: &Plan,
    job: &dyn World,
    launched: Option<&LaunchedProcess>,
) -> Result<Option<Arc<dyn World>>, Failure> {
    let world = connect_ranks(&world_spec(plan), job).map_err(|error| match error {
        WorldError::SaidByFirst | WorldError::SaidByAnother => left_to_others(&error),
        error => TrainingError::from(EngineError::from(error)).into(),
    });
    agreed(job, launched, world)
}

/// What a process has come to when it has started its engines, once all have come as far: each takes its own time for that.
///
/// # Errors
/// As [`agreed`].
pub(super) fn agreed_in_any_time<T>(
    world: &dyn World,
    launched: Option<&LaunchedProcess>,
    own: Result<T, Failure>,
) -> Result<T, Failure> {
    // What keeps them from coming is seen again by what they then agree on.
    let _ = world.add_words_in_any_time(&mut []);
    agreed(world, launched, own)
}

fn connected_by<T>(
    world: impl FnOnce() -> Result<Arc<dyn World>, WorldError>,
    launched: Option<&LaunchedProcess>,
    own: Result<T, Failure>,
) -> Result<(Arc<dyn World>, T), Failure> {
    // Nobody else waits for what a process finds that is alone.
    let own = if launched.is_none() { Ok(own?) } else { own };
    let world = match world() {
        Ok(world) => world,
        // What this process has found itself is the likelier cause.
        Err(error) => {
            let not_connected = || said_once(EngineError::from(error).into(), rank_of(launched));
            return Err(own.err().unwrap_or_else(not_connected));
        }
    };
    let found = agreed(&*world, launched, own)?;
    for warning in world.warnings() {
        note(terminal::fitted(&format!("warning: {warning}")));
    }
    Ok((world, found))
}

/// Of a process that leaves it to others to say why it cannot go on.
const FAILED_WITHOUT_A_WORD: u64 = 2;

/// What this process has found, once all have come as far.
///
/// # Errors
/// What it has found, in a process that is alone, and in the one with the lowest rank of those whose errors keep a job from starting.
pub(super) fn agreed<T>(
    world: &dyn World,
    launched: Option<&LaunchedProcess>,
    own: Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(&LaunchedProcess { rank, .. }) = launched else { return own };
    let mut failed = vec![0; world.size()];
    // A launcher's rank may be beyond, which the engine refuses.
    if let Some(failed) = failed.get_mut(rank) {
        *failed = match own {
            Ok(_) => 0,
            Err(Failure::SaidElsewhere) => FAILED_WITHOUT_A_WORD,
            Err(_) => 1,
        };
    }
    let asked = world.add_words(&mut failed);
    let says = |&failed: &u64| failed > 0 && failed != FAILED_WITHOUT_A_WORD;
    match (own, failed.iter().position(says)) {
        (Err(error), Some(first)) if first == rank => Err(error),
        (_, Some(_)) => Err(Failure::SaidElsewhere),
        (_, None) if failed.contains(&FAILED_WITHOUT_A_WORD) => Err(Failure::SaidElsewhere),
        (own, None) => {
            asked.map_err(|error| TrainingError::from(EngineError::from(error)))?;
            own
        }
    }
}

/// The rank that a launcher has given this process, if one has.
pub(super) fn rank_of(launched: Option<&LaunchedProcess>) -> Option<usize> {
    launched.map(|launched| launched.rank)
}

/// What ends a job is said by one process: what all find alike by that of rank 0, and how ranks have stopped by that of the lowest rank that is left. What the
/// others know is in their logs. `rank` is that of this process among those of which this is, if it is one of several.
pub(super) fn said_once(error: TrainingError, rank: Option<usize>) -> Failure {
    if is_said_elsewhere(&error, rank) { left_to_others(&error) } else { error.into() }
}

/// Whether another process says this, where this one has this rank of several.
pub(super) fn is_said_elsewhere(error: &TrainingError, rank: Option<usize>) -> bool {
    let Some(own) = rank else { return false };
    let is_another = |rank: usize| rank != own;
    error.is_elsewhere()
        || error.is_of_all() && is_another(0)
        || error.report().and_then(Report::speaker).is_some_and(is_another)
}

/// Leaves it to the others to say what has failed.
pub(super) fn left_to_others(error: &impl fmt::Display) -> Failure {
    keep(&format!("error: {error}"));
    // The one that is to say it may be killed before it does.
    job_files::leave_unsaid(&error.to_string());
    Failure::SaidElsewhere
}
