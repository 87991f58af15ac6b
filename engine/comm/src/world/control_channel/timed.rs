//! A connection whose reads and writes must all be done by one point in time. The system's own limit counts anew for each read, and lets a
//! connection that sends a byte now and then last for ever.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection for so long.
pub(super) struct Timed<'a> {
    stream: &'a TcpStream,
    start: Instant,
    time: Duration,
}

impl<'a> Timed<'a> {
    /// From now on.
    pub(super) fn new(stream: &'a TcpStream, time: Duration) -> Self {
        Self { stream, start: Instant::now(), time }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.time.saturating_sub(self.start.elapsed());
        if left.is_zero() { Err(self.too_late()) } else { Ok(Some(left)) }
    }

    fn too_late(&self) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, format!("it takes longer than {:?}", self.time))
    }

    fn worded(&self, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => self.too_late(),
            _ => error,
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&mut &*self.stream).read(to).map_err(|error| self.worded(error))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&mut &*self.stream).write(bytes).map_err(|error| self.worded(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;

    use super::*;

    #[test]
    fn bytes_that_come_one_by_one_do_not_make_the_time_longer() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = listener.accept().unwrap().0;
        let (reads, is_read) = channel::<()>();
        let other = thread::spawn(move || {
            while is_read.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                slow.write_all(&[1]).unwrap();
            }
        });
        // No byte is waited for as long as that, and all of them never come.
        let mut all = Timed::new(&stream, Duration::from_millis(300)).take(u64::MAX);
        let error = io::copy(&mut all, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert_eq!(error.to_string(), "it takes longer than 300ms");
        drop(reads);
        other.join().unwrap();
    }
}
