//! Several training runs in the same processes, often one, whose steps take turns: a round is one step of each.
//!
//! The runs share nothing but the processes, so each computes what it would compute alone, whatever the others do and however they are
//! ordered. One that has done its own steps is finished at once, and the others go on. Signals are looked at between rounds, so that all runs
//! that are interrupted have done as many steps of this start.

use std::fmt;
use std::ops::Range;
use std::time::Instant;

use super::error::TrainingError;
use super::observer::Observer;
use super::run_dir::RunDir;
use super::summary::Summary;
use super::training::Training;
use super::underway::Underway;

/// A run that is to take turns with others.
pub struct RunInTurn<'a> {
    /// By which messages know it.
    pub name: String,
    /// Its ranks among those of all runs, as many as its plan is for.
    pub ranks: Range<usize>,
    /// What is trained.
    pub training: Training,
    /// Where it writes, of its own.
    pub directory: &'a RunDir,
    /// Receives its lines.
    pub observer: &'a mut (dyn Observer + Send),
}

impl RunInTurn<'_> {
    /// Refuses ranks that are not those of the plan.
    pub(super) fn check_ranks(&self) -> Result<(), TrainingError> {
        let plan = self.training.plan();
        let (needed, first) = (plan.grid().world_size(), plan.run().comm.first_rank);
        if self.ranks.len() == needed && first.is_none_or(|first| first == self.ranks.start) {
            return Ok(());
        }
        Err(TrainingError::OtherRanks { given: self.ranks.clone(), needed, first })
    }
}

/// A run that has ended without an error, after its last step or because it was interrupted.
#[derive(Debug)]
pub struct EndedRun {
    /// Its name.
    pub name: String,
    /// Whether its model learns from data, and so has losses.
    pub learns: bool,
    /// What it has left.
    pub summary: Summary,
    /// Seconds of its own turns, evaluations and saving included.
    pub elapsed_s: f64,
}

/// A run has failed, and the others have ended with it.
#[derive(Debug, thiserror::Error)]
pub struct InTurnError {
    /// The run that failed.
    pub name: String,
    /// Why.
    #[source]
    pub error: Box<TrainingError>,
    /// What has become of the others.
    pub others: Vec<(String, Left)>,
}

/// What is left of a run when another has failed.
#[derive(Debug)]
pub enum Left {
    /// It had done all its steps.
    Done,
    /// It was ended after this step, with a checkpoint, as a signal would have ended it.
    Saved {
        /// Steps done.
        step: u64,
    },
    /// It had done no step since it was started, so what it was started from is what there is.
    Untouched,
    /// It was ended, and that failed.
    Failed(TrainingError),
}

impl Left {
    /// Of a run that has ended without an error.
    pub fn of(ended: EndedRun) -> (String, Self) {
        let left = match (ended.summary.interrupted, ended.summary.steps) {
            (false, _) => Self::Done,
            // No checkpoint is written before the first step.
            (true, 0) => Self::Untouched,
            (true, step) => Self::Saved { step },
        };
        (ended.name, left)
    }
}

impl fmt::Display for InTurnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "engine `{}`: {}", self.name, self.error.among_others())?;
        for (name, left) in &self.others {
            write!(f, "\nengine `{name}`: {left}")?;
        }
        write!(f, "\n{RESUME_HINT}")
    }
}

/// How to go on after a failure.
pub const RESUME_HINT: &str = "once the cause is removed, the same command with --resume goes on with each engine from its newest checkpoint";

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("it has done all its steps"),
            Self::Saved { step } => write!(f, "it was ended after step {step}, with a checkpoint"),
            Self::Untouched => f.write_str("it had not done a step since this start"),
            Self::Failed(error) => f.write_str(&error.among_others()),
        }
    }
}

impl InTurnError {
    /// What has become of each run: the one that failed first.
    pub fn into_all(self) -> Vec<(String, Left)> {
        let first = (self.name, Left::Failed(*self.error));
        std::iter::once(first).chain(self.others).collect()
    }
}

/// What is asked of runs between their rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// To go on.
    GoOn,
    /// To end, as a signal asks.
    Interrupt,
    /// To end, since a run beside them has failed.
    Stop,
}

/// What runs that take turns have come to.
pub(super) enum GroupEnd {
    /// Each has ended without an error; with their places.
    Ended(Vec<(usize, EndedRun)>),
    /// One has failed.
    Failed(InTurnError),
    /// They were asked to stop.
    Stopped(Vec<(String, Left)>),
}

