//! Several training runs in the same processes, each on ranks of its own or on ranks that it shares with others.
//!
//! Runs that meet on a rank take turns ([`in_turn`](super::in_turn)), and so do those that meet by way of others. Groups of runs that do not meet
//! train at the same time, each in a thread of its own, and do not wait for each other. The runs share nothing but the processes, so
//! each computes what it would compute alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use pipezero_run::engine::EngineError;

use super::error::TrainingError;
use super::in_turn::{Asked, EndedRun, GroupEnd, InTurnError, Left, RunInTurn, train_group};

/// A run with its place among all.
type Placed<'a> = (usize, RunInTurn<'a>);

/// Trains the runs, those whose ranks meet in turn and the others at the same time, until each has done its own steps or `is_interrupted`, which is
/// asked between rounds. The results are in the order of the runs.
///
/// # Errors
/// When a run fails; the others are then ended as if they were interrupted. Before any step, when a run is said to have other ranks than its plan.
pub fn train_several(
    runs: Vec<RunInTurn<'_>>,
    is_interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<EndedRun>, InTurnError> {
    for (index, run) in runs.iter().enumerate() {
        run.check_ranks().map_err(|error| {
            let others = runs.iter().enumerate().filter(|(other, _)| *other != index);
            let others = others.map(|(_, other)| (other.name.clone(), Left::Untouched)).collect();
            InTurnError { name: run.name.clone(), error: Box::new(error), others }
        })?;
    }
    train_groups(groups(runs), is_interrupted)
}

/// The runs by groups that have no rank in common, in their order.
fn groups(runs: Vec<RunInTurn<'_>>) -> Vec<Vec<Placed<'_>>> {
    let mut groups: Vec<Vec<Placed<'_>>> = Vec::new();
    for placed in runs.into_iter().enumerate() {
        let own = &placed.1.ranks;
        let meets = |group: &Vec<Placed<'_>>| {
            group.iter().any(|(_, run)| run.ranks.start < own.end && own.start < run.ranks.end)
        };
        let (meeting, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(meets);
        let mut group: Vec<Placed<'_>> = meeting.into_iter().flatten().chain([placed]).collect();
        group.sort_by_key(|(index, _)| *index);
        groups = apart;
        groups.push(group);
    }
    groups.sort_by_key(|group| group[0].0);
    groups
}

/// Trains groups at the same time, and the runs of each in turn.
fn train_groups(
    groups: Vec<Vec<Placed<'_>>>,
    is_interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<EndedRun>, InTurnError> {
    let has_failed = AtomicBool::new(false);
    let asked = || match has_failed.load(Ordering::Relaxed) {
        true => Asked::Stop,
        false if is_interrupted() => Asked::Interrupt,
        false => Asked::GoOn,
    };
    // In the order in which they end.
    let ends = Mutex::new(Vec::new());
    let train = |group| {
        let _panic = TellsOfPanic(&has_failed);
        let end = train_group(group, &asked);
        let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
        has_failed.fetch_or(matches!(end, GroupEnd::Failed(_)), Ordering::Relaxed);
        ends.push(end);
    };
    thread::scope(|scope| {
        let mut groups = groups.into_iter();
        let first = groups.next();
        for group in groups {
            let (name, rank) = (group[0].1.name.clone(), group[0].1.ranks.start);
            let started = thread::Builder::new().name(name.clone()).spawn_scoped(scope, || train(group));
            if let Err(error) = started {
                let error = EngineError::Start { rank, reason: error.to_string() };
                let error = InTurnError { name, error: Box::new(error.into()), others: Vec::new() };
                has_failed.store(true, Ordering::Relaxed);
                ends.lock().unwrap_or_else(PoisonError::into_inner).push(GroupEnd::Failed(error));
            }
        }
        first.into_iter().for_each(train);
    });
    joined(ends.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A panic ends its own group alone: this tells the others.
struct TellsOfPanic<'a>(&'a AtomicBool);

impl Drop for TellsOfPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// What all groups have come to; where one has failed, the error of the first.
fn joined(ends: Vec<GroupEnd>) -> Result<Vec<EndedRun>, InTurnError> {
    let mut all_ended: Vec<(usize, EndedRun)> = Vec::new();
    let mut first: Option<(String, Box<TrainingError>)> = None;
    let mut others = Vec::new();
    for end in ends {
        match end {
            GroupEnd::Ended(ended) => all_ended.extend(ended),
            GroupEnd::Stopped(left) => others.extend(left),
            GroupEnd::Failed(failed) => {
                others.extend(failed.others);
                match first {
                    None => first = Some((failed.name, failed.error)),
                    Some(_) => others.push((failed.name, Left::Failed(*failed.error))),
                }
            }
        }
    }
    all_ended.sort_by_key(|(index, _)| *index);
    match first {
        None => Ok(all_ended.into_iter().map(|(_, ended)| ended).collect()),
        Some((name, error)) => {
            others.extend(all_ended.into_iter().map(|(_, ended)| Left::of(ended)));
            Err(InTurnError { name, error, others })
        }
    }
}
