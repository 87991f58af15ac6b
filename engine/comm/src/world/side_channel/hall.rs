//! What the hub's threads do for connections that have greeted: one reads what each sends, and one writes what is sent to it.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::frame::{self, FromHub, Hello, ToHub};
use super::hub::{Hub, SeatId, Sent};
use crate::sync::{Instant, Monitor, MutexGuard, Receiver, RecvTimeoutError, Sender, channel, thread};

/// How often those are told where all ranks are that report if this process cannot.
const BETWEEN_POSITIONS: Duration = Duration::from_millis(200);

/// Reads a clock, nanoseconds.
pub(super) type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Where connections meet the hub.
pub(super) struct Hall {
    seats: Monitor<Seats>,
    clock: Clock,
}

impl Debug for Hall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hall").finish_non_exhaustive()
    }
}

/// The hub's state, and the way to each seat.
struct Seats {
    hub: Hub,
    to_seats: Vec<Sender<FromHub>>,
}

impl Hall {
    /// For so many ranks of a program, with the clock of the process of rank 0.
    pub(super) fn new(program: String, world_size: usize, clock: Clock) -> Self {
        let seats = Seats { hub: Hub::new(program, world_size), to_seats: Vec::new() };
        Self { seats: Monitor::new(seats), clock }
    }

    /// Ranks that have not greeted.
    pub(super) fn missing(&self) -> Vec<usize> {
        self.seats().hub.missing()
    }

    /// Gives a connection that has greeted its seat.
    ///
    /// # Errors
    /// When it cannot take part, which it is told; or the system gives no thread.
    pub(super) fn seat(&self, hello: Hello, mut to: impl Write + Send + 'static) -> io::Result<SeatId> {
        let (sender, frames) = channel::<FromHub>();
        let mut seats = self.seats();
        match seats.hub.greet(hello) {
            Ok((seat, sent)) => {
                seats.to_seats.push(sender);
                thread::Builder::new().name("side-channel-to".to_owned()).spawn(move || {
                    // A process that is gone is noticed by who reads from it.
                    frames.iter().try_for_each(|frame| frame::write(&mut to, &frame))
                })?;
                seats.send(sent);
                Ok(seat)
            }
            Err((reason, sent)) => {
                seats.send(sent);
                frame::write(&mut to, &FromHub::Refuse(reason.clone()))?;
                Err(io::Error::other(reason))
            }
        }
    }

    /// Hands on what a seat sends, until it is gone.
    pub(super) fn serve(&self, seat: SeatId, from: &mut impl Read) {
        while let Ok(Some(frame)) = frame::read::<ToHub>(from) {
            let time = matches!(frame, ToHub::AskTime).then(|| FromHub::Time((self.clock)()));
            let mut seats = self.seats();
            let mut sent = seats.hub.take(seat, frame);
            sent.extend(time.map(|time| (seat, time)));
            seats.send(sent);
            drop(seats);
            self.seats.notify_all();
        }
        let mut seats = self.seats();
        let sent = seats.hub.lose(seat);
        seats.send(sent);
        drop(seats);
        self.seats.notify_all();
    }

    /// Waits, once the process of the hub has said that it ends, until all others have heard that or have ended, for so long at most: the
    /// threads that write to them end with this process, whether or not they have written all.
    pub(super) fn wait_until_over(&self, time: Duration) {
        self.wait_until(time, Hub::is_over);
    }

    /// Waits until all processes but the one with these ranks have ended, for so long at most.
    pub(super) fn wait_until_left(&self, by_all_but: &Range<usize>, time: Duration) {
        self.wait_until(time, |hub| hub.is_left(by_all_but));
    }

    fn wait_until(&self, time: Duration, is_so: impl Fn(&Hub) -> bool) {
        let start = Instant::now();
        let mut seats = self.seats();
        while !is_so(&seats.hub) && start.elapsed() < time {
            seats = self.seats.wait(seats, start, time);
        }
    }

    /// Tells those who report if this process cannot where all ranks are, until the server is dropped.
    pub(super) fn tell_positions(&self, is_alive: &Receiver<()>) {
        while is_alive.recv_timeout(BETWEEN_POSITIONS) == Err(RecvTimeoutError::Timeout) {
            let seats = self.seats();
            let sent = seats.hub.positions_for_heirs();
            seats.send(sent);
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock()
    }
}

impl Seats {
    fn send(&self, sent: Vec<Sent>) {
        for (seat, frame) in sent {
            // A connection whose writer has ended is gone.
            let _ = self.to_seats[seat].send(frame);
        }
    }
}