/// Trains the runs in turn, each with its place among all, until each has done its own steps or something is asked of them.
pub(super) fn train_group(runs: Vec<(usize, RunInTurn<'_>)>, asked: &dyn Fn() -> Asked) -> GroupEnd {
    match trained(runs, asked) {
        Ok(round) if round.goes_on.is_empty() => GroupEnd::Ended(round.ended),
        Ok(round) => GroupEnd::Stopped(round.left()),
        Err(error) => GroupEnd::Failed(error),
    }
}

/// The last round: nothing goes on after it, unless all were asked to stop.
fn trained<'a>(
    runs: Vec<(usize, RunInTurn<'a>)>,
    asked: &dyn Fn() -> Asked,
) -> Result<Round<'a>, InTurnError> {
    let mut round = Round { goes_on: Vec::new(), ended: Vec::new() };
    let mut runs = runs.into_iter();
    while let Some((index, run)) = runs.next() {
        let RunInTurn { name, training, directory, observer, .. } = run;
        let begun = Instant::now();
        match training.begin(directory, observer) {
            Ok(underway) => {
                let first = underway.num_steps();
                let elapsed_s = begun.elapsed().as_secs_f64();
                round.goes_on.push(Turn { index, name, underway, observer, first, elapsed_s });
            }
            Err(error) => {
                // First those that have not begun: processes that do not have the run that failed wait for them.
                let untouched: Vec<_> = runs.map(|(_, run)| (run.name, Left::Untouched)).collect();
                let mut error = round.failed(name, error);
                error.others.extend(untouched);
                return Err(error);
            }
        }
    }
    while !round.goes_on.is_empty() {
        round = match asked() {
            Asked::Stop => return Ok(round),
            asked => round.next(asked == Asked::Interrupt)?,
        };
    }
    Ok(round)
}

/// A run whose turn comes again.
struct Turn<'a> {
    /// Its place among all runs.
    index: usize,
    name: String,
    underway: Underway<'a>,
    observer: &'a mut (dyn Observer + Send),
    /// Steps that were done before this start.
    first: u64,
    elapsed_s: f64,
}

/// What all runs have come to.
struct Round<'a> {
    goes_on: Vec<Turn<'a>>,
    /// With their places.
    ended: Vec<(usize, EndedRun)>,
}

impl<'a> Round<'a> {
    /// One step of each run that goes on.
    fn next(self, is_interrupted: bool) -> Result<Self, InTurnError> {
        let mut round = Self { goes_on: Vec::new(), ended: self.ended };
        let mut turns = self.goes_on.into_iter();
        while let Some(mut turn) = turns.next() {
            let name = turn.name.clone();
            let ended = match turn.step(is_interrupted) {
                Ok(true) => {
                    round.goes_on.push(turn);
                    continue;
                }
                Ok(false) => turn.finish(),
                Err(error) => Err(error),
            };
            match ended {
                Ok(ended) => round.ended.push(ended),
                Err(error) => {
                    // First those whose turn it would be: processes that do not have the run that failed wait for them in this round.
                    round.goes_on = turns.chain(round.goes_on).collect();
                    return Err(round.failed(name, error));
                }
            }
        }
        Ok(round)
    }

    /// Ends all runs that go on, since one has failed.
    fn failed(self, name: String, error: TrainingError) -> InTurnError {
        InTurnError { name, error: Box::new(error), others: self.left() }
    }

    /// Ends all runs that go on.
    fn left(self) -> Vec<(String, Left)> {
        let ended = self.ended.into_iter().map(|(_, ended)| Left::of(ended));
        ended.chain(self.goes_on.into_iter().map(Turn::stop)).collect()
    }
}

impl Turn<'_> {
    /// Its turn; `false` if it has no step left, or is interrupted.
    fn step(&mut self, is_interrupted: bool) -> Result<bool, TrainingError> {
        let begun = Instant::now();
        let has_stepped = self.underway.step(is_interrupted, self.observer)?;
        self.elapsed_s += begun.elapsed().as_secs_f64();
        Ok(has_stepped)
    }

    /// Its end, with its place.
    fn finish(self) -> Result<(usize, EndedRun), TrainingError> {
        let begun = Instant::now();
        let Self { index, name, underway, observer, elapsed_s, .. } = self;
        let learns = underway.plan().run().model.learns();
        let summary = underway.finish(observer)?;
        let elapsed_s = elapsed_s + begun.elapsed().as_secs_f64();
        Ok((index, EndedRun { name, learns, summary, elapsed_s }))
    }

    /// Its end because another run has failed.
    fn stop(self) -> (String, Left) {
        let Self { name, mut underway, observer, first, .. } = self;
        let is_untouched = underway.num_steps() == first;
        // Its other processes may not have heard of the failure, and hear of the end at the same step.
        let ended = underway.step(true, observer).and_then(|_| underway.finish(observer));
        let left = match ended {
            Ok(_) if is_untouched => Left::Untouched,
            Ok(summary) if summary.interrupted => Left::Saved { step: summary.steps },
            Ok(_) => Left::Done,
            Err(error) => Left::Failed(error),
        };
        (name, left)
    }
}
