//! A world of two processes that are threads here: two engines, each with a part of the ranks. Nothing is shared but what ranks send each other;
//! everything else goes over the control channel, as between real processes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_comm::{CommError, Communicator, Threads};
use pipezero_models::{Device, Host, Queue};
use pipezero_plan::Plan;
use pipezero_run::world::{ClockOffset, ControlChannel, Member, Positions, World};

/// One process's end.
#[derive(Debug)]
struct End {
    ranks: Range<usize>,
    /// What ranks send each other.
    threads: Threads,
    channel: ControlChannel,
    /// Reads the process's clock.
    clock: Arc<dyn Queue>,
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
    let world_size = devices.len();
    let clocks =
        [&devices[0], &devices[cut]].map(|device| device.queue().expect("a device of the host has queues"));
    let threads = Threads::on(devices, comm.timeout, comm.links);
    let listener = ControlChannel::listen(([127, 0, 0, 1], 0).into()).expect("the host has a port");
    let address = listener.local_addr().expect("it has an address");
    let timeout = comm.timeout;
    let member = |ranks| {
        let program = "tests".to_owned();
        Member { program, secret: None, world_size, ranks, timeout, start_timeout: timeout }
    };
    let end = |ranks: Range<usize>, channel, clock: &Arc<dyn Queue>| {
        let (threads, clock) = (threads.clone(), Arc::clone(clock));
        Arc::new(End { ranks, threads, channel, clock }) as Arc<dyn World>
    };
    std::thread::scope(|scope| {
        let [first, second] = &clocks;
        let (body, end, member) = (&body, &end, &member);
        let other = scope.spawn(move || {
            let ranks = cut..world_size;
            let channel =
                ControlChannel::join(address, member(ranks.clone())).expect("the first process is there");
            body(end(ranks, channel, second), 1)
        });
        let clock = Arc::clone(first);
        let channel = ControlChannel::host(listener, move || now_ns(&*clock), member(0..cut));
        let own = body(end(0..cut, channel.expect("the second process is there"), first), 0);
        [own, other.join().expect("the second process does not panic")]
    })
}

fn now_ns(queue: &dyn Queue) -> u64 {
    queue.time_ns(queue.mark())
}

impl World for End {
    fn size(&self) -> usize {
        self.threads.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        self.ranks.clone()
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        assert!(self.ranks.contains(&rank), "a process asks only for its own ranks");
        self.threads.communicator(rank)
    }

    fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.channel.add_words(words)
    }

    fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.channel.add_words(words)
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        self.channel.gather(message)
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        self.channel.broadcast(message)
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.channel.clock_offset(|| now_ns(&*self.clock))
    }

    fn positions(&self) -> &Arc<Positions> {
        self.channel.positions()
    }

    fn stop(&self) {
        self.channel.stop();
        self.threads.stop();
    }

    fn is_stopped(&self) -> bool {
        self.channel.is_stopped()
    }

    fn has_ended(&self, rank: usize) -> bool {
        self.channel.has_ended(rank)
    }

    fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        self.channel.exchange_failures(report, time)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.threads.leave(self.ranks.clone());
    }
}
