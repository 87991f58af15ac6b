//! A queue of the device: keeps what a kernel uses until the kernel runs.

#![allow(unsafe_code, reason = "kernels run after the borrows that they were asked for with have ended")]

use std::any::type_name;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::Deferred;
use super::hazards::Use;
use super::scheduler::Task;
use crate::memory::{Retained, View, ViewMut};

/// A queue of [`Deferred`]. What it was asked for still runs when it has been dropped.
#[derive(Debug)]
pub struct DeferredQueue {
    pub(super) device: Deferred,
    pub(super) number: usize,
}

impl DeferredQueue {
    /// Asks for a kernel that reads and writes these elements.
    pub(super) fn ask<const R: usize, const W: usize, K>(
        &self,
        reads: [View<'_>; R],
        writes: [ViewMut<'_>; W],
        kernel: K,
    ) where
        K: for<'a> FnOnce([View<'a>; R], [ViewMut<'a>; W]) + Send + 'static,
    {
        let id = self.device.id;
        let (reads, writes) = (reads.map(|of| of.retained(id)), writes.map(|of| of.retained(id)));
        self.push(name_of::<K>(), uses(&reads, &writes), move || {
            // SAFETY: as in `ask_many`.
            let views =
                unsafe { (reads.each_ref().map(|of| of.view()), writes.each_ref().map(|of| of.view_mut())) };
            kernel(views.0, views.1);
        });
    }

    /// As [`DeferredQueue::ask`], for any number of them.
    pub(super) fn ask_many<K>(&self, reads: &[View<'_>], writes: Vec<ViewMut<'_>>, kernel: K)
    where
        K: for<'a> FnOnce(&[View<'a>], Vec<ViewMut<'a>>) + Send + 'static,
    {
        let id = self.device.id;
        let reads: Vec<Retained> = reads.iter().map(|view| view.retained(id)).collect();
        let writes: Vec<Retained> = writes.into_iter().map(|view| view.retained(id)).collect();
        self.push(name_of::<K>(), uses(&reads, &writes), move || {
            // SAFETY: one kernel runs at a time, under the scheduler's lock. The views that it was asked for with were apart where
            // it writes, so these are too. The memory is used by this device's kernels alone (`View::retained`). The host gets no slice
            // of it while a kernel keeps it (`View::slice`), and no view to ask with while it has one.
            let (reads, writes): (Vec<View<'_>>, _) = unsafe {
                (reads.iter().map(|of| of.view()).collect(), writes.iter().map(|of| of.view_mut()).collect())
            };
            kernel(&reads, writes);
        });
    }

    fn push(&self, name: &'static str, uses: Vec<Use>, kernel: impl FnOnce() + Send + 'static) {
        let asked_by = thread::current().name().unwrap_or("a thread").to_owned();
        let task = Task::Kernel { name, asked_by, uses, run: Box::new(kernel) };
        self.device.lock().push(self.number, task);
    }

    /// Returns what a kernel reads, once everything that was asked for has been computed.
    pub(super) fn read<T, K>(&self, from: View<'_>, kernel: K) -> T
    where
        T: Default + Send + 'static,
        K: for<'a> FnOnce(View<'a>) -> T + Send + 'static,
    {
        let found = Arc::new(Mutex::new(T::default()));
        let place = Arc::clone(&found);
        let elements = from.retained(self.device.id);
        self.push(name_of::<K>(), uses(std::slice::from_ref(&elements), &[]), move || {
            // SAFETY: as in `ask_many`.
            let value = kernel(unsafe { elements.view() });
            *place.lock().unwrap_or_else(PoisonError::into_inner) = value;
        });
        self.device.lock().finish(self.number);
        std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a kernel uses.
fn uses(reads: &[Retained], writes: &[Retained]) -> Vec<Use> {
    let of = |elements: &[Retained], writes| -> Vec<Use> {
        elements.iter().map(|elements| Use { elements: elements.clone(), writes }).collect()
    };
    [of(reads, false), of(writes, true)].into_iter().flatten().collect()
}

/// The method that asks for a kernel, from the path of its closure, `...::method::{{closure}}`.
fn name_of<K>() -> &'static str {
    let parts = type_name::<K>().split("::").filter(|part| !part.starts_with('{'));
    parts.last().unwrap_or("a kernel")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::buffer::Buffer;
    use crate::error::ModelError;
    use crate::queue::{Device, Host, HostKernel, Queue};

    fn message_of(f: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap()
    }

    #[test]
    fn a_download_without_an_event_is_a_hazard_that_names_both_kernels() {
        let device = Deferred::new(0);
        let [first, other] = [(); 2].map(|()| device.queue().unwrap());
        let mut buffer = Buffer::zeros(4).unwrap();
        first.clear(buffer.view_mut().range(0..3));
        let message = message_of(|| {
            other.download_floats(buffer.view(), &mut [0.0; 4]).unwrap();
            first.time_ns(first.mark());
        });
        assert!(
            message.contains("`download_floats` in queue 1") && message.contains("`clear` in queue 0"),
            "{message}"
        );
        let failed = first.has_reached(&first.record()).unwrap_err();
        assert!(matches!(failed, ModelError::Device { .. }), "{failed}");
    }

    #[test]
    fn a_point_behind_a_wait_for_what_never_comes_is_not_reached() {
        let (device, other) = (Deferred::new(0), Deferred::new(1));
        let (queue, never) = (device.queue().unwrap(), other.queue().unwrap().record());
        let before = queue.record();
        queue.wait(&never, "what never comes");
        let behind = queue.record();
        let reached = |event| (0..10).any(|_| queue.has_reached(event).unwrap());
        assert_eq!([reached(&before), reached(&behind)], [true, false]);
    }

    #[test]
    fn the_host_reads_elements_only_when_no_kernel_is_left_that_uses_them() {
        let queue = Deferred::new(0).queue().unwrap();
        let mut buffer = Buffer::from_vec(vec![1.0_f32; 4]).unwrap();
        let kernel: HostKernel =
            Box::new(|_, writes| writes.into_iter().for_each(|to| to.slice::<f32>().fill(2.0)));
        queue.on_host(&[], vec![buffer.view_mut()], kernel);
        let message = message_of(|| drop(buffer.host().to_vec()));
        assert_eq!(message, "a queue has something left to do with these elements; download them");
        let mut values = [0.0; 4];
        queue.download_floats(buffer.view(), &mut values).unwrap();
        assert_eq!((values.as_slice(), buffer.host()), ([2.0; 4].as_slice(), [2.0; 4].as_slice()));
    }

    #[test]
    fn a_view_is_no_slice_while_a_kernel_is_left() {
        let queue = Deferred::new(0).queue().unwrap();
        let mut buffer = Buffer::zeros(4).unwrap();
        queue.clear(buffer.view_mut());
        let expected = "a queue has something left to do with these elements; download them";
        assert_eq!(message_of(|| drop(buffer.view().slice::<f32>().to_vec())), expected);
        assert_eq!(message_of(|| Host.clear(buffer.view_mut())), expected);
        queue.download_floats(buffer.view(), &mut [0.0; 4]).unwrap();
        Host.clear(buffer.view_mut());
    }

    #[test]
    fn a_buffer_is_used_by_one_device() {
        let [one, other] = [Deferred::new(0), Deferred::new(0)].map(|device| device.queue().unwrap());
        let mut buffer = Buffer::zeros(4).unwrap();
        one.clear(buffer.view_mut());
        let message = message_of(|| other.clear(buffer.view_mut()));
        assert!(message.ends_with("a buffer is used by the queues of one device alone"), "{message}");
    }

    #[test]
    fn a_kernel_that_asks_a_queue_is_refused_and_its_device_says_so() {
        let queue = Deferred::new(0).queue().unwrap();
        let inner = Arc::clone(&queue);
        queue.on_host(&[], Vec::new(), Box::new(move |_, _| _ = inner.mark()));
        let message = message_of(|| _ = queue.time_ns(queue.mark()));
        let name = thread::current().name().unwrap().to_owned();
        assert_eq!(
            message,
            format!("`on_host`, which {name} asked for: a kernel must not ask a queue for anything")
        );
        let failed = queue.has_reached(&queue.record()).unwrap_err().to_string();
        assert_eq!(failed, format!("the device has failed: {message}"));
    }

    /// What one thread has waited for orders what another asks for only where the two queues wait for each other.
    #[test]
    fn a_thread_knows_what_it_has_waited_for_itself() {
        for is_other_thread in [false, true] {
            let device = Deferred::new(0);
            let [first, second] = [(); 2].map(|()| device.queue().unwrap());
            let mut buffer = Buffer::zeros(4).unwrap();
            first.clear(buffer.view_mut());
            first.time_ns(first.mark());
            let mut ask = || second.clear(buffer.view_mut());
            if is_other_thread {
                thread::scope(|scope| scope.spawn(ask).join().unwrap())
            } else {
                ask()
            };
            let found = catch_unwind(AssertUnwindSafe(|| second.time_ns(second.mark())));
            assert_eq!(found.is_err(), is_other_thread);
        }
    }

    /// A thread knows what was done before the mark, and not what the queue has done since.
    #[test]
    fn a_mark_that_was_waited_for_orders_what_stands_before_it_alone() {
        for seed in 0..200 {
            let device = Deferred::new(seed);
            let [first, second] = [(); 2].map(|()| device.queue().unwrap());
            let mut buffer = Buffer::zeros(4).unwrap();
            let early = first.mark();
            first.clear(buffer.view_mut());
            let event = first.record();
            while !first.has_reached(&event).is_ok_and(|is_reached| is_reached) {}
            first.clear(buffer.view_mut());
            (0..20).for_each(|_| _ = second.time_ns(second.mark()));
            first.time_ns(early);
            second.clear(buffer.view_mut());
            let found = catch_unwind(AssertUnwindSafe(|| {
                first.time_ns(first.mark());
                second.time_ns(second.mark());
            }));
            assert!(found.is_err(), "seed {seed}");
        }
    }
}
