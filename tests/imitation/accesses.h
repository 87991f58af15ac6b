// Every read and write of a kernel, looked at: that it is within a live allocation to the byte, and aligned.
//
// The compiler calls these functions before each of them, where build.sh is told `checked`: it asks for what
// the compiler has for kernels of operating systems (`-fsanitize=kernel-address`), which bring the functions
// themselves. Shared and local variables are let pass.
#pragma once

#include "fibers.h"
#include "memory.h"

namespace imitation {

// Whether a block runs.
inline bool is_checked = false;

// Itself unchecked, and so are the functions that call it.
#define IMITATION_UNCHECKED __attribute__((no_sanitize("kernel-address")))

IMITATION_UNCHECKED inline void check_access(uintptr_t address, size_t num_bytes, size_t alignment) {
    if (!is_checked) {
        return;
    }
    const Memory& all = memory();
    size_t offset = address - (uintptr_t)all.arena;
    if (offset >= ARENA_BYTES) {
        return;
    }
    size_t last = offset + num_bytes - 1;
    bool begins_inside = offset % ALIGNMENT < all.num_usable[offset / ALIGNMENT];
    if (!begins_inside || last % ALIGNMENT >= all.num_usable[last / ALIGNMENT]) {
        stop_kernel("a thread reads or writes outside all live allocations", block.current->site);
    }
    if (address % alignment != 0) {
        stop_kernel("a thread reads or writes at an address that is not aligned", block.current->site);
    }
}

}

#define IMITATION_HIDDEN extern "C" __attribute__((visibility("hidden")))

#define IMITATION_ACCESS(name, num_bytes) \
    IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_##name##_noabort(uintptr_t address) { \
        imitation::check_access(address, num_bytes, num_bytes); \
    }

IMITATION_ACCESS(load1, 1)
IMITATION_ACCESS(load2, 2)
IMITATION_ACCESS(load4, 4)
IMITATION_ACCESS(load8, 8)
IMITATION_ACCESS(load16, 16)
IMITATION_ACCESS(store1, 1)
IMITATION_ACCESS(store2, 2)
IMITATION_ACCESS(store4, 4)
IMITATION_ACCESS(store8, 8)
IMITATION_ACCESS(store16, 16)

IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_loadN_noabort(uintptr_t address, size_t num_bytes) {
    imitation::check_access(address, num_bytes, 1);
}

IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_storeN_noabort(uintptr_t address, size_t num_bytes) {
    imitation::check_access(address, num_bytes, 1);
}

// The process does not end within a kernel.
IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_handle_no_return() {}

// Nor does it matter in which order variables get their first values.
IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_before_dynamic_init(const void*) {}
IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_after_dynamic_init() {}
