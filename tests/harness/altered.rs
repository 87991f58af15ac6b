//! A world whose ranks communicate in another way than it says.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_comm::{CommError, Communicator};
use pipezero_run::world::{ClockOffset, Positions, RanksOnDevice, World};

type Alter = dyn Fn(Box<dyn Communicator>) -> Result<Box<dyn Communicator>, CommError> + Send + Sync;

/// A world with other communicators, made of its own.
pub struct Altered {
    world: Arc<dyn World>,
    alter: Box<Alter>,
    /// What has to stop with it.
    stops: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Altered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Altered").field("world", &self.world).finish_non_exhaustive()
    }
}

impl Altered {
    /// Of a world; `stops` is called when it stops.
    pub fn new(
        world: Arc<dyn World>,
        alter: impl Fn(Box<dyn Communicator>) -> Result<Box<dyn Communicator>, CommError> + Send + Sync + 'static,
        stops: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { world, alter: Box::new(alter), stops: Box::new(stops) }
    }
}

impl World for Altered {
    fn size(&self) -> usize {
        self.world.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        self.world.local_ranks()
    }

    fn devices(&self) -> Vec<RanksOnDevice> {
        self.world.devices()
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        (self.alter)(self.world.communicator(rank)?)
    }

    fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.world.add_words(words)
    }

    fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.world.add_words_in_any_time(words)
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        self.world.gather(message)
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        self.world.broadcast(message)
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.world.clock_offset()
    }

    fn positions(&self) -> &Arc<Positions> {
        self.world.positions()
    }

    fn stop(&self) {
        self.world.stop();
        (self.stops)();
    }

    fn is_stopped(&self) -> bool {
        self.world.is_stopped()
    }

    fn has_ended(&self, rank: usize) -> bool {
        self.world.has_ended(rank)
    }

    fn exchange_failures(&self, report: Vec<u8>, time: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        self.world.exchange_failures(report, time)
    }
}
