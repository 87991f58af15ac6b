//! All ranks are threads of this process: the default backend.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_models::queue::Cuda;

use super::device::{NamedDevice, RanksOnDevice, dealt};
use super::{ClockOffset, Positions, World};
use crate::config::Links;
use crate::run::comm::{CommError, Communicator, Nccl, Threads};

/// A world of one process, which has all ranks and so has nothing to say to any other.
#[derive(Debug)]
pub struct ThreadWorld {
    devices: Vec<RanksOnDevice>,
    threads: Threads,
    /// What carries elements between GPUs instead, and the GPU of each rank.
    nccl: Option<(Nccl, Vec<Cuda>)>,
    positions: Arc<Positions>,
}

impl ThreadWorld {
    /// A world of `size` ranks on the host in which no wait lasts longer than `timeout`, with imitated links if any are given.
    pub fn new(size: usize, timeout: Duration, links: Option<Links>) -> Self {
        Self::on(&[NamedDevice::cpu()], size, timeout, links)
    }

    /// As [`ThreadWorld::new`], on these devices in turn, at least one. They reach each other's memory.
    pub fn on(devices: &[NamedDevice], size: usize, timeout: Duration, links: Option<Links>) -> Self {
        let of_ranks = devices.iter().cycle().take(size).map(|on| Arc::clone(&on.device)).collect();
        let threads = Threads::on(of_ranks, timeout, links);
        Self { devices: dealt(devices, size), threads, nccl: None, positions: Arc::new(Positions::new(size)) }
    }

    /// A world whose ranks have a GPU each, which NCCL connects. No wait lasts longer than `timeout`.
    pub(crate) fn over_nccl(nccl: Nccl, gpus: Vec<Cuda>, names: &[String], timeout: Duration) -> Self {
        let named = |(cuda, name): (&Cuda, &String)| NamedDevice {
            device: Arc::new(cuda.clone()),
            name: name.clone(),
        };
        let devices: Vec<NamedDevice> = gpus.iter().zip(names).map(named).collect();
        Self { nccl: Some((nccl, gpus)), ..Self::on(&devices, devices.len(), timeout, None) }
    }
}

impl World for ThreadWorld {
    fn size(&self) -> usize {
        self.threads.size()
    }

    fn local_ranks(&self) -> Range<usize> {
        0..self.size()
    }

    fn devices(&self) -> Vec<RanksOnDevice> {
        self.devices.clone()
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        let Some((nccl, gpus)) = &self.nccl else { return self.threads.communicator(rank) };
        let threads = self.threads.clone();
        nccl.communicator(rank, &gpus[rank], Arc::new(move || threads.check().is_err()))
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

    fn has_ended(&self, _: usize) -> bool {
        false
    }

    fn exchange_failures(&self, report: Vec<u8>, _: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        vec![(self.local_ranks(), Some(report))]
    }
}
