//! Many cases by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The results of a function for each value, in the order of the values, by several threads.
pub(crate) fn in_threads<T: Sync, R: Send>(values: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        while let Some((at, value)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, values.get(at)?)))
        {
            made.push((at, each(value)));
        }
        made
    };
    let num_threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let mut made: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no case fails")).collect()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, made)| made).collect()
}
