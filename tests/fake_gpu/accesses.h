// Every read and write of a kernel, looked at: that it is within a live allocation to the byte, and aligned.
//
// The compiler calls these functions before each of them, where build.sh is told `checked`: it asks for what
// the compiler has for kernels of operating systems (`-fsanitize=kernel-address`), which bring the functions
// themselves. Shared and local variables are let pass.
#pragma once

#include "fibers.h"
#include "races.h"

namespace fake_gpu {

// Whether a block runs.
inline bool is_checked = false;

// As `check_access`, of an address in the arena.
FAKE_GPU_UNCHECKED inline void check_access_in_arena(
    uintptr_t address, size_t num_bytes, size_t alignment, Access access
) {
    const Memory& all = memory();
    size_t offset = address - arena_begin;
    size_t last = offset + num_bytes - 1;
    bool begins_inside = offset % ALIGNMENT < all.num_usable[offset / ALIGNMENT];
    if (!begins_inside || last % ALIGNMENT >= all.num_usable[last / ALIGNMENT]) {
        stop_kernel("a thread reads or writes outside all live allocations", block.current->site);
    }
    if (address % alignment != 0) {
        stop_kernel("a thread reads or writes at an address that is not aligned", block.current->site);
    }
    // What is called now is not to be looked at.
    is_checked = false;
    note_access(address, num_bytes, access);
    is_checked = true;
}

// Most accesses are of shared variables: they are let pass at once.
FAKE_GPU_UNCHECKED inline void check_access(
    uintptr_t address, size_t num_bytes, size_t alignment, Access access
) {
    if (is_checked && address - arena_begin < ARENA_BYTES) {
        check_access_in_arena(address, num_bytes, alignment, access);
    }
}

}

#define FAKE_GPU_HIDDEN extern "C" __attribute__((visibility("hidden")))

#define FAKE_GPU_ACCESS(name, num_bytes, access) \
    FAKE_GPU_HIDDEN FAKE_GPU_UNCHECKED void __asan_##name##_noabort(uintptr_t address) { \
        fake_gpu::check_access(address, num_bytes, num_bytes, fake_gpu::Access::access); \
    }

FAKE_GPU_ACCESS(load1, 1, Read)
FAKE_GPU_ACCESS(load2, 2, Read)
FAKE_GPU_ACCESS(load4, 4, Read)
FAKE_GPU_ACCESS(load8, 8, Read)
FAKE_GPU_ACCESS(load16, 16, Read)
FAKE_GPU_ACCESS(store1, 1, Write)
FAKE_GPU_ACCESS(store2, 2, Write)
FAKE_GPU_ACCESS(store4, 4, Write)
FAKE_GPU_ACCESS(store8, 8, Write)
FAKE_GPU_ACCESS(store16, 16, Write)

FAKE_GPU_HIDDEN FAKE_GPU_UNCHECKED void __asan_loadN_noabort(uintptr_t address, size_t num_bytes) {
    fake_gpu::check_access(address, num_bytes, 1, fake_gpu::Access::Read);
}

FAKE_GPU_HIDDEN FAKE_GPU_UNCHECKED void __asan_storeN_noabort(uintptr_t address, size_t num_bytes) {
    fake_gpu::check_access(address, num_bytes, 1, fake_gpu::Access::Write);
}

// The process does not end within a kernel.
FAKE_GPU_HIDDEN FAKE_GPU_UNCHECKED void __asan_handle_no_return() {}

// Nor does it matter in which order variables get their first values.
FAKE_GPU_HIDDEN FAKE_GPU_UNCHECKED void __asan_before_dynamic_init(const void*) {}
FAKE_GPU_HIDDEN FAKE_GPU_UNCHECKED void __asan_after_dynamic_init() {}
