//! The calls of MPI: messages of bytes between two processes, which are started without waiting.
#![allow(
    unsafe_code,
    reason = "MPI is a C library, which reads and writes memory while a message is on its way"
)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use crossbeam::channel::RecvTimeoutError;
use mpi::environment::{Threading, Universe};
use mpi::ffi;
use mpi::traits::Communicator;

/// Why MPI does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// This process has used it before, and has ended its use.
    #[error("MPI was started before in this process, which it can be once")]
    StartedBefore,
    /// No thread of its own can call it.
    #[error("the MPI library was built without threads: use one that gives MPI_THREAD_FUNNELED")]
    NoThreads,
    /// The system gives no thread.
    #[error("no thread can be started that calls MPI: {0}")]
    NoThread(String),
    /// Not all processes of the job have come.
    #[error("waited {waited:.1?} for all processes of the job: see whether each of them has started")]
    Missing {
        /// How long.
        waited: Duration,
    },
    /// A process will never come to where all of the job are to meet.
    #[error("the process of rank {rank} has ended")]
    Left {
        /// Its first rank.
        rank: usize,
    },
    /// Others will never come to where all of the job are to meet.
    #[error("ranks of another process have failed")]
    Stopped,
    /// The thread that calls MPI has ended.
    #[error("the thread that calls MPI has ended")]
    Ended,
    /// There is no memory for what others send.
    #[error("to receive the others' parts of a reduction: {0}")]
    Memory(String),
    /// A call failed.
    #[error("{call} failed: {reason}")]
    Refused {
        /// The call.
        call: &'static str,
        /// What MPI says.
        reason: String,
    },
}

impl MpiError {
    /// Why the thread that calls MPI gave no answer in this time.
    pub(super) fn without_answer(why: RecvTimeoutError, waited: Duration) -> Self {
        match why {
            RecvTimeoutError::Timeout => Self::Missing { waited },
            RecvTimeoutError::Disconnected => Self::Ended,
        }
    }
}

/// What the library says of its version, in one line; it may be asked before MPI has started.
pub(crate) fn mpi_library_version() -> Option<String> {
    let text = mpi::environment::library_version().ok()?;
    let line = text.trim_matches(['\0', '\n', ' ']).lines().next()?;
    Some(line.to_owned())
}

/// Bytes of a message at most: MPI counts them in an `int`.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// MPI, used by the thread that opened it. Dropped, it ends: every process does that.
pub(super) struct Wire {
    _universe: Universe,
    /// In which messages are matched: those of a world never meet another's.
    messages: ffi::MPI_Comm,
    rank: usize,
    size: usize,
}

