//! Points in a queue, and when it passed them.

/// A point in a queue whose time can be asked for: it is passed once everything that the queue was asked before has been computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// What the queue knows it by: on the host the time itself, on other devices perhaps its number.
    pub value: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::queue::{Deferred, Device, Host, HostKernel, Queue};

    const SEEDS: u64 = 1000;

    /// A device and two of its queues.
    fn two_queues(device: impl Device) -> [Arc<dyn Queue>; 2] {
        [device.queue().unwrap(), device.queue().unwrap()]
    }

    /// When two queues passed their marks, the second after it had waited for the first.
    fn times_around_a_wait(device: impl Device) -> [u64; 2] {
        let [first, second] = two_queues(device);
        let before = first.mark();
        let event = first.record();
        second.wait(&event, "the first mark");
        let after = second.mark();
        // What was asked for last is read first: reading a time waits for it.
        let after_ns = second.time_ns(after);
        [first.time_ns(before), after_ns]
    }

    #[test]
    fn a_mark_that_another_queue_waits_for_is_passed_first() {
        let [before_ns, after_ns] = times_around_a_wait(Host);
        assert!(before_ns <= after_ns);
        for seed in 0..SEEDS {
            let [before_ns, after_ns] = times_around_a_wait(Deferred::new(seed));
            assert!(before_ns < after_ns, "seed {seed}");
        }
    }

    #[test]
    fn without_the_wait_some_order_passes_the_later_mark_first() {
        let is_reversed = |&seed: &u64| {
            let [before_ns, after_ns] = times_around_a_wait(Deferred::without(seed, "the first mark"));
            after_ns < before_ns
        };
        let num_reversed = (0..SEEDS).filter(is_reversed).count();
        assert!((100..900).contains(&num_reversed), "{num_reversed}");
    }

    #[test]
    fn a_queue_passes_its_marks_in_their_order_and_a_time_stays_until_it_is_forgotten() {
        for seed in 0..SEEDS {
            let [queue, other] = two_queues(Deferred::new(seed));
            for step in 0..3 {
                let marks = [(); 4].map(|()| {
                    other.mark();
                    queue.mark()
                });
                let late = queue.time_ns(marks[2]);
                let times = marks.map(|mark| queue.time_ns(mark));
                assert!(times.is_sorted_by(|before, after| before < after), "step {step}: {times:?}");
                assert_eq!(times[2], late);
                queue.forget_marks();
            }
        }
    }

    /// Also where the queue has not come to the mark yet.
    #[test]
    #[should_panic(expected = "a mark that was forgotten")]
    fn the_time_of_a_forgotten_mark_is_gone() {
        let [queue, _] = two_queues(Deferred::new(0));
        let mark = queue.mark();
        queue.forget_marks();
        queue.time_ns(mark);
    }

    #[test]
    fn the_host_stores_a_word_at_once() {
        let word = Arc::new(Host.word());
        assert_eq!(word.load(), 0);
        Host.set_word(&word, 5);
        assert_eq!(word.load(), 5);
    }

    /// The kernel before the word finds the old one, the kernel behind it the new one; until then, whatever another queue runs, the
    /// new word is there only where the first kernel has run.
    #[test]
    fn a_word_is_stored_when_the_queue_comes_to_it() {
        let mut num_early = 0;
        for seed in 0..SEEDS {
            let [queue, other] = two_queues(Deferred::new(seed));
            let [before, behind] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
            let word = Arc::new(queue.word());
            let note = |found: &Arc<AtomicU64>| {
                let (word, found) = (Arc::clone(&word), Arc::clone(found));
                let kernel: HostKernel = Box::new(move |_, _| {
                    found.store(1 + word.load(), Ordering::Release);
                });
                queue.on_host(&[], Vec::new(), kernel);
            };
            note(&before);
            queue.set_word(&word, 7);
            note(&behind);
            let note_of = |found: &AtomicU64| found.load(Ordering::Acquire);
            let found = || [note_of(&before), word.load(), note_of(&behind)];
            assert_eq!(found(), [0, 0, 0]);
            for _ in 0..2 {
                other.time_ns(other.mark());
                assert!([[0, 0, 0], [1, 0, 0], [1, 7, 0], [1, 7, 8]].contains(&found()), "{:?}", found());
            }
            num_early += usize::from(found() != [0, 0, 0]);
            queue.time_ns(queue.mark());
            assert_eq!(found(), [1, 7, 8]);
        }
        assert!(num_early > 0, "no order ran this queue for the other's sake");
    }
}
