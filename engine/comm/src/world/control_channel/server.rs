//! The coordinator's threads: one that accepts connections, and two for each connection.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pipezero_files::host::JobSecret;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connections::{Clock, Connections};
use super::coordinator::ConnectionId;
use super::greeters::Greeters;
use super::greeting::Proved;
use super::member::Member;
use super::timed::Timed;
use super::{frame, greeting};
use crate::sync::{AtomicUsize, Instant, Ordering, Receiver, Sender, TryRecvError, channel, thread};

/// How long a connection may take to greet at most, in all.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// How long the accepting thread takes at most to see that all are there.
const TIME_TO_CLOSE: Duration = Duration::from_secs(1);
/// Connections of unknown programs that may be greeting at once, besides those of the ranks; and, in a job without a secret, that may have
/// greeted without saying which ranks they have.
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
    greeters: Greeters,
    /// Connections that have greeted, and have not said which ranks they have.
    num_nameless: AtomicUsize,
    num_nameless_max: usize,
    secret: Option<JobSecret>,
    greeting_time: Duration,
    timeout: Duration,
}

impl Server {
    /// Accepts the processes of a world, of which `member` is one, for as long as its `start_timeout` at most.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(listener: TcpListener, member: Member, clock: Clock) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let Member { program, world_size, secret, timeout, start_timeout, .. } = member;
        let connections = Arc::new(Connections::new(program, world_size, clock));
        let num_max = world_size + UNKNOWN_PROGRAMS_MAX;
        let shared = Arc::new(Shared {
            connections,
            greeters: Greeters::new(num_max),
            num_nameless: AtomicUsize::new(0),
            num_nameless_max: num_max,
            secret,
            greeting_time: GREETING_TIME.min(timeout),
            timeout: start_timeout,
        });
        let (alive, is_alive) = channel();
        let (closed, listens) = channel::<()>();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("control-accept".to_owned()).spawn(move || {
            of_thread.accept(&listener, &is_alive);
            drop(listener);
            drop(closed);
            of_thread.greeters.close();
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

    /// How many connections were dropped because they did not greet.
    pub(super) fn num_dropped(&self) -> usize {
        self.shared.greeters.num_dropped()
    }
}

impl Shared {
    /// Until all ranks are there, the time is up, or the server is dropped.
    fn accept(self: &Arc<Self>, listener: &TcpListener, is_alive: &Receiver<()>) {
        let start = Instant::now();
        let step = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        while start.elapsed() < self.timeout && !self.connections.missing().is_empty() {
            if is_alive.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&step));
            let Ok((stream, from)) = listener.accept() else { continue };
            let stream = Arc::new(stream);
            let number = self.greeters.add(&stream);
            let shared = Arc::clone(self);
            let spawned = thread::Builder::new().name("control-read".to_owned()).spawn(move || {
                let checked = shared.checked(&stream);
                shared.greeters.remove(number);
                match checked.and_then(|proved| shared.admitted(&stream, proved)) {
                    Ok(connection) => shared.connections.serve(connection, &mut &*stream),
                    Err(error) => shared.greeters.log_dropped(from, &error),
                }
            });
            if let Err(error) = spawned {
                self.greeters.remove(number);
                self.greeters.log_dropped(from, &error);
            }
        }
    }

    /// Whether a connection is of a process that knows the job's secret.
    fn checked(&self, stream: &TcpStream) -> io::Result<Proved> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let proved = greeting::check(&mut Timed::new(stream, self.greeting_time), self.secret.as_ref());
        proved.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("it has not greeted"),
            _ => error,
        })
    }

    /// Admits such a process, once it has said which ranks it has.
    fn admitted(&self, stream: &TcpStream, proved: Proved) -> io::Result<ConnectionId> {
        let num_nameless = self.num_nameless.fetch_add(1, Ordering::AcqRel);
        let hello = if num_nameless < self.num_nameless_max {
            let mut timed = Timed::new(stream, self.timeout);
            proved.answer(&mut timed).and_then(|()| frame::read_hello(&mut timed))
        } else {
            Err(io::Error::other("too many others have greeted"))
        };
        self.num_nameless.fetch_sub(1, Ordering::AcqRel);
        let hello = hello?;
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(Some(self.timeout))?;
        self.connections.admit(hello, stream.try_clone()?)
    }
}
