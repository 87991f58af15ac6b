//! Which task of which queue runs next.

use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use super::hazards::{Hazards, Known, Use};
use crate::queue::{Event, Mark};

/// Something in a queue.
pub(super) enum Task {
    /// Runs a kernel, which uses these elements and which a thread of this name asked for.
    Kernel { name: &'static str, asked_by: String, uses: Vec<Use>, run: Box<dyn FnOnce() + Send> },
    /// The event is reached.
    Record(Arc<Reached>),
    /// The queue goes on once the event is reached.
    Wait(Arc<Reached>),
    /// The next mark of the queue is passed.
    Mark,
}

/// What an event holds: what is known at its point, once that is reached.
type Reached = OnceLock<Known>;

/// The queues of a device. One task runs at a time: the one at the head of the queue with the highest priority of those that can go
/// on. Priorities are random and change now and then, so that one queue runs far ahead of the others, and then another.
#[derive(Default)]
pub(super) struct Scheduler {
    queues: Vec<Line>,
    /// What each thread of the host knows: it has waited for these tasks.
    threads: HashMap<ThreadId, Arc<Known>>,
    hazards: Hazards,
    random: u64,
    /// How many tasks have run: the clock, since a deferred run shall not depend on a real one.
    num_run: u64,
    /// What the first kernel that panicked said.
    pub(super) failure: Option<String>,
    /// Waits for this are left out.
    pub(super) omitted: Option<&'static str>,
    /// What has been waited for.
    pub(super) waited_for: BTreeSet<&'static str>,
}

#[derive(Default)]
struct Line {
    /// Each with what the thread knew that asked for it.
    tasks: VecDeque<(Arc<Known>, Task)>,
    known: Known,
    priority: u64,
    marks: Marks,
}

/// The marks of a queue, which it passes in the order of their numbers.
#[derive(Default)]
struct Marks {
    num_asked: u64,
    num_passed: u64,
    /// Marks with smaller numbers are forgotten.
    first_kept: u64,
    /// When each mark that is kept was passed, from `first_kept` on, and what was known there.
    times: VecDeque<(u64, Known)>,
}

impl Marks {
    fn pass(&mut self, time: u64, known: &Known) {
        if self.num_passed >= self.first_kept {
            self.times.push_back((time, known.clone()));
        }
        self.num_passed += 1;
    }

