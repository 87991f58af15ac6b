//! All ranks are threads of this process: the default backend.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::{Device, Host};

use super::{ClockOffset, Positions, World};
use crate::config::Links;
use crate::run::comm::{CommError, Communicator, Threads};

/// A world of one process, which has all ranks and so has nothing to say to any other.
#[derive(Debug)]
pub struct ThreadWorld {
    device: Arc<dyn Device>,
    device_name: String,
    threads: Threads,
    positions: Arc<Positions>,
}

impl ThreadWorld {
    /// A world of `size` ranks on the host in which no wait lasts longer than `timeout`, with imitated links if any are given.
    pub fn new(size: usize, timeout: Duration, links: Option<Links>) -> Self {
        Self::on(Arc::new(Host), size, timeout, links)
    }

    /// As [`ThreadWorld::new`], on a device that all ranks share.
    pub fn on(device: Arc<dyn Device>, size: usize, timeout: Duration, links: Option<Links>) -> Self {
        let threads = Threads::on(vec![Arc::clone(&device); size], timeout, links);
        Self { device, device_name: "CPU".to_owned(), threads, positions: Arc::new(Positions::new(size)) }
    }

    /// The same, with what people call its device.
    pub fn named(self, device_name: String) -> Self {
        Self { device_name, ..self }
    }
}

impl World for ThreadWorld {
    fn size(&self) -> usize {
        self.threads.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        0..self.size()
    }

    fn device_name(&self) -> &str {
        &self.device_name
    }

    fn free_device_bytes(&self) -> Result<Option<u64>, CommError> {
        Ok(self.device.free_bytes()?)
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        self.threads.communicator(rank)
    }

    fn add_words(&self, _: &mut [u64]) -> Result<(), CommError> {
        self.threads.check()
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        self.threads.check().map(|()| vec![message])
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        self.threads.check().map(|()| message)
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        self.threads.check().map(|()| ClockOffset::ZERO)
    }

    fn positions(&self) -> &Arc<Positions> {
        &self.positions
    }

    fn stop(&self) {
        self.threads.stop();
    }

    fn is_stopped(&self) -> bool {
        self.threads.check().is_err()
    }

    fn exchange_failures(&self, report: Vec<u8>, _: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        vec![(self.local_ranks(), Some(report))]
    }
}
