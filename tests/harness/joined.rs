//! A world of two processes that are threads here: two engines, each with a part of the ranks and nothing shared but the world.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipezero::models::{Device, Host};
use pipezero::plan::Plan;
use pipezero::run::comm::{CommError, Communicator, Threads};
use pipezero::run::world::{ClockOffset, Positions, World};

/// What both ends share.
#[derive(Debug)]
struct Shared {
    /// `[process]`
    ranks: [Range<usize>; 2],
    /// What ranks send each other.
    threads: Threads,
    positions: Arc<Positions>,
    timeout: Duration,
    /// How far the second process's clock is said to be ahead.
    clock: ClockOffset,
    table: Mutex<Table>,
    changed: Condvar,
}

/// What the processes have told each other.
#[derive(Debug, Default)]
struct Table {
    stopped: bool,
    /// `[process]`: exchanges that it has begun.
    begun: [u64; 2],
    /// Exchanges that are not over: what it is, and `[process]` its message.
    exchanges: BTreeMap<u64, (&'static str, [Option<Vec<u8>>; 2])>,
    /// `[process]`: its report of a failure.
    reports: [Option<Vec<u8>>; 2],
    /// `[process]`: it has given up its end.
    ended: [bool; 2],
}

/// One process's end.
#[derive(Debug)]
struct End {
    shared: Arc<Shared>,
    process: usize,
}

/// Runs `body` in two processes, the first of which has the ranks below `cut`, and returns what each returns.
pub fn in_two_processes<R: Send>(
    plan: &Plan,
    cut: usize,
    body: impl Fn(Arc<dyn World>, usize) -> R + Sync,
) -> [R; 2] {
    let devices = vec![Arc::new(Host) as Arc<dyn Device>; plan.grid().world_size()];
    on_devices(plan, cut, devices, ClockOffset::ZERO, body)
}

/// As [`in_two_processes`], with the device of each rank, and how far the clock of the second process is said to be ahead.
pub fn on_devices<R: Send>(
    plan: &Plan,
    cut: usize,
    devices: Vec<Arc<dyn Device>>,
    clock: ClockOffset,
    body: impl Fn(Arc<dyn World>, usize) -> R + Sync,
) -> [R; 2] {
    let comm = &plan.run().comm;
    let shared = Arc::new(Shared {
        ranks: [0..cut, cut..devices.len()],
        positions: Arc::new(Positions::new(devices.len())),
        threads: Threads::on(devices, comm.timeout, comm.links),
        timeout: comm.timeout,
        clock,
        table: Mutex::default(),
        changed: Condvar::new(),
    });
    let end = |process| Arc::new(End { shared: Arc::clone(&shared), process });
    let [first, second] = [end(0), end(1)];
    std::thread::scope(|scope| {
        let other = scope.spawn(|| body(second, 1));
        let own = body(first, 0);
        [own, other.join().expect("the second process does not panic")]
    })
}

impl End {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a message and returns those of both processes.
    fn exchange(&self, what: &'static str, message: Vec<u8>) -> Result<[Vec<u8>; 2], CommError> {
        let start = Instant::now();
        let mut table = self.table();
        let number = table.begun[self.process];
        table.begun[self.process] += 1;
        let (first, messages) = table.exchanges.entry(number).or_insert((what, [None, None]));
        if *first != what {
            let [operation, expected] = [what, first].map(str::to_owned);
            return Err(CommError::Mismatch { rank: self.local_ranks().start, operation, expected });
        }
        messages[self.process] = Some(message);
        self.shared.changed.notify_all();
        loop {
            if let Some((_, [Some(first), Some(second)])) = table.exchanges.get(&number) {
                let both = [first.clone(), second.clone()];
                if table.begun.iter().all(|&begun| begun > number + 1) {
                    table.exchanges.remove(&number);
                }
                return Ok(both);
            }
            let missing: Vec<usize> = self.shared.ranks[1 - self.process].clone().collect();
            let (operation, waited) = (what.to_owned(), start.elapsed());
            if table.stopped {
                return Err(CommError::Interrupted { operation, missing });
            }
            let Some(left) = self.shared.timeout.checked_sub(waited) else {
                return Err(CommError::Timeout { waited, operation, missing });
            };
            (table, _) = self.shared.changed.wait_timeout(table, left).expect("no process panics with it");
        }
    }
}

impl World for End {
    fn size(&self) -> usize {
        self.shared.threads.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        self.shared.ranks[self.process].clone()
    }

    fn communicator(&self, rank: usize) -> Box<dyn Communicator> {
        assert!(self.local_ranks().contains(&rank), "a process asks only for its own ranks");
        self.shared.threads.communicator(rank)
    }

    fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        let own = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let both = self.exchange("a sum of words of all processes", own)?;
        words.fill(0);
        for message in both {
            for (sum, &word) in words.iter_mut().zip(message.as_chunks().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(word));
            }
        }
        Ok(())
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        let both = self.exchange("messages to the first process", message)?;
        Ok(if self.process == 0 { both.into() } else { Vec::new() })
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        let [first, _] = self.exchange("a message of the first process", message)?;
        Ok(first)
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.exchange("an estimate of clocks", Vec::new())?;
        Ok([ClockOffset::ZERO, self.shared.clock][self.process])
    }

    fn positions(&self) -> &Arc<Positions> {
        &self.shared.positions
    }

    fn stop(&self) {
        self.shared.threads.stop();
        self.table().stopped = true;
        self.shared.changed.notify_all();
    }

    fn exchange_reports(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        let mut table = self.table();
        table.reports[self.process] = Some(report);
        self.shared.changed.notify_all();
        let other = 1 - self.process;
        let is_open = |table: &mut Table| table.reports[other].is_none() && !table.ended[other];
        let waited = self.shared.changed.wait_timeout_while(table, time, is_open);
        let (table, _) = waited.expect("no process panics with the table");
        self.shared.ranks.iter().cloned().zip(table.reports.iter().cloned()).collect()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.table().ended[self.process] = true;
        self.stop();
    }
}
