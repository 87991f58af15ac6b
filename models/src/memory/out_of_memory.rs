//! An allocator that ends the program with one line where the system gives it no more memory.
//!
//! Rust aborts then: the process dies of a signal, and its status is none of those that `--help` lists. The system refuses memory where the process has a
//! limit of its address space or its data, which batch systems set (`h_vmem`, `vmem`). Runs compare what they need with these limits before they
//! start; what is left is what no plan counts. Rejected: `std::alloc::set_alloc_error_hook`, which is not in stable Rust.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status of a command whose input is valid and that cannot be done.
const STATUS: i32 = 1;

/// The system's allocator, for a program: libraries leave the allocator to it.
#[derive(Debug)]
pub struct LimitedMemory {
    is_ending: AtomicBool,
}

impl LimitedMemory {
    /// For a `#[global_allocator]`.
    #[expect(clippy::new_without_default, reason = "a static needs a constant")]
    pub const fn new() -> Self {
        Self { is_ending: AtomicBool::new(false) }
    }

    fn given(&self, block: *mut u8, num_bytes: usize) -> *mut u8 {
        if block.is_null() {
            self.end(num_bytes);
        }
        block
    }

    /// Nothing here may allocate.
    #[cold]
    fn end(&self, num_bytes: usize) {
        // Ending the program may itself need memory; then Rust aborts, as it would without this.
        if self.is_ending.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut stderr = std::io::stderr();
        let _ = write!(
            stderr,
            "error: the system gives this process no more memory ({num_bytes} bytes were asked for)"
        );
        let limits = [(Kind::AddressSpace, "address space", "-v"), (Kind::Data, "data", "-d")];
        for (kind, name, option) in limits {
            if let Some(limit_bytes) = limit_bytes(kind) {
                let _ = write!(
                    stderr,
                    "; its limit of {name} is {limit_bytes} bytes: raise it with `ulimit {option} unlimited`"
                );
            }
        }
        let _ = writeln!(stderr);
        std::process::exit(STATUS);
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for LimitedMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc_zeroed(layout) };
        // Zeroed bytes are those of buffers (`host.rs`): the rank that asks for one reports that there is no memory for it.
        if layout.align() == 1 { block } else { self.given(block, layout.size()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.given(unsafe { System.realloc(block, layout, new_size) }, new_size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Linux's numbers of the limits.
#[derive(Clone, Copy)]
enum Kind {
    Data = 2,
    AddressSpace = 9,
}

/// A limit of this process in bytes, read without an allocation; `None` where there is none.
#[cfg(target_os = "linux")]
fn limit_bytes(kind: Kind) -> Option<u64> {
    /// `struct rlimit` of 64-bit Linux.
    #[repr(C)]
    struct Limits {
        soft: u64,
        hard: u64,
    }
    unsafe extern "C" {
        fn getrlimit(resource: i32, limits: *mut Limits) -> i32;
    }
    let mut limits = Limits { soft: u64::MAX, hard: u64::MAX };
    // SAFETY: it writes into the struct, which lives until it returns.
    let result = unsafe { getrlimit(kind as i32, &raw mut limits) };
    (result == 0 && limits.soft != u64::MAX).then_some(limits.soft)
}

#[cfg(not(target_os = "linux"))]
fn limit_bytes(_kind: Kind) -> Option<u64> {
    None
}
