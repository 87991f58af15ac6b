//! A communicator with its stream, as one of its members has it.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t};

use super::api::{Api, IN_PROGRESS, SUCCESS, Status};
use super::error::NoNccl;
use super::{CudaQueue, Shared};
use crate::element::ElementType;
use crate::error::ModelError;
use crate::memory::{View, ViewMut};
use crate::queue::Queue;

/// A member's part of a communicator. What it is asked for begins after what its [queue](NcclCommunicator::queue) was asked for before, and is
/// done when the queue has come to it.
#[derive(Debug)]
pub struct NcclCommunicator {
    pub(super) api: &'static Api,
    handle: ncclComm_t,
    rank: usize,
    size: usize,
    queue: Arc<CudaQueue>,
    /// No wait for other members is longer.
    timeout: Duration,
    is_aborted: AtomicBool,
}

// SAFETY: NCCL's functions may be called by one thread after another; those that several may call at once, `poll` and `abort`, are thread-safe
// (NCCL documentation, "Thread Safety").
unsafe impl Send for NcclCommunicator {}
// SAFETY: as above; operations are asked for by the one thread that owns the rank.
unsafe impl Sync for NcclCommunicator {}

impl NcclCommunicator {
    pub(super) fn new(
        api: &'static Api,
        device: Arc<Shared>,
        handle: ncclComm_t,
        [rank, size]: [usize; 2],
        timeout: Duration,
    ) -> Result<Self, NoNccl> {
        let queue = CudaQueue::new(device)
            .map_err(|error| NoNccl::Refused { call: "cuStreamCreate", reason: error.to_string() })?;
        Ok(Self {
            api,
            handle,
            rank,
            size,
            queue: Arc::new(queue),
            timeout,
            is_aborted: AtomicBool::new(false),
        })
    }

    pub(super) fn device(&self) -> &Arc<Shared> {
        &self.queue.device
    }

    pub(super) fn handle(&self) -> ncclComm_t {
        self.handle
    }

