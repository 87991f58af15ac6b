//! The calls of MPI: messages of bytes between two processes, which are started without waiting.
#![allow(
    unsafe_code,
    reason = "MPI is a C library, which reads and writes memory while a message is on its way"
)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

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
    /// A call failed.
    #[error("{call} failed: {reason}")]
    Refused {
        /// The call.
        call: &'static str,
        /// What MPI says.
        reason: String,
    },
}

/// Bytes of a message at most: MPI counts them in an `int`.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// MPI, used by the thread that opened it. Dropped, it ends: every process does that.
pub(super) struct Wire {
    _universe: Universe,
    rank: usize,
    size: usize,
}

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
        Ok(Self { _universe: universe, rank, size })
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
                ffi::RSMPI_COMM_WORLD,
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
                ffi::RSMPI_COMM_WORLD,
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Irecv", status)?;
        // SAFETY: the call has written it.
        Ok(Message(unsafe { request.assume_init() }))
    }

    /// Whether a message is done, and then who sent it, or received by this process who it was; once it is, it must not be asked again.
    pub(super) fn done(&self, message: &mut Message) -> Result<Option<usize>, MpiError> {
        let (mut flag, mut status) = (0, MaybeUninit::<ffi::MPI_Status>::zeroed());
        // SAFETY: the request is one that MPI gave and that is not done.
        let code = unsafe { ffi::MPI_Test(&mut message.0, &mut flag, status.as_mut_ptr()) };
        checked("MPI_Test", code)?;
        // SAFETY: a status is plain numbers, of which zeros are valid ones.
        let status = unsafe { status.assume_init() };
        Ok((flag != 0).then_some(usize::try_from(status.MPI_SOURCE).unwrap_or(0)))
    }

    /// Takes a message back that has not come, and waits until MPI has.
    pub(super) fn cancel(&self, mut message: Message) {
        // SAFETY: the request is one that MPI gave and that is not done; after the wait MPI does nothing with its memory.
        unsafe {
            ffi::MPI_Cancel(&mut message.0);
            ffi::MPI_Wait(&mut message.0, ffi::RSMPI_STATUS_IGNORE);
        }
    }

    /// Every process gets the bytes of rank 0's; all give as many. Returns when they have come.
    pub(super) fn broadcast(&self, bytes: &mut [u8]) -> Result<(), MpiError> {
        // SAFETY: the bytes are this function's while it runs.
        let status = unsafe {
            ffi::MPI_Bcast(
                bytes.as_mut_ptr().cast::<c_void>(),
                count(bytes.len()),
                ffi::RSMPI_UINT8_T,
                0,
                ffi::RSMPI_COMM_WORLD,
            )
        };
        checked("MPI_Bcast", status)
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
