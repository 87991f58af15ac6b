//! One start of the processes, until all have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::end::{End, Lost, end_of, unprinted_error};
use super::error::JobError;
use super::idle_mpirun::IdleMpirun;
use super::processes::Process;
use super::seen_processes::SeenProcesses;
use super::started::{ConnectedBy, Started};
use super::statuses::Statuses;

/// How often it is looked whether something has happened.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long the others have to end once a process has said that it failed: ranks that notice a failure wait for the reports of others that are slow.
const TIME_TO_END: Duration = Duration::from_secs(8);
/// How long they then have until `mpirun` is ended too, whether or not they have.
const TIME_OF_MPIRUN: Duration = Duration::from_secs(10);

/// What happens while processes run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// These ranks are ended, since others have failed and they have not.
    Ending {
        /// The ranks, and of each whether a signal had stopped it.
        ranks: Vec<(usize, bool)>,
    },
    /// The processes are started again, for this time of at most so many.
    Restarting {
        /// From 1.
        restart: u32,
        /// At most.
        max_restarts: u32,
        /// Why.
        lost: Lost,
    },
    /// The rank that was to say why the ranks have stopped was killed before it could: this one has left what it knows.
    Unsaid {
        /// The lowest of those that know.
        rank: usize,
        /// What it knows.
        error: String,
    },
}

