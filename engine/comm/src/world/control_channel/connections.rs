//! Connections that have greeted: for each, the coordinator has one thread that reads and one that writes.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::coordinator::{ConnectionId, Coordinator, Sent};
use super::frame::{self, FromCoordinator, Hello, ToCoordinator};
use crate::sync::{Instant, Monitor, MutexGuard, Receiver, RecvTimeoutError, Sender, channel, thread};

/// How often the fallback reporters are sent the positions of all ranks.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(200);

/// Reads a clock, nanoseconds.
pub(super) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The coordinator with its connections, which the threads of all connections share.
pub(super) struct Connections {
    connected: Monitor<Connected>,
    clock: Clock,
}

impl Debug for Connections {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

/// The coordinator's state, and a sender for each connection.
struct Connected {
    coordinator: Coordinator,
    senders: Vec<Sender<FromCoordinator>>,
}

impl Connections {
    /// For so many ranks of a program, with the clock of the process of rank 0.
    pub(super) fn new(program: String, world_size: usize, clock: Clock) -> Self {
        let connected = Connected { coordinator: Coordinator::new(program, world_size), senders: Vec::new() };
        Self { connected: Monitor::new(connected), clock }
    }

    /// Ranks that have not greeted.
    pub(super) fn missing(&self) -> Vec<usize> {
        self.lock().coordinator.missing()
    }

    /// Admits a connection that has greeted.
    ///
    /// # Errors
    /// When it cannot take part, which it is told; or when the system gives no thread.
    pub(super) fn admit(
        &self,
        hello: Hello,
        mut to: impl Write + Send + 'static,
    ) -> io::Result<ConnectionId> {
        let (sender, frames) = channel::<FromCoordinator>();
        let mut connected = self.lock();
        match connected.coordinator.greet(hello) {
            Ok((connection, sent)) => {
                connected.senders.push(sender);
                thread::Builder::new().name("control-write".to_owned()).spawn(move || {
                    // The thread that reads from a process notices if it has ended.
                    frames.iter().try_for_each(|frame| frame::write(&mut to, &frame))
                })?;
                connected.send(sent);
                Ok(connection)
            }
            Err((reason, sent)) => {
                connected.send(sent);
                frame::write(&mut to, &FromCoordinator::Refuse(reason.clone()))?;
                Err(io::Error::other(reason))
            }
        }
    }

    /// Passes on what a connection sends, until it is closed.
    pub(super) fn serve(&self, connection: ConnectionId, from: &mut impl Read) {
        while let Ok(Some(frame)) = frame::read::<ToCoordinator>(from) {
            let time = matches!(frame, ToCoordinator::AskTime).then(|| FromCoordinator::Time((self.clock)()));
            let mut connected = self.lock();
            let mut sent = connected.coordinator.take(connection, frame);
            sent.extend(time.map(|time| (connection, time)));
            connected.send(sent);
            drop(connected);
            self.connected.notify_all();
        }
        let mut connected = self.lock();
        let sent = connected.coordinator.lose(connection);
        connected.send(sent);
        drop(connected);
        self.connected.notify_all();
    }

    /// Call it once the coordinator's process has said that it ends. Waits at most for `time`, until all others have received that or have
    /// ended: the threads that write to them end with this process, even if something is unwritten.
    pub(super) fn wait_until_over(&self, time: Duration) {
        self.wait_until(time, Coordinator::is_over);
    }

    /// Waits until all processes except the one with these ranks have ended, at most for `time`.
    pub(super) fn wait_until_left(&self, by_all_but: &Range<usize>, time: Duration) {
        self.wait_until(time, |coordinator| coordinator.is_left(by_all_but));
    }

    fn wait_until(&self, time: Duration, is_so: impl Fn(&Coordinator) -> bool) {
        let start = Instant::now();
        let mut connected = self.lock();
        while !is_so(&connected.coordinator) && start.elapsed() < time {
            connected = self.connected.wait(connected, start, time);
        }
    }

    /// Sends the fallback reporters the positions of all ranks, until the server is dropped.
    pub(super) fn tell_positions(&self, is_alive: &Receiver<()>) {
        while is_alive.recv_timeout(BETWEEN_POSITIONS) == Err(RecvTimeoutError::Timeout) {
            let connected = self.lock();
            let sent = connected.coordinator.positions_for_heirs();
            connected.send(sent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connected> {
        self.connected.lock()
    }
}

impl Connected {
    fn send(&self, sent: Vec<Sent>) {
        for (connection, frame) in sent {
            // If the writing thread has ended, the connection is closed.
            let _ = self.senders[connection].send(frame);
        }
    }
}
