//! Large allocations while something runs: a step is to make none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator<std::alloc::System> = Allocator::system();

/// Allocations of more than this are reported one by one.
pub const LARGE_BYTES: usize = 1 << 20;

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

/// `none`, or how many, and how often each size, largest first.
impl fmt::Display for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("none");
        }
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        self.bytes.iter().for_each(|&bytes| *sizes.entry(bytes).or_default() += 1);
        let sizes = sizes.iter().rev().map(|(bytes, count)| format!("{count} x {bytes} bytes"));
        let not_kept = self.count - self.bytes.len();
        let more = (not_kept > 0).then(|| format!("{not_kept} more"));
        let sizes: Vec<String> = sizes.chain(more).collect();
        write!(f, "{} of more than 1 MiB: {}", self.count, sizes.join(", "))
    }
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

    #[test]
    fn large_allocations_are_counted_by_size() {
        assert_eq!(Large::default().to_string(), "none");
        let large = Large { count: 4, bytes: vec![2_000_000, 3_000_000, 2_000_000] };
        let text = "4 of more than 1 MiB: 1 x 3000000 bytes, 2 x 2000000 bytes, 1 more";
        assert_eq!(large.to_string(), text);
    }
}
