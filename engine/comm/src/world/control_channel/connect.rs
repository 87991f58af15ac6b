//! How a process connects to the coordinator: each end of the connection writes what the other reads.

use std::fmt::Debug;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pipezero_files::host::JobSecret;

use super::error::ControlChannelError;
use super::greeting::{self, NotGreeted};
use super::timed::Timed;

/// How long a process waits until it tries again to connect with one that does not listen yet.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// The way to the other end.
pub(super) trait Outgoing: Debug + Send + Write {
    /// Nothing more is written. What was still arrives.
    fn close(&mut self);
}

impl Outgoing for TcpStream {
    fn close(&mut self) {
        // It fails if the connection is closed already.
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// Connects with the process of rank 0, which may not listen yet, and greets it.
///
/// # Errors
/// When it does not answer or does not greet before the time is up, or has another secret.
pub(super) fn connected(
    address: SocketAddr,
    secret: Option<&JobSecret>,
    timeout: Duration,
) -> Result<TcpStream, ControlChannelError> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        let failed = match TcpStream::connect_timeout(&address, left) {
            // The system may connect a port that nobody listens on with itself.
            Ok(stream) if stream.local_addr().is_ok_and(|own| own == address) => {
                Failed::ToConnect(io::ErrorKind::ConnectionRefused.into())
            }
            Ok(stream) => match greeting::greet(&mut Timed::new(&stream, left), secret) {
                Ok(()) => return Ok(stream),
                Err(NotGreeted::OtherSecret) => return Err(ControlChannelError::OtherSecret { address }),
                Err(NotGreeted::Unfinished(source)) => Failed::ToGreet(source),
            },
            Err(source) => Failed::ToConnect(source),
        };
        let waited = start.elapsed();
        if waited >= timeout {
            return Err(match failed {
                Failed::ToConnect(source) => ControlChannelError::Connect { address, waited, source },
                Failed::ToGreet(source) => ControlChannelError::NotGreeted { address, waited, source },
            });
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// The attempt that failed; the next one may succeed.
enum Failed {
    ToConnect(io::Error),
    ToGreet(io::Error),
}
