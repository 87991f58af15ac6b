//! A world of two processes that are threads here: two engines, each with a part of the ranks and nothing shared but the world.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipezero::models::{Device, Host, Queue};
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
    /// `[process]`: reads its clock.
    clocks: [Arc<dyn Queue>; 2],
    table: Mutex<Table>,
    changed: Condvar,
}

/// What the processes have told each other.
#[derive(Debug, Default)]
struct Table {
    stopped: bool,
    /// `[process]`: exchanges that it has begun.
    begun: [u64; 2],
    /// Exchanges that are not over, by number.
    exchanges: BTreeMap<u64, Exchange>,
    /// `[process]`: its report of a failure.
    reports: [Option<Vec<u8>>; 2],
    /// `[process]`: it has ended.
    ended: [bool; 2],
}

/// What both processes give and take.
#[derive(Debug)]
struct Exchange {
    what: &'static str,
    /// `[process]`
    messages: [Option<Vec<u8>>; 2],
    num_taken: usize,
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
    on_devices(plan, cut, devices, body)
}

/// As [`in_two_processes`], with the device of each rank.
pub fn on_devices<R: Send>(
    plan: &Plan,
    cut: usize,
    devices: Vec<Arc<dyn Device>>,
    body: impl Fn(Arc<dyn World>, usize) -> R + Sync,
) -> [R; 2] {
    let comm = &plan.run().comm;
    let clocks =
        [&devices[0], &devices[cut]].map(|device| device.queue().expect("a device of the host has queues"));
    let shared = Arc::new(Shared {
        clocks,
        ranks: [0..cut, cut..devices.len()],
        positions: Arc::new(Positions::new(devices.len())),
        threads: Threads::on(devices, comm.timeout, comm.links),
        timeout: comm.timeout,
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

    fn now_ns(&self) -> u64 {
        let queue = &self.shared.clocks[self.process];
        queue.time_ns(queue.mark())
    }

    /// Gives a message and returns those of both processes.
    fn exchange(&self, what: &'static str, message: Vec<u8>) -> Result<[Vec<u8>; 2], CommError> {
        let start = Instant::now();
        let number = self.give(what, message)?;
        let (mut table, other) = (self.table(), 1 - self.process);
        loop {
            let exchange = table.exchanges.get_mut(&number).expect("an exchange is there until both took it");
            if let Exchange { messages: [Some(first), Some(second)], .. } = exchange {
                let both = [first.clone(), second.clone()];
                exchange.num_taken += 1;
                if exchange.num_taken == 2 {
                    table.exchanges.remove(&number);
                }
                return Ok(both);
            }
            let missing: Vec<usize> = self.shared.ranks[other].clone().collect();
            let (operation, waited) = (what.to_owned(), start.elapsed());
            if table.stopped || table.ended[other] {
                return Err(CommError::Interrupted { operation, missing });
            }
            let Some(left) = self.shared.timeout.checked_sub(waited) else {
                return Err(CommError::Timeout { waited, operation, missing });
            };
            (table, _) = self.shared.changed.wait_timeout(table, left).expect("no process panics with it");
        }
    }

    /// Gives a message to the next exchange, whose number is returned.
    fn give(&self, what: &'static str, message: Vec<u8>) -> Result<u64, CommError> {
        let mut table = self.table();
        let number = table.begun[self.process];
        table.begun[self.process] += 1;
        let new = || Exchange { what, messages: [None, None], num_taken: 0 };
        let exchange = table.exchanges.entry(number).or_insert_with(new);
        if exchange.what != what {
            let [operation, expected] = [what, exchange.what].map(str::to_owned);
            return Err(CommError::Mismatch { rank: self.local_ranks().start, operation, expected });
        }
        exchange.messages[self.process] = Some(message);
        self.shared.changed.notify_all();
        Ok(number)
    }
}

impl World for End {
    fn size(&self) -> usize {
        self.shared.threads.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        self.shared.ranks[self.process].clone()
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
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
        // The second process goes on at once.
        let what = "messages to the first process";
        if self.process == 1 {
            let number = self.give(what, message)?;
            self.table().exchanges.entry(number).and_modify(|exchange| exchange.num_taken += 1);
            return Ok(Vec::new());
        }
        self.exchange(what, message).map(Vec::from)
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        let [first, _] = self.exchange("a message of the first process", message)?;
        Ok(first)
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        let asked_ns = self.now_ns();
        self.exchange("a question for the time", Vec::new())?;
        let [answer, _] = self.exchange("the first process's time", self.now_ns().to_le_bytes().to_vec())?;
        let answered_ns = u64::from_le_bytes(answer.try_into().expect("8 bytes"));
        match self.process {
            0 => Ok(ClockOffset::ZERO),
            _ => Ok(ClockOffset::of_answer(asked_ns, answered_ns, self.now_ns())),
        }
    }

    fn positions(&self) -> &Arc<Positions> {
        &self.shared.positions
    }

    fn stop(&self) {
        self.shared.threads.stop();
        self.table().stopped = true;
        self.shared.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.table().stopped
    }

    fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
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
        self.shared.threads.leave(self.local_ranks());
        self.table().ended[self.process] = true;
        self.shared.changed.notify_all();
    }
}
