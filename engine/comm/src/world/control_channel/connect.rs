//! How a process connects to the coordinator: each end of the connection writes what the other reads.

use std::fmt::Debug;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::error::ControlChannelError;

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

/// Connects with the process of rank 0, which may not listen yet.
///
/// # Errors
/// [`ControlChannelError::Connect`] once the time is up.
pub(super) fn connected(address: SocketAddr, timeout: Duration) -> Result<TcpStream, ControlChannelError> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        let source = match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(source) => source,
        };
        let waited = start.elapsed();
        if waited >= timeout {
            return Err(ControlChannelError::Connect { address, waited, source });
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}
