//! How the C library's allocator gives freed memory back to the system.
//!
//! Its default learns: once a large block is freed, blocks of that size come from the heap of a thread, and what is freed there stays with the process.
//! Ranks allocate and free pieces of a few hundred KiB all the time, each in a heap of its own; so with 8 ranks a process held 20 MiB more than it used.
//! With a limit that does not move, blocks beyond it are mapped on their own and given back when they are freed.

/// Blocks of this many bytes or more are given back to the system when they are freed. Below it are the buffers into which most products repack their
/// operands, which would cost a page fault for each 4 KiB of every call.
const GIVEN_BACK_BYTES: i32 = 512 << 10;

/// Makes the allocator give large blocks back. For the beginning of a program; libraries leave the allocator to it.
#[cfg(target_env = "gnu")]
pub fn give_back_freed_memory() {
    /// The parameter of that name in glibc's malloc.h.
    const M_MMAP_THRESHOLD: i32 = -3;
    // SAFETY: glibc's declaration is `int mallopt(int param, int value)`, and it may be called at any time. A value that is refused changes nothing.
    unsafe extern "C" {
        safe fn mallopt(param: i32, value: i32) -> i32;
    }
    mallopt(M_MMAP_THRESHOLD, GIVEN_BACK_BYTES);
}

/// Other C libraries have no such setting.
#[cfg(not(target_env = "gnu"))]
pub fn give_back_freed_memory() {}

/// Makes all threads take small blocks from one heap. Each has one of its own otherwise, which reserves 64 MiB of address space: a program calls this where its address
/// space has a limit.
#[cfg(target_env = "gnu")]
pub fn share_one_heap() {
    /// The parameter of that name in glibc's malloc.h.
    const M_ARENA_MAX: i32 = -8;
    // SAFETY: as in `give_back_freed_memory`.
    unsafe extern "C" {
        safe fn mallopt(param: i32, value: i32) -> i32;
    }
    mallopt(M_ARENA_MAX, 1);
}

/// Other C libraries have no such setting.
#[cfg(not(target_env = "gnu"))]
pub fn share_one_heap() {}
