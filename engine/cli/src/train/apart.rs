//! A job of processes whose engines have ranks of their own: how its processes end together.
//!
//! A process has the engines one of whose ranks it is, and nothing to do with the others: their steps it does not wait for. But if an engine fails, in whichever
//! processes, all engines end, each after the step that it is in and with a checkpoint. So between rounds each process looks whether the job has failed; once its own
//! engines have ended it waits for the other processes, and tells them what has become of its engines, of which one process then speaks. Processes
//! that end at once would be missed: a launcher may take a process that ends before others for one that is lost, and end them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipezero_comm::world::World;
use pipezero_train::{EndedRun, InTurnError, Left, RESUME_HINT};
use serde::{Deserialize, Serialize};

use crate::agreement::{is_said_elsewhere, left_to_others};
use crate::exit_status::InputMistake;
use crate::failure::Failure;

/// How long the others' words are waited for before it is looked who has ended.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// What connects the processes of such a job.
pub(super) struct Apart {
    pub(super) job: Arc<dyn World>,
    /// The rank of this process.
    pub(super) rank: usize,
    /// No wait within an engine is longer.
    pub(super) timeout: Duration,
}

/// What a process knows of its engines' ends, by their names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Ends {
    /// Failures that it is to say.
    said: BTreeMap<String, String>,
    /// Failures that another process of the engine is to print; that process may have ended.
    unsaid: BTreeMap<String, String>,
    /// What is left of the others.
    left: BTreeMap<String, String>,
    /// Whether a failure comes from the input.
    is_input_mistake: bool,
}

/// How a job has failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct JobError(String);

impl Apart {
    /// Whether an engine has failed anywhere, or a process has ended before the job has.
    pub(super) fn has_failed(&self) -> bool {
        self.job.is_stopped() || (0..self.job.size()).any(|rank| self.job.has_ended(rank))
    }

    /// The end of this process's engines, which are these with their ranks: what they leave, if no engine has failed in any process.
    ///
    /// # Errors
    /// When one has, and so the job; one process says how.
    pub(super) fn end(
        &self,
        ended: Result<Vec<EndedRun>, InTurnError>,
        own: &[(String, Range<usize>)],
    ) -> Result<Vec<EndedRun>, Failure> {
        let left: Vec<(String, Left)> = match ended {
            Ok(ended) => match self.job.add_words_in_any_time(&mut []) {
                Ok(()) => return Ok(ended),
                Err(error) => {
                    tracing::debug!(%error, "the job has failed");
                    ended.into_iter().map(Left::of).collect()
                }
            },
            Err(error) => error.into_all(),
        };
        self.job.stop();
        let ends = Ends::of(&left, |name| {
            own.iter().find(|(known, _)| known == name).map_or(0, |(_, ranks)| self.rank - ranks.start)
        });
        let all = self.exchanged(&ends);
        let speaker = all.iter().position(Option::is_some);
        let error = JobError(text_of(all.iter().flatten()));
        let is_input_mistake = all.iter().flatten().any(|ends| ends.is_input_mistake);
        Err(match speaker == Some(self.rank) {
            true if is_input_mistake => Failure::Input(Box::new(error)),
            true => Failure::Other(Box::new(error)),
            false => left_to_others(&error),
        })
    }

    /// What each process knows, by rank; `None` of one that has ended, or says nothing for longer than any wait may last.
    fn exchanged(&self, own: &Ends) -> Vec<Option<Ends>> {
        let own = serde_json::to_vec(own).expect("names and texts have string keys and finite depth");
        let mut last = (Instant::now(), 0);
        loop {
            let heard = self.job.exchange_failures(own.clone(), BETWEEN_LOOKS);
            let num_heard = heard.iter().flat_map(|(_, message)| message).count();
            let is_open =
                heard.iter().any(|(ranks, message)| message.is_none() && !self.job.has_ended(ranks.start));
            if num_heard > last.1 {
                last = (Instant::now(), num_heard);
            }
            if !is_open || last.0.elapsed() > self.timeout {
                let read = |message: Vec<u8>| serde_json::from_slice(&message).ok();
                return heard.into_iter().map(|(_, message)| message.and_then(read)).collect();
            }
        }
    }
}

impl Ends {
    /// Of engines in which the process has these ranks.
    fn of(left: &[(String, Left)], rank_in: impl Fn(&str) -> usize) -> Self {
        let mut ends = Self::default();
        for (name, left) in left {
            let (name, text) = (name.clone(), left.to_string());
            let Left::Failed(error) = left else {
                ends.left.insert(name, text);
                continue;
            };
            ends.is_input_mistake |= error.is_input_mistake();
            let of = if is_said_elsewhere(error, Some(rank_in(&name))) {
                &mut ends.unsaid
            } else {
                &mut ends.said
            };
            of.insert(name, text);
        }
        ends
    }
}

/// How the job has failed: the engines that have failed, what is left of the others, and how to go on.
fn text_of<'a>(all: impl Iterator<Item = &'a Ends> + Clone) -> String {
    let mut failed: BTreeMap<&str, &str> = BTreeMap::new();
    let mut left: BTreeMap<&str, &str> = BTreeMap::new();
    let texts =
        |of: &'a BTreeMap<String, String>| of.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    for (name, text) in all.clone().flat_map(|ends| texts(&ends.said)) {
        failed.entry(name).or_insert(text);
    }
    for (name, text) in all.clone().flat_map(|ends| texts(&ends.unsaid)) {
        failed.entry(name).or_insert(text);
    }
    for (name, text) in all.flat_map(|ends| texts(&ends.left)) {
        if !failed.contains_key(name) {
            left.entry(name).or_insert(text);
        }
    }
    let mut lines: Vec<String> =
        failed.into_iter().chain(left).map(|(name, text)| format!("engine `{name}`: {text}")).collect();
    if lines.is_empty() {
        lines.push("a process has ended before the others".to_owned());
    }
    lines.push(RESUME_HINT.to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_is_said_once_and_a_failure_by_who_is_to_say_it() {
        let ends = |said: &[(&str, &str)], unsaid: &[(&str, &str)], left: &[(&str, &str)]| {
            let owned = |of: &[(&str, &str)]| {
                of.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
            };
            Ends { said: owned(said), unsaid: owned(unsaid), left: owned(left), is_input_mistake: false }
        };
        let processes = [
            ends(&[], &[("b", "another process has failed")], &[("a", "it was ended")]),
            ends(&[("b", "its rank 1 panicked")], &[], &[]),
            ends(&[], &[("c", "rank 0 was killed")], &[("a", "it was ended")]),
        ];
        expect_test::expect![[r#"
            engine `b`: its rank 1 panicked
            engine `c`: rank 0 was killed
            engine `a`: it was ended
            once the cause is removed, the same command with --resume goes on with each engine from its newest checkpoint"#]]
        .assert_eq(&text_of(processes.iter()));
        assert!(text_of([].iter()).starts_with("a process has ended before the others\n"));
    }
}