/// In which later messages are matched, once MPI has written it.
pub(super) struct Renewed(&'static mut ffi::MPI_Comm);

/// A message on its way.
#[derive(Debug)]
pub(super) struct Message(ffi::MPI_Request);

impl Wire {
    /// Starts MPI; every process of the job does.
    pub(super) fn open() -> Result<Self, MpiError> {
        let started = mpi::initialize_with_threading(Threading::Funneled);
        let (universe, threading) = started.ok_or(MpiError::StartedBefore)?;
        if threading < Threading::Funneled {
            return Err(MpiError::NoThreads);
        }
        // SAFETY: MPI has started; the handles are its own.
        let status = unsafe { ffi::MPI_Comm_set_errhandler(ffi::RSMPI_COMM_WORLD, ffi::RSMPI_ERRORS_RETURN) };
        checked("MPI_Comm_set_errhandler", status)?;
        let world = universe.world();
        let [rank, size] = [world.rank(), world.size()].map(|count| count as usize);
        // SAFETY: MPI has started.
        let messages = unsafe { ffi::RSMPI_COMM_WORLD };
        Ok(Self { _universe: universe, messages, rank, size })
    }

    /// Begins what makes messages meet none of those before, once all processes have called it and the returned message is done.
    pub(super) fn renew(&self) -> Result<(Message, Renewed), MpiError> {
        let renewed = Box::leak(Box::new(self.messages));
        let mut request = MaybeUninit::uninit();
        // SAFETY: the communicator is MPI's own; where the new one is written, which inherits that errors are returned, is never freed.
        let status = unsafe { ffi::MPI_Comm_idup(ffi::RSMPI_COMM_WORLD, renewed, request.as_mut_ptr()) };
        checked("MPI_Comm_idup", status)?;
        // SAFETY: the call has written it.
        Ok((Message(unsafe { request.assume_init() }), Renewed(renewed)))
    }

    /// From now on messages meet none of those before: the message of [`Wire::renew`] is done.
    pub(super) fn take(&mut self, Renewed(messages): Renewed) {
        self.messages = *messages;
    }

    /// The rank of this process.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    /// Number of processes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Starts to send bytes.
    ///
    /// # Safety
    /// The bytes stay, and nobody writes them, until the message is done.
    pub(super) unsafe fn send(&self, to: usize, tag: u16, bytes: &[u8]) -> Result<Message, MpiError> {
        let mut request = MaybeUninit::uninit();
        // SAFETY: the bytes are there by this function's contract; the request is written if the call succeeds.
        let status = unsafe {
            ffi::MPI_Isend(
                bytes.as_ptr().cast::<c_void>(),
                count(bytes.len()),
                ffi::RSMPI_UINT8_T,
                to as c_int,
                tag.into(),
                self.messages,
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Isend", status)?;
        // SAFETY: the call has written it.
        Ok(Message(unsafe { request.assume_init() }))
    }

    /// Starts to receive as many bytes, from a process or from any.
    ///
    /// # Safety
    /// The bytes stay, and nobody else reads or writes them, until the message is done.
    pub(super) unsafe fn receive(
        &self,
        from: Option<usize>,
        tag: u16,
        bytes: &mut [u8],
    ) -> Result<Message, MpiError> {
        let mut request = MaybeUninit::uninit();
        // SAFETY: as in `send`.
        let status = unsafe {
            ffi::MPI_Irecv(
                bytes.as_mut_ptr().cast::<c_void>(),
                count(bytes.len()),
                ffi::RSMPI_UINT8_T,
                from.map_or(ffi::RSMPI_ANY_SOURCE, |from| from as c_int),
                tag.into(),
                self.messages,
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Irecv", status)?;
        // SAFETY: the call has written it.
        Ok(Message(unsafe { request.assume_init() }))
    }

    /// `Some` once a message is done, with the rank that sent it; of a message that this process sent the number means nothing. Then it must not be
    /// asked again.
    pub(super) fn done(&self, message: &mut Message) -> Result<Option<usize>, MpiError> {
        let (mut flag, mut status) = (0, MaybeUninit::<ffi::MPI_Status>::zeroed());
        // SAFETY: the request is one that MPI gave and that is not done.
        let code = unsafe { ffi::MPI_Test(&mut message.0, &mut flag, status.as_mut_ptr()) };
        checked("MPI_Test", code)?;
        // SAFETY: a status is plain numbers, of which zeros are valid ones.
        let status = unsafe { status.assume_init() };
        Ok((flag != 0).then_some(usize::try_from(status.MPI_SOURCE).unwrap_or(usize::MAX)))
    }

    /// Takes a message back that has not come, and waits until MPI has.
    pub(super) fn cancel(&self, mut message: Message) {
        // SAFETY: the request is one that MPI gave and that is not done; after the wait MPI does nothing with its memory.
        unsafe {
            ffi::MPI_Cancel(&mut message.0);
            ffi::MPI_Wait(&mut message.0, ffi::RSMPI_STATUS_IGNORE);
        }
    }

    /// A message that is done once every process has come here.
    pub(super) fn barrier(&self) -> Result<Message, MpiError> {
        let mut request = MaybeUninit::uninit();
        // SAFETY: the request is written if the call succeeds.
        let status = unsafe { ffi::MPI_Ibarrier(ffi::RSMPI_COMM_WORLD, request.as_mut_ptr()) };
        checked("MPI_Ibarrier", status)?;
        // SAFETY: the call has written it.
        Ok(Message(unsafe { request.assume_init() }))
    }

    /// Starts to give every process the bytes of rank 0's; all give as many.
    ///
    /// # Safety
    /// As [`Wire::receive`].
    pub(super) unsafe fn broadcast(&self, bytes: &mut [u8]) -> Result<Message, MpiError> {
        let mut request = MaybeUninit::uninit();
        // SAFETY: as in `send`.
        let status = unsafe {
            ffi::MPI_Ibcast(
                bytes.as_mut_ptr().cast::<c_void>(),
                count(bytes.len()),
                ffi::RSMPI_UINT8_T,
                0,
                ffi::RSMPI_COMM_WORLD,
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Ibcast", status)?;
        // SAFETY: the call has written it.
        Ok(Message(unsafe { request.assume_init() }))
    }
}

fn count(num_bytes: usize) -> c_int {
    assert!(num_bytes <= MESSAGE_BYTES_MAX, "messages are cut into pieces");
    num_bytes as c_int
}

fn checked(call: &'static str, status: c_int) -> Result<(), MpiError> {
    if status == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0_u8; ffi::MPI_MAX_ERROR_STRING as usize];
    let mut len = 0;
    // SAFETY: the text has room for what MPI writes at most.
    unsafe { ffi::MPI_Error_string(status, text.as_mut_ptr().cast(), &mut len) };
    let len = usize::try_from(len).unwrap_or(0).min(text.len());
    Err(MpiError::Refused { call, reason: String::from_utf8_lossy(&text[..len]).into_owned() })
}

/// Has this function called when the process ends as it should.
pub(super) fn at_exit(call: extern "C" fn()) {
    unsafe extern "C" {
        fn atexit(call: extern "C" fn()) -> c_int;
    }
    // SAFETY: the C library has the function, and a Rust function lives as long as the process.
    unsafe { atexit(call) };
}
