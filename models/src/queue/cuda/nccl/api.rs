//! The functions of the library, looked for once.
//!
//! They are not called through cudarc: it looks for no `libnccl.so.2`, and panics where a library or a function is missing.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};
use libloading::Library;

use super::error::{LEAST_MINOR, NoNccl};

/// `ncclResult_t`, as a number: a newer library may have results that bindings do not know.
pub(super) type Status = c_int;

/// Done.
pub(super) const SUCCESS: Status = 0;
/// A non-blocking call is under way.
pub(super) const IN_PROGRESS: Status = 7;

/// Names of its file, in the order in which they are tried.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident: $name:literal ($($argument:ty),* $(,)?) -> $result:ty;)+) => {
        /// The functions that are used, with NCCL's signatures.
        #[derive(Debug)]
        pub(super) struct Api {
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)+
            /// Of versions from 2.27 on.
            pub(super) windows: Option<Windows>,
            _library: Library,
        }

        impl Api {
            fn of(library: Library) -> Result<Self, libloading::Error> {
                // SAFETY: the names are of functions of NCCL with these signatures (nccl.h), and the library is kept as long as they are.
                unsafe {
                    let windows = Windows::of(&library);
                    Ok(Self { $($field: *library.get($name)?,)+ windows, _library: library })
                }
            }
        }
    };
}

functions! {
    get_version: b"ncclGetVersion\0" (*mut c_int) -> Status;
    get_unique_id: b"ncclGetUniqueId\0" (*mut ncclUniqueId) -> Status;
    error_string: b"ncclGetErrorString\0" (Status) -> *const c_char;
    last_error: b"ncclGetLastError\0" (ncclComm_t) -> *const c_char;
    init_rank: b"ncclCommInitRankConfig\0" (*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> Status;
    split: b"ncclCommSplit\0" (ncclComm_t, c_int, c_int, *mut ncclComm_t, *mut ncclConfig_t) -> Status;
    async_error: b"ncclCommGetAsyncError\0" (ncclComm_t, *mut Status) -> Status;
    abort: b"ncclCommAbort\0" (ncclComm_t) -> Status;
    finalize: b"ncclCommFinalize\0" (ncclComm_t) -> Status;
    destroy: b"ncclCommDestroy\0" (ncclComm_t) -> Status;
    group_start: b"ncclGroupStart\0" () -> Status;
    group_end: b"ncclGroupEnd\0" () -> Status;
    all_gather: b"ncclAllGather\0" (*const c_void, *mut c_void, usize, c_int, ncclComm_t, *mut c_void) -> Status;
    reduce_scatter: b"ncclReduceScatter\0" (*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, *mut c_void) -> Status;
    all_reduce: b"ncclAllReduce\0" (*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, *mut c_void) -> Status;
    send: b"ncclSend\0" (*const c_void, usize, c_int, c_int, ncclComm_t, *mut c_void) -> Status;
    receive: b"ncclRecv\0" (*mut c_void, usize, c_int, c_int, ncclComm_t, *mut c_void) -> Status;
    allocate: b"ncclMemAlloc\0" (*mut *mut c_void, usize) -> Status;
    free: b"ncclMemFree\0" (*mut c_void) -> Status;
}

/// Functions by which the members of a communicator let each other's GPUs use memory of theirs (`ncclWindow_t` is a pointer).
#[derive(Debug)]
pub(super) struct Windows {
    pub(super) register:
        unsafe extern "C" fn(ncclComm_t, *mut c_void, usize, *mut *mut c_void, c_int) -> Status,
    pub(super) deregister: unsafe extern "C" fn(ncclComm_t, *mut c_void) -> Status,
}

impl Windows {
    /// # Safety
    /// The library is NCCL, and is kept as long as these are.
    unsafe fn of(library: &Library) -> Option<Self> {
        // SAFETY: the names are of functions of NCCL with these signatures (nccl.h).
        unsafe {
            Some(Self {
                register: *library.get(b"ncclCommWindowRegister\0").ok()?,
                deregister: *library.get(b"ncclCommWindowDeregister\0").ok()?,
            })
        }
    }
}

impl Api {
    /// What a status means, with what the library said last.
    pub(super) fn said(&self, status: Status) -> String {
        // SAFETY: both return texts that stay.
        let [meaning, last] = unsafe {
            [(self.error_string)(status), (self.last_error)(std::ptr::null_mut())].map(|text| {
                if text.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
            })
        };
        if last.trim().is_empty() { meaning } else { format!("{meaning} ({})", last.trim()) }
    }

    /// The call's answer, which is not an error if the call is under way.
    pub(super) fn check(&self, call: &'static str, status: Status) -> Result<(), NoNccl> {
        match status {
            SUCCESS | IN_PROGRESS => Ok(()),
            status => Err(NoNccl::Refused { call, reason: self.said(status) }),
        }
    }

    fn version(&self) -> Result<[i32; 3], NoNccl> {
        let mut version = 0;
        // SAFETY: the number is written before the call returns.
        let status = unsafe { (self.get_version)(&raw mut version) };
        self.check("ncclGetVersion", status)?;
        Ok([version / 10_000, version / 100 % 100, version % 100])
    }
}

/// The library, if it can be used.
pub(super) fn api() -> Result<&'static Api, NoNccl> {
    static API: OnceLock<Result<Api, NoNccl>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Api, NoNccl> {
    let mut reasons = Vec::new();
    for name in NAMES {
        // SAFETY: its initialisers run, which is what the caller wants.
        match unsafe { Library::new(name) } {
            Ok(library) => return usable(name, library),
            Err(error) => reasons.push(
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string),
            ),
        }
    }
    // A file that is there and cannot be loaded is the better reason.
    let is_there = reasons.iter().position(|reason| !reason.contains("No such file"));
    Err(match is_there {
        Some(index) => NoNccl::Unusable { name: NAMES[index], reason: reasons.swap_remove(index) },
        None => NoNccl::Library { reason: reasons.swap_remove(0) },
    })
}

fn usable(name: &'static str, library: Library) -> Result<Api, NoNccl> {
    let unusable = |reason| NoNccl::Unusable { name, reason };
    let api = Api::of(library).map_err(|error| unusable(error.to_string()))?;
    match api.version()? {
        [2, minor, _] if minor >= LEAST_MINOR => Ok(api),
        [major, minor, patch] => Err(unusable(format!("it is of version {major}.{minor}.{patch}"))),
    }
}

/// The version of the library, `2.28.9`.
///
/// # Errors
/// When there is none that can be used.
pub fn nccl_version() -> Result<String, NoNccl> {
    let [major, minor, patch] = api()?.version()?;
    Ok(format!("{major}.{minor}.{patch}"))
}
