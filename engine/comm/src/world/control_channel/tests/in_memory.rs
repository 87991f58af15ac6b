//! Connections in memory, which can be cut at any time.

use std::io::{self, Cursor, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::super::connect::Outgoing;
use super::super::connections::Connections;
use super::super::frame;
use crate::sync::{Instant, Mutex, MutexGuard, Receiver, Sender, channel, thread};
use crate::world::{ControlChannel, ControlChannelError, Member};

/// One way of a connection. Who has a copy can close it.
#[derive(Clone, Debug)]
pub(super) struct OneWay(Arc<Mutex<Option<Sender<Vec<u8>>>>>);

/// The other end of it.
struct Incoming {
    written: Receiver<Vec<u8>>,
    unread: Cursor<Vec<u8>>,
}

fn one_way() -> (OneWay, Incoming) {
    let (sender, written) = channel();
    (OneWay(Arc::new(Mutex::new(Some(sender)))), Incoming { written, unread: Cursor::default() })
}

impl OneWay {
    /// Nothing more arrives.
    pub(super) fn cut(&self) {
        let sender = self.0.lock().unwrap().take();
        drop(sender);
    }

    /// What is written meanwhile waits.
    pub(super) fn hold(&self) -> MutexGuard<'_, Option<Sender<Vec<u8>>>> {
        self.0.lock().unwrap()
    }
}

impl Write for OneWay {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sender = self.0.lock().unwrap();
        let sent = sender.as_ref().is_some_and(|sender| sender.send(bytes.to_vec()).is_ok());
        if sent { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Outgoing for OneWay {
    fn close(&mut self) {
        self.cut();
    }
}

impl Read for Incoming {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let num_read = self.unread.read(to)?;
        if num_read > 0 || to.is_empty() {
            return Ok(num_read);
        }
        match self.written.recv() {
            Ok(bytes) => self.unread = Cursor::new(bytes),
            Err(_) => return Ok(0),
        }
        self.unread.read(to)
    }
}

/// A process of a job in memory.
pub(super) struct Process {
    /// Its place among the processes.
    pub(super) index: usize,
    pub(super) channel: ControlChannel,
    /// Its connection, as it would be cut if something ended the process, or the one of rank 0.
    pub(super) to_coordinator: OneWay,
    pub(super) from_coordinator: OneWay,
}

pub(super) fn member(world_size: usize, ranks: Range<usize>, timeout: Duration) -> Member {
    let program = "pipezero 1.2".to_owned();
    Member { program, secret: None, world_size, ranks, timeout, start_timeout: timeout }
}

/// What becomes of the coordinator when the channel of its process is dropped.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Coordinator {
    /// It goes on, as while a process ends slowly.
    Stays,
    /// Its threads end, whatever they are doing, and all connections with them, as when a process ends at once.
    Ends,
}

/// What the body gives in each process, or why it could not start. Returns once nothing serves any of them, either.
pub(super) fn in_processes<R: Send + 'static>(
    world_size: usize,
    members: &[Member],
    coordinator: Coordinator,
    body: impl Fn(Process) -> R + Clone + Send + 'static,
) -> Vec<Result<R, ControlChannelError>> {
    let connections = Arc::new(Connections::new("pipezero 1.2".to_owned(), world_size, Arc::new(|| 5_000)));
    let pairs: Vec<_> = members.iter().map(|_| (one_way(), one_way())).collect();
    let ways: Vec<OneWay> =
        pairs.iter().flat_map(|((to, _), (from, _))| [to.clone(), from.clone()]).collect();
    let spawn = |(index, (member, pair)): (usize, (&Member, _))| {
        let (connections, member, body) = (Arc::clone(&connections), member.clone(), body.clone());
        let ((to_coordinator, mut at_coordinator), (from_coordinator, at_process)): (
            (OneWay, Incoming),
            (OneWay, Incoming),
        ) = pair;
        let of_coordinator = from_coordinator.clone();
        let own_connections = member.ranks.contains(&0).then(|| Arc::clone(&connections));
        let cut_with_it = if own_connections.is_some() && coordinator == Coordinator::Ends {
            ways.clone()
        } else {
            Vec::new()
        };
        let serves = thread::spawn(move || {
            let hello = frame::read_hello(&mut at_coordinator).unwrap();
            if let Ok(connection) = connections.admit(hello, of_coordinator) {
                connections.serve(connection, &mut at_coordinator);
            }
        });
        let runs = thread::spawn(move || {
            let over: Box<dyn Outgoing> = Box::new(to_coordinator.clone());
            let given = ControlChannel::over(over, at_process, member, own_connections, Instant::now())
                .map(|channel| body(Process { index, channel, to_coordinator, from_coordinator }));
            cut_with_it.iter().for_each(OneWay::cut);
            given
        });
        (serves, runs)
    };
    let spawned: Vec<_> = members.iter().zip(pairs).enumerate().map(spawn).collect();
    spawned
        .into_iter()
        .map(|(serves, runs)| {
            let given = runs.join().unwrap();
            serves.join().unwrap();
            given
        })
        .collect()
}
