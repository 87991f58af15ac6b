//! Large allocations while something runs: a step is to make none.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator<std::alloc::System> = Allocator::system();

/// Allocations of more than this are told one by one.
const LARGE_BYTES: usize = 1 << 20;

/// As many are kept; the tracker itself must not allocate.
const NUM_KEPT: usize = 64;

static IS_WATCHING: AtomicBool = AtomicBool::new(false);
static NUM_SEEN: AtomicUsize = AtomicUsize::new(0);
static SEEN: [AtomicUsize; NUM_KEPT] = [const { AtomicUsize::new(0) }; NUM_KEPT];

/// Allocations of more than 1 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Large {
    /// How many there were.
    pub count: usize,
    /// Bytes of the first 64 of them.
    pub bytes: Vec<usize>,
}

struct Watch;

impl AllocationTracker for Watch {
    fn allocated(
        &self,
        _address: usize,
        object_size: usize,
        _wrapped_size: usize,
        _group: AllocationGroupId,
    ) {
        if object_size > LARGE_BYTES && IS_WATCHING.load(Ordering::Relaxed) {
            let place = NUM_SEEN.fetch_add(1, Ordering::Relaxed);
            if let Some(seen) = SEEN.get(place) {
                seen.store(object_size, Ordering::Relaxed);
            }
        }
    }

    fn deallocated(
        &self,
        _address: usize,
        _object_size: usize,
        _wrapped_size: usize,
        _source: AllocationGroupId,
        _current: AllocationGroupId,
    ) {
    }
}

/// What `f` returns, and the large allocations that any thread made meanwhile.
pub fn large_allocations<R>(f: impl FnOnce() -> R) -> (R, Large) {
    static START: Once = Once::new();
    START.call_once(|| {
        AllocationRegistry::set_global_tracker(Watch).expect("no other tracker is set");
        AllocationRegistry::enable_tracking();
    });
    NUM_SEEN.store(0, Ordering::Relaxed);
    IS_WATCHING.store(true, Ordering::SeqCst);
    let result = f();
    IS_WATCHING.store(false, Ordering::SeqCst);
    let count = NUM_SEEN.load(Ordering::Relaxed);
    let bytes = SEEN.iter().take(count).map(|seen| seen.load(Ordering::Relaxed)).collect();
    (result, Large { count, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_are_seen_and_small_ones_are_not() {
        let (kept, large) = large_allocations(|| (vec![1_u8; 3 << 20], vec![1_u8; 1 << 10]));
        assert!(large.bytes.contains(&kept.0.len()), "{large:?}");
        let (_, none) = large_allocations(|| vec![1_u8; 1 << 10]);
        assert_eq!(none, Large::default());
    }
}
