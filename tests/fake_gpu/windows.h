// Memory that NCCL allocates, and windows: memory that all members of a communicator have registered, each its own. Included by libnccl.cpp alone.
//
// A registration is a collective: it is done once all members have called, for as many bytes. With FAKE_GPU_NCCL_WINDOWS=1 an all-gather of more than a
// few elements must land in a window of its communicator, unless that one adds too: then it is the rest of a sum.
#pragma once

#include <set>

#include "settings.h"

extern "C" {
int cuMemAlloc_v2(void** address, size_t num_bytes);
int cuMemFree_v2(void* address);
}

namespace fake_gpu {

// What the driver maps at once.
inline const size_t GRANULARITY = size_t(2) << 20;
inline const size_t FEW_ELEMENTS = 64;

struct Window {
    const void* communicator;
    const char* address;
    size_t num_bytes;

    bool has(const char* begin, size_t length) const {
        return begin >= address && begin + length <= address + num_bytes;
    }
};

// The process's own. Calls hold the process's mutex.
struct Windows {
    std::set<void*> allocated;
    std::set<Window*> open;
};

inline Windows& windows() {
    static Windows* windows = new Windows;
    return *windows;
}

inline bool is_in_window(const void* communicator, const char* begin, size_t length) {
    for (const Window* window : windows().open) {
        if (window->communicator == communicator && window->has(begin, length)) {
            return true;
        }
    }
    return false;
}

// Stops the process where a gather lands beside the windows and must not.
inline void check_window(const void* communicator, const void* to, size_t count, size_t num_bytes) {
    static const bool must = setting("FAKE_GPU_NCCL_WINDOWS", 0) != 0;
    if (must && count > FEW_ELEMENTS && !is_in_window(communicator, (const char*)to, num_bytes)) {
        stop("NCCL: an all-gather of %zu elements of each rank does not land in a window", count);
    }
}

}
