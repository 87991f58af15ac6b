//! A world of processes with one rank each that have a folder in common and nothing else: they add words and give each other messages
//! by files, and exchange no data.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pipezero_comm::{CommError, Communicator, Threads};
use pipezero_models::{Device, Host};
use pipezero_run::world::{ClockOffset, Positions, World};

const TIMEOUT: Duration = Duration::from_secs(300);

/// One rank's end.
#[derive(Debug)]
pub(super) struct FolderWorld {
    folder: PathBuf,
    rank: usize,
    size: usize,
    /// Only this rank's end is used.
    threads: Threads,
    positions: Arc<Positions>,
    num_exchanges: AtomicU64,
}

impl FolderWorld {
    pub(super) fn new(folder: &Path, rank: usize, size: usize) -> Self {
        let devices = vec![Arc::new(Host) as Arc<dyn Device>; size];
        Self {
            folder: folder.to_owned(),
            rank,
            size,
            threads: Threads::on(devices, TIMEOUT, None),
            positions: Arc::new(Positions::new(size)),
            num_exchanges: AtomicU64::new(0),
        }
    }

    /// Every rank gives a message and gets those of all.
    fn exchange(&self, message: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let number = self.num_exchanges.fetch_add(1, Ordering::Relaxed);
        let path = |rank: usize| self.folder.join(format!("{number}-{rank}"));
        // A file has its name only once it is whole.
        let partial = path(self.rank).with_extension("partial");
        std::fs::write(&partial, message).expect("a file is written");
        std::fs::rename(&partial, path(self.rank)).expect("a file is renamed");
        let start = Instant::now();
        let mut messages = Vec::new();
        while messages.len() < self.size {
            match std::fs::read(path(messages.len())) {
                Ok(message) => messages.push(message),
                Err(_) if start.elapsed() < TIMEOUT => std::thread::yield_now(),
                Err(_) => {
                    let (operation, missing) = ("a message by file".to_owned(), vec![messages.len()]);
                    return Err(CommError::Timeout { waited: start.elapsed(), operation, missing });
                }
            }
        }
        Ok(messages)
    }
}

impl World for FolderWorld {
    fn size(&self) -> usize {
        self.size
    }

    fn local_ranks(&self) -> Range<usize> {
        self.rank..self.rank + 1
    }

    fn communicator(&self, rank: usize) -> Result<Box<dyn Communicator>, CommError> {
        self.threads.communicator(rank)
    }

    fn add_words(&self, words: &mut [u64]) -> Result<(), CommError> {
        let own: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let messages = self.exchange(&own)?;
        words.fill(0);
        for message in messages {
            for (sum, &word) in words.iter_mut().zip(message.as_chunks().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(word));
            }
        }
        Ok(())
    }

    fn add_words_in_any_time(&self, words: &mut [u64]) -> Result<(), CommError> {
        self.add_words(words)
    }

    fn gather(&self, message: Vec<u8>) -> Result<Vec<Vec<u8>>, CommError> {
        let messages = self.exchange(&message)?;
        Ok(if self.rank == 0 { messages } else { Vec::new() })
    }

    fn broadcast(&self, message: Vec<u8>) -> Result<Vec<u8>, CommError> {
        Ok(self.exchange(&message)?.swap_remove(0))
    }

    fn clock_offset(&self) -> Result<ClockOffset, CommError> {
        Ok(ClockOffset::ZERO)
    }

    fn positions(&self) -> &Arc<Positions> {
        &self.positions
    }

    fn stop(&self) {
        self.threads.stop();
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn has_ended(&self, _: usize) -> bool {
        false
    }

    fn exchange_failures(&self, report: Vec<u8>, _: Duration) -> Vec<(Range<usize>, Option<Vec<u8>>)> {
        vec![(self.local_ranks(), Some(report))]
    }
}
