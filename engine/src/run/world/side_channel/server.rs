//! The hub's threads: one that accepts, and two for each connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::{self, FromHub, Hello, ToHub};
use super::hub::{Hub, SeatId, Sent};

/// How long a connection may take to greet.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// How often those are told where all ranks are that report if this process cannot.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(200);
/// Connections beside those of the ranks that may be greeting at once.
const MAX_STRANGERS: usize = 64;

/// Reads a clock, nanoseconds.
pub(super) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The hub of a world. Its threads end once it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    shared: Arc<Shared>,
    /// Dropped with the server, which the accepting thread sees.
    _alive: Sender<()>,
}

struct Shared {
    hub: Mutex<Hall>,
    clock: Clock,
    num_greeting: AtomicUsize,
    timeout: Duration,
}

/// The hub's state, and the way to each seat.
struct Hall {
    hub: Hub,
    to_seats: Vec<Sender<FromHub>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
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
        let hall = Hall { hub: Hub::new(program, world_size), to_seats: Vec::new() };
        let num_greeting = AtomicUsize::new(0);
        let shared = Arc::new(Shared { hub: Mutex::new(hall), clock, num_greeting, timeout });
        let (alive, is_alive) = unbounded();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("side-channel".to_owned()).spawn(move || {
            of_thread.accept(&listener, world_size, &is_alive);
            drop(listener);
            of_thread.tell_positions(&is_alive);
        })?;
        Ok(Self { shared, _alive: alive })
    }

    /// Ranks that have not connected.
    pub(super) fn missing(&self) -> Vec<usize> {
        self.shared.hall().hub.missing()
    }
}

impl Shared {
    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until all ranks are there, the time is up, or the server is dropped.
    fn accept(self: &Arc<Self>, listener: &TcpListener, world_size: usize, is_alive: &Receiver<()>) {
        let start = Instant::now();
        let step = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        while start.elapsed() < self.timeout && !self.hall().hub.missing().is_empty() {
            if is_alive.try_recv() == Err(crossbeam::channel::TryRecvError::Disconnected) {
                return;
            }
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&step));
            let Ok((stream, from)) = listener.accept() else { continue };
            if self.num_greeting.fetch_add(1, Ordering::AcqRel) >= world_size + MAX_STRANGERS {
                self.num_greeting.fetch_sub(1, Ordering::AcqRel);
                tracing::warn!(%from, "dropped: too many connections that do not greet");
                continue;
            }
            let shared = Arc::clone(self);
            let spawned = thread::Builder::new().name("side-channel-of".to_owned()).spawn(move || {
                let greeted = shared.greeted(&stream);
                shared.num_greeting.fetch_sub(1, Ordering::AcqRel);
                match greeted {
                    Ok(seat) => shared.serve(seat, stream),
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
        let hello: Hello = frame::read_hello(&mut &*stream)?;
        stream.set_read_timeout(None)?;
        let mut to = stream.try_clone()?;
        let (sender, frames) = unbounded::<FromHub>();
        let mut hall = self.hall();
        match hall.hub.greet(hello) {
            Ok((seat, sent)) => {
                hall.to_seats.push(sender);
                thread::Builder::new().name("side-channel-to".to_owned()).spawn(move || {
                    // A process that is gone is noticed by who reads from it.
                    frames.iter().try_for_each(|frame| frame::write(&mut to, &frame))
                })?;
                hall.send(sent);
                Ok(seat)
            }
            Err((reason, sent)) => {
                hall.send(sent);
                frame::write(&mut to, &FromHub::Refuse(reason.clone()))?;
                Err(io::Error::other(reason))
            }
        }
    }

    /// Hands on what a seat sends, until it is gone.
    fn serve(&self, seat: SeatId, mut stream: TcpStream) {
        while let Ok(Some(frame)) = frame::read::<ToHub>(&mut stream) {
            let time = matches!(frame, ToHub::AskTime).then(|| FromHub::Time((self.clock)()));
            let mut hall = self.hall();
            let mut sent = hall.hub.take(seat, frame);
            sent.extend(time.map(|time| (seat, time)));
            hall.send(sent);
        }
        let mut hall = self.hall();
        let sent = hall.hub.end(seat);
        hall.send(sent);
    }

    /// Until the server is dropped.
    fn tell_positions(&self, is_alive: &Receiver<()>) {
        while is_alive.recv_timeout(BETWEEN_POSITIONS) == Err(RecvTimeoutError::Timeout) {
            let hall = self.hall();
            let sent = hall.hub.positions_for_heirs();
            hall.send(sent);
        }
    }
}

impl Hall {
    fn send(&self, sent: Vec<Sent>) {
        for (seat, frame) in sent {
            // A connection whose writer has ended is gone.
            let _ = self.to_seats[seat].send(frame);
        }
    }
}