    /// This member.
    pub fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.is_aborted.load(Ordering::Acquire)
    }

    /// The queue of its operations. Kernels that it is asked for run between them.
    pub fn queue(&self) -> Arc<dyn Queue> {
        Arc::clone(&self.queue) as Arc<dyn Queue>
    }

    /// All-gather in place: of the view's equal parts this member has brought its own, and gets the others.
    pub fn all_gather(&self, whole: &ViewMut<'_>) {
        let (part_bytes, count) = self.part(whole);
        let own = self.queue.address(whole.view()) + (self.rank * part_bytes) as u64;
        self.all_gather_from(own, whole, count);
    }

    /// All-gather of what each member has elsewhere: the view gets the parts of all, its own too.
    ///
    /// # Panics
    /// If it is not one of the view's equal parts, or of another type.
    pub fn all_gather_of(&self, own: View<'_>, whole: &ViewMut<'_>) {
        let (_, count) = self.part(whole);
        assert!(
            own.len() == count && own.element_type() == whole.element_type(),
            "{} {:?} as a part of {count} {:?}",
            own.len(),
            own.element_type(),
            whole.element_type()
        );
        self.all_gather_from(self.queue.address(own), whole, count);
    }

    fn all_gather_from(&self, own: u64, whole: &ViewMut<'_>, count: usize) {
        self.ask("ncclAllGather", |stream| {
            // SAFETY: the view has room for all members' parts, of which `own` has one; nobody writes that, or uses the view, until the queue has
            // come to the operation.
            unsafe {
                (self.api.all_gather)(
                    pointer(own),
                    pointer(self.queue.address(whole.view())),
                    count,
                    type_of(whole.element_type()),
                    self.handle,
                    stream,
                )
            }
        });
    }

    /// Reduce-scatter in place, of f32: of the view's equal parts this member's becomes the sum, in an order of the library's. What the others
    /// hold is of no use then.
    pub fn reduce_scatter(&self, whole: &ViewMut<'_>) {
        let (part_bytes, count) = self.part(whole);
        self.ask("ncclReduceScatter", |stream| {
            let all = self.queue.address(whole.view());
            let own = all + (self.rank * part_bytes) as u64;
            let (element, sum) = (type_of(whole.element_type()), ncclRedOp_t::ncclSum as c_int);
            // SAFETY: as above.
            unsafe {
                (self.api.reduce_scatter)(
                    pointer(all),
                    pointer(own),
                    count,
                    element,
                    sum,
                    self.handle,
                    stream,
                )
            }
        });
    }

    /// All-reduce in place, of whole words of 64 bits, the lower half of each first: every member gets the sums (wrapping).
    ///
    /// # Panics
    /// If the view's elements are not halves of words.
    pub fn add_words(&self, halves: &ViewMut<'_>) {
        let is_whole = halves.len().is_multiple_of(2) && halves.element_type() == ElementType::U32;
        assert!(is_whole, "{} elements of {:?} as words of 64 bits", halves.len(), halves.element_type());
        self.ask("ncclAllReduce", |stream| {
            let at = pointer(self.queue.address(halves.view()));
            let (word, sum) = (ncclDataType_t::ncclUint64 as c_int, ncclRedOp_t::ncclSum as c_int);
            // SAFETY: the view has all these words, and nobody uses it until the queue has come to the operation.
            unsafe { (self.api.all_reduce)(at, at, halves.len() / 2, word, sum, self.handle, stream) }
        });
    }

    /// Sends to another member, which receives as many elements of this type.
    pub fn send(&self, to: usize, from: View<'_>) {
        self.exchange(&[(to, from)], &[]);
    }

    /// Receives what another member sends.
    pub fn receive(&self, from: usize, to: ViewMut<'_>) {
        self.exchange(&[], &[(from, to)]);
    }

    /// Sends to some members and receives from others, all at once: none of these transfers waits for another.
    pub fn exchange(&self, sends: &[(usize, View<'_>)], receives: &[(usize, ViewMut<'_>)]) {
        self.ask("ncclSend and ncclRecv", |stream| {
            // SAFETY: a group has begun and ends here; nobody writes what is sent or uses what is received until the queue has come to the operation.
            unsafe {
                let mut status = (self.api.group_start)();
                for (to, view) in sends {
                    let (at, element) = (pointer(self.queue.address(*view)), type_of(view.element_type()));
                    status = first(
                        status,
                        (self.api.send)(at, view.len(), element, number(*to), self.handle, stream),
                    );
                }
                for (from, view) in receives {
                    let (at, element) =
                        (pointer(self.queue.address(view.view())), type_of(view.element_type()));
                    status = first(
                        status,
                        (self.api.receive)(at, view.len(), element, number(*from), self.handle, stream),
                    );
                }
                first(status, (self.api.group_end)())
            }
        });
    }

    /// What has failed meanwhile: a member has ended, or a link is down.
    ///
    /// # Errors
    /// [`ModelError::Device`] once something has.
    pub fn poll(&self) -> Result<(), ModelError> {
        if self.is_aborted() {
            return Ok(());
        }
        let state = self.state("an operation between GPUs");
        state.map(drop).map_err(|error| ModelError::Device { reason: format!("NCCL, {error}") })
    }

    /// Ends what is under way, here: other members wait in vain, until they do the same. Nothing is asked for afterwards.
    pub fn abort(&self) {
        if !self.is_aborted.swap(true, Ordering::AcqRel) && self.device().context.bind_to_thread().is_ok() {
            // SAFETY: the communicator is alive, and is not used again.
            unsafe { (self.api.abort)(self.handle) };
        }
    }

    /// A non-blocking call may return before the stream has the operation, and an event that is recorded then would come before it.
    fn wait_until_launched(&self, call: &'static str) -> Result<(), NoNccl> {
        self.wait_for_call(call, &|| false)
    }

    /// Waits until a call is done in which all members take part, or ranks have stopped.
    pub(super) fn wait_for_call(
        &self,
        call: &'static str,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(), NoNccl> {
        let start = Instant::now();
        while self.state(call)? == IN_PROGRESS && !self.is_aborted() {
            if is_stopped() {
                return Err(NoNccl::Refused { call, reason: "other ranks have stopped".to_owned() });
            }
            if start.elapsed() > self.timeout {
                let reason = format!("other ranks have not answered for {:.1?}", self.timeout);
                return Err(NoNccl::Refused { call, reason });
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// How far what was asked for is, if nothing has gone wrong.
    fn state(&self, call: &'static str) -> Result<Status, NoNccl> {
        let mut state = SUCCESS;
        // SAFETY: the communicator is alive, and the number is written before the call returns.
        let status = unsafe { (self.api.async_error)(self.handle, &raw mut state) };
        self.api.check("ncclCommGetAsyncError", status)?;
        self.api.check(call, state)?;
        Ok(state)
    }

    /// Bytes and elements of one of the members' equal parts.
    fn part(&self, whole: &ViewMut<'_>) -> (usize, usize) {
        let count = whole.len() / self.size;
        assert!(count * self.size == whole.len(), "{} elements in {} equal parts", whole.len(), self.size);
        (count * whole.element_type().num_bytes(), count)
    }

    /// Asks for something on the stream, unless it was aborted or the device has failed.
    fn ask(&self, call: &'static str, ask: impl FnOnce(*mut c_void) -> Status) {
        if self.is_aborted() {
            return;
        }
        self.queue.ask("NCCL", |stream| {
            self.api.check(call, ask(stream.cu_stream().cast()))?;
            self.wait_until_launched(call)
        });
    }
}

impl Drop for NcclCommunicator {
    /// What was asked for has been done, or the rank has failed and has aborted it.
    fn drop(&mut self) {
        if self.device().has_failed.load(Ordering::Acquire) {
            self.abort();
        } else if !self.is_aborted() && self.device().context.bind_to_thread().is_ok() {
            // SAFETY: the communicator is alive.
            let status = unsafe { (self.api.finalize)(self.handle) };
            let finalized = self.api.check("ncclCommFinalize", status);
            match finalized.and_then(|()| self.wait_until_launched("ncclCommFinalize")) {
                // SAFETY: as above; it is not used again.
                Ok(()) => drop(unsafe { (self.api.destroy)(self.handle) }),
                Err(_) => self.abort(),
            }
        }
    }
}

/// The first error of two calls.
fn first(one: Status, other: Status) -> Status {
    if one == SUCCESS || one == IN_PROGRESS { other } else { one }
}

fn pointer(address: u64) -> *mut c_void {
    address as *mut c_void
}

fn type_of(element: ElementType) -> c_int {
    (match element {
        ElementType::F32 => ncclDataType_t::ncclFloat32,
        ElementType::Bf16 => ncclDataType_t::ncclBfloat16,
        ElementType::F16 => ncclDataType_t::ncclFloat16,
        ElementType::U32 => ncclDataType_t::ncclUint32,
    }) as c_int
}

fn number(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}
