//! A connection between a process and the hub: one end writes what the other reads, both ways.

use std::fmt::Debug;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::error::SideChannelError;

/// How long a process waits until it tries again to connect with one that does not listen yet.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// The way to the other end.
pub(super) trait Outgoing: Debug + Send + Write {
    /// Nothing more is written. What was still arrives.
    fn close(&mut self);
}

impl Outgoing for TcpStream {
    fn close(&mut self) {
        // It fails where the connection is gone.
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// Connects with the process of rank 0, which may not listen yet.
///
/// # Errors
/// [`SideChannelError::Connect`] once the time is up.
pub(super) fn connected(address: SocketAddr, timeout: Duration) -> Result<TcpStream, SideChannelError> {
    let start = Instant::now();
    loop {
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        let source = match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(source) => source,
        };
        let waited = start.elapsed();
        if waited >= timeout {
            return Err(SideChannelError::Connect { address, waited, source });
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}