    fn forget(&mut self) {
        self.first_kept = self.num_asked;
        self.times.clear();
    }
}

thread_local! {
    static IS_IN_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs a kernel.
pub(super) fn is_in_kernel() -> bool {
    IS_IN_KERNEL.get()
}

fn in_kernel(run: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn Any + Send>> {
    IS_IN_KERNEL.set(true);
    // The elements that it was to write are lost, and the failure is kept.
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_IN_KERNEL.set(false);
    result
}

/// After how many tasks a queue's priority changes, on average.
const TASKS_PER_PRIORITY: u64 = 8;

impl Scheduler {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: seed, ..Self::default() }
    }

    /// A new queue, and its number.
    pub(super) fn open(&mut self) -> usize {
        let priority = self.draw();
        self.queues.push(Line { priority, ..Line::default() });
        self.queues.len() - 1
    }

    pub(super) fn push(&mut self, queue: usize, task: Task) {
        let known = Arc::clone(self.threads.entry(thread::current().id()).or_default());
        self.queues[queue].tasks.push_back((known, task));
    }

    pub(super) fn record(&mut self, queue: usize) -> Event {
        let reached = Arc::new(Reached::new());
        self.push(queue, Task::Record(Arc::clone(&reached)));
        Event::new(reached)
    }

    pub(super) fn wait(&mut self, queue: usize, event: &Event, what: &'static str) {
        let Some(reached) = event.handle() else { return };
        self.waited_for.insert(what);
        if self.omitted != Some(what) {
            self.push(queue, Task::Wait(reached));
        }
    }

    /// Whether the event is reached. If not, one task runs, where a queue can go on.
    pub(super) fn run_towards(&mut self, event: &Event) -> bool {
        let Some(reached) = event.handle::<Reached>() else { return true };
        if reached.get().is_none() {
            self.run_one();
        }
        if let Some(known) = reached.get() {
            self.tell_thread(known);
        }
        reached.get().is_some()
    }

    pub(super) fn mark(&mut self, queue: usize) -> Mark {
        self.push(queue, Task::Mark);
        let marks = &mut self.queues[queue].marks;
        marks.num_asked += 1;
        Mark { value: marks.num_asked - 1 }
    }

    /// Runs tasks until a queue has passed its mark, and returns how many tasks had run then.
    ///
    /// # Panics
    /// If the mark was forgotten.
    pub(super) fn time(&mut self, queue: usize, mark: Mark) -> u64 {
        while self.queues[queue].marks.num_passed <= mark.value {
            self.must_run_one();
        }
        let Marks { first_kept, times, .. } = &self.queues[queue].marks;
        let index = mark.value.checked_sub(*first_kept).expect("the time of a mark that was forgotten");
        let (time, known) = times[index as usize].clone();
        self.tell_thread(&known);
        time
    }

    pub(super) fn forget_marks(&mut self, queue: usize) {
        self.queues[queue].marks.forget();
    }

    /// Runs tasks until a queue has none left.
    ///
    /// # Panics
    /// If no queue can go on: something is waited for that nobody records.
    pub(super) fn finish(&mut self, queue: usize) {
        while !self.queues[queue].tasks.is_empty() {
            self.must_run_one();
        }
        let known = self.queues[queue].known.clone();
        self.tell_thread(&known);
    }

    /// This thread has waited for what is known there.
    fn tell_thread(&mut self, known: &Known) {
        Arc::make_mut(self.threads.entry(thread::current().id()).or_default()).learn(known);
    }

    fn must_run_one(&mut self) {
        assert!(self.run_one(), "what a queue waits for is recorded in another before");
    }

    /// Runs a task, unless no queue can go on.
    fn run_one(&mut self) -> bool {
        let can_go_on = |line: &Line| match line.tasks.front() {
            None => false,
            Some((_, Task::Wait(event))) => event.get().is_some(),
            Some((_, Task::Kernel { .. } | Task::Record(_) | Task::Mark)) => true,
        };
        let lines = self.queues.iter().enumerate().filter(|(_, line)| can_go_on(line));
        let next = lines.max_by_key(|(_, line)| line.priority).map(|(index, _)| index);
        let Some(next) = next else { return false };
        self.num_run += 1;
        let line = &mut self.queues[next];
        let (asked_with, task) = line.tasks.pop_front().expect("a queue that can go on has a task");
        line.known.learn(&asked_with);
        line.known.advance(next);
        match task {
            Task::Kernel { name, asked_by, uses, run } => {
                if let Err(hazard) = self.hazards.note(name, &uses, next, &line.known) {
                    self.fail(format!("{asked_by} asked for a kernel that is in no order: {hazard}"));
                }
                // They keep memory that the host may not read before they are gone.
                drop(uses);
                if let Err(panic) = in_kernel(run) {
                    let message = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                    let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
                    self.fail(format!(
                        "`{name}`, which {asked_by} asked for: {}",
                        message.unwrap_or_default()
                    ));
                }
            }
            Task::Mark => line.marks.pass(self.num_run, &line.known),
            Task::Record(event) => drop(event.set(line.known.clone())),
            Task::Wait(event) => event.get().into_iter().for_each(|known| line.known.learn(known)),
        }
        if self.draw().is_multiple_of(TASKS_PER_PRIORITY) {
            self.queues[next].priority = self.draw();
        }
        true
    }

    /// Panics in whichever thread runs the task, with what names the thread that asked for it.
    fn fail(&mut self, message: String) -> ! {
        self.failure.get_or_insert_with(|| message.clone());
        panic!("{message}");
    }

    /// The next random number (splitmix64, Steele et al., OOPSLA 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Two queues note what they run; the second waits for the first in the middle.
    fn order_of(seed: u64, omitted: Option<&'static str>) -> Vec<&'static str> {
        let mut scheduler = Scheduler { omitted, ..Scheduler::new(seed) };
        let (first, second) = (scheduler.open(), scheduler.open());
        let ran = Arc::new(Mutex::new(Vec::new()));
        let note = |what: &'static str| {
            let ran = Arc::clone(&ran);
            let run = Box::new(move || ran.lock().unwrap().push(what));
            Task::Kernel { name: what, asked_by: String::new(), uses: Vec::new(), run }
        };
        scheduler.push(first, note("a"));
        let event = scheduler.record(first);
        scheduler.push(first, note("b"));
        scheduler.push(second, note("c"));
        scheduler.wait(second, &event, "a for d");
        scheduler.push(second, note("d"));
        scheduler.finish(first);
        scheduler.finish(second);
        ran.lock().unwrap().clone()
    }

    fn place(order: &[&str], what: &str) -> usize {
        order.iter().position(|&ran| ran == what).unwrap()
    }

    #[test]
    fn queues_run_in_their_own_order_and_in_every_order_that_events_allow() {
        let orders: BTreeSet<_> = (0..20_000).map(|seed| order_of(seed, None)).collect();
        for order in &orders {
            for (before, after) in [("a", "b"), ("c", "d"), ("a", "d")] {
                assert!(place(order, before) < place(order, after), "{order:?}");
            }
        }
        // All interleavings of a b and c d in which a is before d.
        assert_eq!(orders.len(), 5);
    }

    #[test]
    fn times_of_one_step_are_kept_and_no_more() {
        let mut scheduler = Scheduler::new(0);
        let queue = scheduler.open();
        for _ in 0..100 {
            let marks = [(); 3].map(|()| scheduler.mark(queue));
            assert!(scheduler.time(queue, marks[1]) < scheduler.time(queue, marks[2]));
            assert_eq!(scheduler.queues[queue].marks.times.len(), 3);
            // One is asked for, and passed in the next step.
            scheduler.mark(queue);
            scheduler.forget_marks(queue);
        }
        assert!(scheduler.queues[queue].marks.times.is_empty());
    }

    #[test]
    fn an_event_that_is_left_out_is_seen_in_the_order() {
        let orders: BTreeSet<_> = (0..20_000).map(|seed| order_of(seed, Some("a for d"))).collect();
        assert_eq!(orders.len(), 6);
    }
}
