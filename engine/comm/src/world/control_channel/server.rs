//! The coordinator's threads: one that accepts connections, and two for each connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connections::{Clock, Connections};
use super::coordinator::ConnectionId;
use super::frame;
use crate::sync::{AtomicUsize, Instant, Ordering, Receiver, Sender, TryRecvError, channel, thread};

/// How long a connection may take to greet.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// How long the accepting thread takes at most to see that all are there.
const TIME_TO_CLOSE: Duration = Duration::from_secs(1);
/// Connections of unknown programs that may be greeting at once, besides those of the ranks.
const UNKNOWN_PROGRAMS_MAX: usize = 64;

/// The threads of a world's coordinator. They end once it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    shared: Arc<Shared>,
    /// Dropped with the server, which the accepting thread sees.
    _alive: Sender<()>,
    /// Disconnected once nothing listens any more.
    listens: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct Shared {
    connections: Arc<Connections>,
    num_greeting: AtomicUsize,
    timeout: Duration,
}

impl Server {
    /// Accepts the processes of so many ranks of a program, for as long as `timeout` at most.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(
        listener: TcpListener,
        program: String,
        world_size: usize,
        timeout: Duration,
        clock: Clock,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let connections = Arc::new(Connections::new(program, world_size, clock));
        let shared = Arc::new(Shared { connections, num_greeting: AtomicUsize::new(0), timeout });
        let (alive, is_alive) = channel();
        let (closed, listens) = channel::<()>();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("control-accept".to_owned()).spawn(move || {
            of_thread.accept(&listener, world_size, &is_alive);
            drop(listener);
            drop(closed);
            of_thread.connections.tell_positions(&is_alive);
        })?;
        Ok(Self { shared, _alive: alive, listens: Mutex::new(listens) })
    }

    /// Waits, once all ranks are there, until the port is free for the next world of this process.
    pub(super) fn wait_until_closed(&self) {
        let listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = listens.recv_timeout(TIME_TO_CLOSE);
    }

    /// The coordinator with its connections.
    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.shared.connections
    }
}

impl Shared {
    /// Until all ranks are there, the time is up, or the server is dropped.
    fn accept(self: &Arc<Self>, listener: &TcpListener, world_size: usize, is_alive: &Receiver<()>) {
        let start = Instant::now();
        let step = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        while start.elapsed() < self.timeout && !self.connections.missing().is_empty() {
            if is_alive.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            if self.num_greeting.load(Ordering::Acquire) >= world_size + UNKNOWN_PROGRAMS_MAX {
                // Other connections stay in the listener's queue until some of these are done or too late: a rank may be among them.
                let _ = poll(&mut [], Some(&step));
                continue;
            }
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&step));
            let Ok((stream, from)) = listener.accept() else { continue };
            self.num_greeting.fetch_add(1, Ordering::AcqRel);
            let shared = Arc::clone(self);
            let spawned = thread::Builder::new().name("control-read".to_owned()).spawn(move || {
                let greeted = shared.greeted(&stream);
                shared.num_greeting.fetch_sub(1, Ordering::AcqRel);
                match greeted {
                    Ok(connection) => shared.connections.serve(connection, &mut &stream),
                    Err(error) => tracing::warn!(%from, %error, "dropped a connection"),
                }
            });
            if let Err(error) = spawned {
                tracing::warn!(%from, %error, "dropped a connection");
            }
        }
    }

    /// Reads a connection's greeting and admits it.
    fn greeted(&self, stream: &TcpStream) -> io::Result<ConnectionId> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING_TIME))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let hello = frame::read_hello(&mut &*stream)?;
        stream.set_read_timeout(None)?;
        self.connections.admit(hello, stream.try_clone()?)
    }
}
