// Every read and write of a kernel, looked at: that it is within a live allocation to the byte, and aligned.
//
// The compiler calls these functions before each of them, where build.sh is told `checked`: it asks for what
// the compiler has for kernels of operating systems (`-fsanitize=kernel-address`), which bring the functions
// themselves. Shared and local variables are let pass.
#pragma once

#include "fibers.h"
#include "races.h"

namespace imitation {

// Whether a block runs.
inline bool is_checked = false;

IMITATION_UNCHECKED inline void check_access(
    uintptr_t address, size_t num_bytes, size_t alignment, Access access
) {
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
    // What is called now is not to be looked at.
    is_checked = false;
    note_access(address, num_bytes, access);
    is_checked = true;
}

}

#define IMITATION_HIDDEN extern "C" __attribute__((visibility("hidden")))

#define IMITATION_ACCESS(name, num_bytes, access) \
    IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_##name##_noabort(uintptr_t address) { \
        imitation::check_access(address, num_bytes, num_bytes, imitation::Access::access); \
    }

IMITATION_ACCESS(load1, 1, Read)
IMITATION_ACCESS(load2, 2, Read)
IMITATION_ACCESS(load4, 4, Read)
IMITATION_ACCESS(load8, 8, Read)
IMITATION_ACCESS(load16, 16, Read)
IMITATION_ACCESS(store1, 1, Write)
IMITATION_ACCESS(store2, 2, Write)
IMITATION_ACCESS(store4, 4, Write)
IMITATION_ACCESS(store8, 8, Write)
IMITATION_ACCESS(store16, 16, Write)

IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_loadN_noabort(uintptr_t address, size_t num_bytes) {
    imitation::check_access(address, num_bytes, 1, imitation::Access::Read);
}

IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_storeN_noabort(uintptr_t address, size_t num_bytes) {
    imitation::check_access(address, num_bytes, 1, imitation::Access::Write);
}

// The process does not end within a kernel.
IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_handle_no_return() {}

// Nor does it matter in which order variables get their first values.
IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_before_dynamic_init(const void*) {}
IMITATION_HIDDEN IMITATION_UNCHECKED void __asan_after_dynamic_init() {}
