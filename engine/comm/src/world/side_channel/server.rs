//! The hub's threads: one that accepts, and two for each connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame;
use super::hall::{Clock, Hall};
use super::hub::SeatId;
use crate::sync::{AtomicUsize, Instant, Ordering, Receiver, Sender, TryRecvError, channel, thread};

/// How long a connection may take to greet.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// How long the accepting thread takes at most to see that all are there.
const TIME_TO_CLOSE: Duration = Duration::from_secs(1);
/// Connections beside those of the ranks that may be greeting at once.
const MAX_STRANGERS: usize = 64;

/// The hub of a world. Its threads end once it is dropped.
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
    hall: Arc<Hall>,
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
        let hall = Arc::new(Hall::new(program, world_size, clock));
        let shared = Arc::new(Shared { hall, num_greeting: AtomicUsize::new(0), timeout });
        let (alive, is_alive) = channel();
        let (closed, listens) = channel::<()>();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("side-channel".to_owned()).spawn(move || {
            of_thread.accept(&listener, world_size, &is_alive);
            drop(listener);
            drop(closed);
            of_thread.hall.tell_positions(&is_alive);
        })?;
        Ok(Self { shared, _alive: alive, listens: Mutex::new(listens) })
    }

    /// Waits, once all ranks are there, until the port is free for the next world of this process.
    pub(super) fn wait_until_closed(&self) {
        let listens = self.listens.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = listens.recv_timeout(TIME_TO_CLOSE);
    }

    /// Where the connections meet.
    pub(super) fn hall(&self) -> &Arc<Hall> {
        &self.shared.hall
    }
}

impl Shared {
    /// Until all ranks are there, the time is up, or the server is dropped.
    fn accept(self: &Arc<Self>, listener: &TcpListener, world_size: usize, is_alive: &Receiver<()>) {
        let start = Instant::now();
        let step = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        while start.elapsed() < self.timeout && !self.hall.missing().is_empty() {
            if is_alive.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            if self.num_greeting.load(Ordering::Acquire) >= world_size + MAX_STRANGERS {
                // Others wait in the listener's queue until some of these have had their time: a rank may be among them.
                let _ = poll(&mut [], Some(&step));
                continue;
            }
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&step));
            let Ok((stream, from)) = listener.accept() else { continue };
            self.num_greeting.fetch_add(1, Ordering::AcqRel);
            let shared = Arc::clone(self);
            let spawned = thread::Builder::new().name("side-channel-of".to_owned()).spawn(move || {
                let greeted = shared.greeted(&stream);
                shared.num_greeting.fetch_sub(1, Ordering::AcqRel);
                match greeted {
                    Ok(seat) => shared.hall.serve(seat, &mut &stream),
                    Err(error) => tracing::warn!(%from, %error, "dropped a connection"),
                }
            });
            if let Err(error) = spawned {
                tracing::warn!(%from, %error, "dropped a connection");
            }
        }
    }

    /// Gives a connection its seat.
    fn greeted(&self, stream: &TcpStream) -> io::Result<SeatId> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(GREETING_TIME))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let hello = frame::read_hello(&mut &*stream)?;
        stream.set_read_timeout(None)?;
        self.hall.seat(hello, stream.try_clone()?)
    }
}