/// Starts so many processes of a program once, and returns when they have ended. `num_signals` counts those that ask this process to end.
pub(super) fn run(
    (connected_by, num_processes): (ConnectedBy, usize),
    command: (&Path, &[OsString]),
    num_signals: &dyn Fn() -> usize,
    tell: &mut dyn FnMut(Event),
) -> Result<End, JobError> {
    let statuses = Statuses::new(num_processes).map_err(io_error("a folder for the processes' statuses"))?;
    let started = Started::new(connected_by, num_processes, command, statuses.folder())?;
    let mut running = Running {
        started,
        statuses,
        num_passed_on: BTreeMap::new(),
        seen: SeenProcesses::new(num_processes, Instant::now()),
        failed_at: None,
        ended_at: None,
        ended: BTreeSet::new(),
        idle_mpirun: IdleMpirun::default(),
    };
    let end = loop {
        if let Some(end) = running.started.end().map_err(io_error("the processes of the job"))? {
            break end;
        }
        running.pass_on(num_signals());
        running.end_what_is_left(tell);
        let Running { started, statuses, seen, idle_mpirun, .. } = &mut running;
        idle_mpirun.end_if_alone(started, seen, &statuses.read(), num_signals() > 0);
        thread::sleep(BETWEEN_LOOKS);
    };
    running.end(end, num_signals() > 0, tell)
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> JobError {
    move |source| JobError::Io { what, source }
}

struct Running {
    started: Started,
    statuses: Statuses,
    /// How many signals each process has been sent.
    num_passed_on: BTreeMap<Process, usize>,
    /// Which processes there are, and were.
    seen: SeenProcesses,
    /// When it was first seen that a process has failed.
    failed_at: Option<Instant>,
    /// When the others were ended.
    ended_at: Option<Instant>,
    /// The ranks that were ended while they waited for others to be connected.
    ended: BTreeSet<usize>,
    /// `mpirun`, once no process is there.
    idle_mpirun: IdleMpirun,
}

impl Running {
    /// Passes signals on to the ranks: the first ends the run after its step, the second at once.
    fn pass_on(&mut self, num_signals: usize) {
        if num_signals == 0 {
            return;
        }
        // Some processes may have begun only after a signal.
        for process in self.started.processes() {
            let num_passed_on = self.num_passed_on.entry(process.thawed()).or_default();
            if *num_passed_on < num_signals {
                *num_passed_on += 1;
                process.signal(Signal::TERM);
            }
        }
    }

    fn end_what_is_left(&mut self, tell: &mut dyn FnMut(Event)) {
        let is_one_lost = self.misses_a_process();
        if self.failed_at.is_none() && (is_one_lost || self.says_of_a_failure()) {
            self.failed_at = Some(Instant::now());
        }
        // Processes that are connected notice it themselves, and say where they were.
        let is_unnoticed = is_one_lost && !self.statuses.are_connected();
        let is_due = is_unnoticed || self.failed_at.is_some_and(|since| since.elapsed() > TIME_TO_END);
        if is_due && self.ended_at.is_none() {
            self.ended_at = Some(Instant::now());
            self.end_all(is_unnoticed, tell);
        }
        if self.ended_at.is_some_and(|since| since.elapsed() > TIME_OF_MPIRUN) {
            self.started.signal_starter(Signal::KILL);
        }
    }

    fn end_all(&mut self, do_wait_for_others: bool, tell: &mut dyn FnMut(Event)) {
        let left = self.started.processes();
        if left.is_empty() {
            return;
        }
        if do_wait_for_others {
            self.ended.extend(left.iter().map(|process| process.rank));
        }
        tell(Event::Ending { ranks: left.iter().map(|process| (process.rank, process.is_frozen)).collect() });
        left.into_iter().for_each(|process| process.signal(Signal::KILL));
    }

    fn says_of_a_failure(&self) -> bool {
        self.statuses.read().iter().any(|status| status.is_some_and(|status| status != 0))
    }

    /// Whether a process has ended without a status, or all that are left are frozen. Before the processes are connected and after the
    /// others have ended, no rank may notice that.
    fn misses_a_process(&mut self) -> bool {
        if let Some(ended) = self.started.ended() {
            // Looked at afterwards: a process that ends leaves its status before.
            let statuses = self.statuses.read();
            if ended.iter().zip(statuses).any(|(&has_ended, status)| has_ended && status.is_none()) {
                return true;
            }
        }
        let now = Instant::now();
        if !self.seen.is_due(now) {
            return false;
        }
        // Listed first, for the same reason.
        let left = self.started.processes();
        let statuses = self.statuses.read();
        self.seen.note(&left, now);
        let is_missing =
            |(rank, status): (usize, &Option<u8>)| status.is_none() && self.seen.is_missing(rank, now);
        let are_frozen = !left.is_empty() && left.iter().all(|process| process.is_frozen);
        let has_one_ended = statuses.iter().any(Option::is_some);
        statuses.iter().enumerate().any(is_missing) || (are_frozen && has_one_ended)
    }

    fn end(
        self,
        end: Result<(), ExitStatus>,
        is_interrupted: bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<End, JobError> {
        let have_begun = end.is_ok() || self.seen.has_one_begun() || self.idle_mpirun.was_signalled();
        match (end_of(&self.statuses.read(), &self.ended, have_begun, is_interrupted), end) {
            (Some(end), _) => {
                if let End::Lost(lost) = &end
                    && let Some((rank, error)) = unprinted_error(lost, self.statuses.unsaid())
                {
                    tell(Event::Unsaid { rank, error });
                }
                Ok(end)
            }
            (None, Err(status)) => Err(JobError::NotStarted(status)),
            (None, Ok(())) => unreachable!("of processes that have begun those without a status are lost"),
        }
    }
}

impl Drop for Running {
    /// However this ends, no process stays behind; after a SIGKILL of this process none stays longer than its step.
    fn drop(&mut self) {
        if matches!(self.started.end(), Ok(None)) {
            self.started.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// How a job of three processes ends, each of which is a shell with this script, and what is told meanwhile.
    fn ended(script: &str) -> (End, Vec<Event>) {
        let arguments = ["-c", script].map(OsString::from);
        let mut events = Vec::new();
        let command = (Path::new("/bin/sh"), &arguments[..]);
        let end = run((ConnectedBy::Nccl, 3), command, &|| 0, &mut |event| events.push(event));
        (end.unwrap(), events)
    }

    #[test]
    fn a_rank_that_is_killed_before_all_are_connected_ends_the_others_at_once() {
        let start = Instant::now();
        // The others would wait for ever.
        let (end, events) = ended("test $RANK = 1 && kill -9 $$; exec tail -f /dev/null");
        let lost = Lost { killed: vec![1], failed: Vec::new(), ended: vec![0, 2] };
        assert_eq!(end, End::Lost(lost));
        assert_eq!(events, [Event::Ending { ranks: vec![(0, false), (2, false)] }]);
        assert!(start.elapsed() < TIME_TO_END);
    }

    /// What a process does that has noticed by itself that another has ended.
    const NOTICES: &str = "printf 'rank 0 has ended' > $PIPEZERO_STATUSES/$RANK.unsaid; printf 1 > $PIPEZERO_STATUSES/$RANK; exit 1";

    #[test]
    fn ranks_that_are_connected_say_why_they_end_or_leave_it_to_one_that_does() {
        let killed = "touch $PIPEZERO_STATUSES/connected; test $RANK = 0 && kill -9 $$;";
        let (end, events) = ended(&format!("{killed} {NOTICES}"));
        let lost = Lost { killed: vec![0], failed: vec![1, 2], ended: Vec::new() };
        assert_eq!(end, End::Lost(lost.clone()));
        // Both have left it to rank 0.
        assert_eq!(events, [Event::Unsaid { rank: 1, error: "rank 0 has ended".to_owned() }]);
        let says = "test $RANK = 1 && printf 1 > $PIPEZERO_STATUSES/1 && exit 1;";
        assert_eq!(ended(&format!("{killed} {says} {NOTICES}")), (End::Lost(lost), Vec::new()));
    }

    #[test]
    fn all_ranks_have_one_secret_which_another_start_has_not() {
        let home = tempfile::tempdir().unwrap();
        let secrets = |start: &str| -> Vec<String> {
            let file = home.path().join(start);
            let script = format!(
                "printf '%s' $PIPEZERO_JOB_SECRET > {}-$RANK; printf 0 > $PIPEZERO_STATUSES/$RANK",
                file.display()
            );
            assert_eq!(ended(&script), (End::Done, Vec::new()));
            (0..3).map(|rank| fs::read_to_string(format!("{}-{rank}", file.display())).unwrap()).collect()
        };
        let [first, second] = ["first", "second"].map(secrets);
        assert!(first[0].len() == 64 && first.iter().all(|secret| *secret == first[0]), "{first:?}");
        assert_ne!(first[0], second[0]);
    }
}
