//! Words in page-locked memory of the host, which streams store.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::peers::Peers;
use super::queue::CudaQueue;
use crate::queue::word::{SharedWord, Word};

/// A word that all devices reach which were opened together.
#[derive(Debug)]
struct PinnedWord {
    peers: Arc<Peers>,
    here: NonNull<AtomicU64>,
    address: u64,
}

// SAFETY: it owns its memory, in which there is an atomic word; contexts may be used by all threads.
unsafe impl Send for PinnedWord {}
// SAFETY: as above.
unsafe impl Sync for PinnedWord {}

impl PinnedWord {
    fn new(peers: &Arc<Peers>, context: &CudaContext) -> Result<Self, DriverError> {
        context.bind_to_thread()?;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: the context is bound; what is allocated is freed once, by `drop`.
        let allocated = unsafe { result::malloc_host(size_of::<AtomicU64>(), flags)? };
        let here = NonNull::new(allocated.cast::<AtomicU64>())
            .ok_or(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY))?;
        let mut word = Self { peers: Arc::clone(peers), here, address: 0 };
        word.here().store(0, Ordering::Release);
        // SAFETY: the address is written before the call returns, and the memory is mapped.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut word.address, allocated, 0).result()? };
        Ok(word)
    }
}

impl SharedWord for PinnedWord {
    fn here(&self) -> &AtomicU64 {
        // SAFETY: the memory is this word's as long as it lives, is aligned to more than a word, and was set.
        unsafe { self.here.as_ref() }
    }

    fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for PinnedWord {
    fn drop(&mut self) {
        // A stream may still store it.
        if self.peers.synchronize().is_ok() {
            // SAFETY: it was allocated by `malloc_host`, is freed once, and nothing stores it any more.
            let _ = unsafe { result::free_host(self.here.as_ptr().cast()) };
        }
    }
}

/// Stores a word once the stream has come to it.
fn store(stream: &CudaStream, address: u64, value: u64) -> Result<(), DriverError> {
    // SAFETY: the word outlives what its devices were asked for.
    unsafe { sys::cuStreamWriteValue64_v2(stream.cu_stream(), address, value, 0).result() }
}

impl CudaQueue {
    /// As [`Queue::word`](crate::queue::Queue::word).
    pub(super) fn new_word(&self) -> Word {
        let pinned =
            self.ask("cuMemHostAlloc", |_| PinnedWord::new(&self.device.peers, &self.device.context));
        pinned.map_or_else(Word::of_host, |word| Word::shared(Box::new(word)))
    }

    /// As [`Queue::set_word`](crate::queue::Queue::set_word).
    pub(super) fn store_word(&self, word: &Word, value: u64) {
        // Of a device that had failed, whose words are the host's, nothing is stored.
        if let Some(address) = word.address() {
            self.ask("cuStreamWriteValue64", |stream| store(stream, address, value));
        }
    }
}
