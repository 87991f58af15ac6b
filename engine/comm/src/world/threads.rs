//! All ranks are threads of this process: the default backend.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pipezero_config::Links;
use pipezero_models::queue::Cuda;

use super::device::{NamedDevice, RanksOnDevice, dealt, number_on_host};
use super::{ClockOffset, Positions, World};
use crate::{CommError, Communicator, Nccl, Threads};

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
    /// A world of `size` ranks on the host in which no wait lasts longer than `timeout`, with emulated links if any are given.
    pub fn new(size: usize, timeout: Duration, links: Option<Links>) -> Self {
        Self::on(&[NamedDevice::cpu()], size, timeout, links)
    }

    /// As [`ThreadWorld::new`], on these devices in turn, at least one. They reach each other's memory.
    pub fn on(devices: &[NamedDevice], size: usize, timeout: Duration, links: Option<Links>) -> Self {
        Self::of_devices(dealt(devices, 0, size), timeout, links)
    }

    /// As [`ThreadWorld::on`], of ranks of a job whose other ranks have the devices before: rank 0 is the job's rank `first`.
    pub(crate) fn from_rank(
        first: usize,
        devices: &[NamedDevice],
        size: usize,
        timeout: Duration,
        links: Option<Links>,
    ) -> Self {
        Self::of_devices(dealt(devices, first, size), timeout, links)
    }

    fn of_devices(devices: Vec<RanksOnDevice>, timeout: Duration, links: Option<Links>) -> Self {
        let mut of_ranks: Vec<(usize, _)> = devices
            .iter()
            .flat_map(|RanksOnDevice { on, ranks, .. }| {
                ranks.iter().map(|&rank| (rank, Arc::clone(&on.device)))
            })
            .collect();
        of_ranks.sort_by_key(|(rank, _)| *rank);
        let size = of_ranks.len();
        let threads = Threads::on(of_ranks.into_iter().map(|(_, device)| device).collect(), timeout, links);
        Self { devices, threads, nccl: None, positions: Arc::new(Positions::new(size)) }
    }

    /// A world whose ranks have a GPU each, which NCCL connects: all that the process sees, from the one of number `first` on. No wait lasts longer
    /// than `timeout`.
    pub(crate) fn over_nccl(
        nccl: Nccl,
        first: usize,
        gpus: Vec<Cuda>,
        names: &[String],
        timeout: Duration,
    ) -> Self {
        let of_rank = |(rank, (cuda, name)): (usize, (&Cuda, &String))| RanksOnDevice {
            on: NamedDevice { device: Arc::new(cuda.clone()), name: name.clone() },
            number: number_on_host(first + rank),
            ranks: vec![rank],
        };
        let devices = gpus.iter().zip(names).enumerate().map(of_rank).collect();
        Self { nccl: Some((nccl, gpus)), ..Self::of_devices(devices, timeout, None) }
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

    fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.add_words(words)
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
