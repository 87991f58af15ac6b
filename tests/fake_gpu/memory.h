// Memory of devices and page-locked memory of the host. All of it lies in the host's memory.
//
// An allocation is poisoned with 0xFF, a NaN in every type, and with 0xFE once it is freed. Freed memory is
// kept for a while, and memory has margins: whoever wrote there is told when both are looked at again.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <set>

#include "world.h"

namespace fake_gpu {

inline const size_t ALIGNMENT = 256;
inline const size_t MARGIN_BYTES = 256;
inline const size_t KEPT_BYTES_MAX = size_t(32) << 20;
inline const unsigned char UNWRITTEN = 0xff, FREED = 0xfe, MARGIN = 0xfd;

struct Allocation {
    size_t num_bytes;
    int device;
    // Also the host's copies reach it.
    bool is_pinned;
    // The host's own memory, that it has registered.
    bool is_foreign;
};

// All allocations lie in one stretch of addresses, each further on than those before it, so that an address
// says at once what it is of. The host gives pages as they are used, and nothing for addresses alone.
inline const size_t ARENA_BYTES = size_t(1) << 38;

struct Memory {
    // By where they begin.
    std::map<uintptr_t, Allocation> live;
    char* const arena = (char*)reserve(ARENA_BYTES);
    size_t arena_used = 0;
    // Of each `ALIGNMENT` bytes of the arena, how many of the first may be used. Pages begin with zeros.
    uint16_t* const num_usable = (uint16_t*)reserve(ARENA_BYTES / ALIGNMENT * sizeof(uint16_t));
    struct Kept {
        uintptr_t address;
        size_t num_bytes;
    };
    // Freed, oldest first.
    std::deque<Kept> kept;
    size_t kept_bytes = 0;
    // Which device may use the memory of which other.
    std::set<std::pair<int, int>> reached;

    static void* reserve(size_t num_bytes) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* address = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (address == MAP_FAILED) {
            stop("the host has no %zu bytes of addresses", num_bytes);
        }
        return address;
    }
};

// The first address of the arena, in a variable so that the check of each access needs no call.
inline uintptr_t arena_begin = 0;

inline Memory& memory() {
    static Memory* memory = [] {
        auto* memory = new Memory;
        arena_begin = (uintptr_t)memory->arena;
        return memory;
    }();
    return *memory;
}

inline size_t room_for(size_t num_bytes) { return (num_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// The live allocation that these bytes lie in, or null.
inline const Allocation* find_live(const void* address, size_t num_bytes) {
    auto first = (uintptr_t)address;
    auto after = memory().live.upper_bound(first);
    if (after == memory().live.begin()) {
        return nullptr;
    }
    auto& [begin, found] = *std::prev(after);
    size_t offset = first - begin;
    return offset <= found.num_bytes && num_bytes <= found.num_bytes - offset ? &found : nullptr;
}

inline bool is_pinned(const void* address, size_t num_bytes) {
    const Allocation* found = find_live(address, num_bytes);
    return found && found->is_pinned;
}

// Stops the process unless the bytes lie in one live allocation.
inline void require_live(const void* address, size_t num_bytes, const char* what) {
    if (num_bytes == 0 || find_live(address, num_bytes)) {
        return;
    }
    for (const auto& kept : memory().kept) {
        if ((uintptr_t)address >= kept.address && (uintptr_t)address < kept.address + kept.num_bytes) {
            stop("%s: %zu bytes at %p, which are freed", what, num_bytes, address);
        }
    }
    stop("%s: %zu bytes at %p, which are not in one live allocation", what, num_bytes, address);
}

// From now on kernels may use this allocation's bytes, or may no more.
inline void set_usable(const void* address, size_t num_bytes, bool is_usable) {
    uint16_t* of_granules = memory().num_usable + ((const char*)address - memory().arena) / ALIGNMENT;
    for (size_t begin = 0; begin < num_bytes; begin += ALIGNMENT) {
        *of_granules++ = is_usable ? uint16_t(std::min(num_bytes - begin, ALIGNMENT)) : 0;
    }
}

// Gives the whole pages of a stretch of the arena back to the host.
inline void give_back(char* begin, size_t num_bytes) {
    const uintptr_t PAGE = 4096;
    uintptr_t first = ((uintptr_t)begin + PAGE - 1) / PAGE * PAGE;
    uintptr_t end = ((uintptr_t)begin + num_bytes) / PAGE * PAGE;
    if (first < end) {
        madvise((void*)first, end - first, MADV_DONTNEED);
    }
}

inline void check_margins(uintptr_t address, size_t num_bytes) {
    auto* bytes = (unsigned char*)address;
    size_t end = room_for(num_bytes) + MARGIN_BYTES;
    for (size_t index = 1; index <= MARGIN_BYTES; index++) {
        if (bytes[-(ptrdiff_t)index] != MARGIN) {
            stop("something wrote %zu bytes before an allocation of %zu bytes", index, num_bytes);
        }
    }
    for (size_t index = num_bytes; index < end; index++) {
        if (bytes[index] != MARGIN) {
            size_t distance = index - num_bytes;
            stop("something wrote %zu bytes after an allocation of %zu bytes", distance, num_bytes);
        }
    }
}

// Gives memory that was freed back to the host, the oldest first, until no more than a limit is kept.
inline void forget_freed() {
    Memory& all = memory();
    while (all.kept_bytes > KEPT_BYTES_MAX) {
        auto [address, num_bytes] = all.kept.front();
        auto* bytes = (unsigned char*)address;
        for (size_t index = 0; index < num_bytes; index++) {
            if (bytes[index] != FREED) {
                stop("something wrote into an allocation of %zu bytes after it was freed", num_bytes);
            }
        }
        all.kept.pop_front();
        all.kept_bytes -= num_bytes;
        give_back((char*)bytes, num_bytes);
    }
}

// The lock is held.
inline Result allocate(void** address, size_t num_bytes, int device, bool is_pinned) {
    if (!address || num_bytes == 0) {
        return INVALID_VALUE;
    }
    if (!is_pinned && num_bytes > world().memory_bytes) {
        return OUT_OF_MEMORY;
    }
    size_t room = room_for(num_bytes);
    if (ARENA_BYTES - memory().arena_used < room + 2 * MARGIN_BYTES) {
        return OUT_OF_MEMORY;
    }
    // Other processes allocate at the same time.
    int of_host = world().devices[size_t(device)];
    host().own->used_bytes[of_host] += is_pinned ? 0 : room;
    if (!is_pinned && host().used_bytes(of_host) > world().memory_bytes) {
        host().own->used_bytes[of_host] -= room;
        return OUT_OF_MEMORY;
    }
    auto* bytes = (unsigned char*)memory().arena + memory().arena_used;
    memory().arena_used += room + 2 * MARGIN_BYTES;
    memset(bytes, MARGIN, room + 2 * MARGIN_BYTES);
    bytes += MARGIN_BYTES;
    memset(bytes, UNWRITTEN, num_bytes);
    set_usable(bytes, num_bytes, true);
    memory().live[(uintptr_t)bytes] = {num_bytes, device, is_pinned, false};
    *address = bytes;
    return SUCCESS;
}

// Frees at once, whatever streams still have to do with it. The lock is held.
inline Result release(void* address, bool is_pinned) {
    if (!address) {
        return SUCCESS;
    }
    auto found = memory().live.find((uintptr_t)address);
    if (found == memory().live.end() || found->second.is_pinned != is_pinned || found->second.is_foreign) {
        return INVALID_VALUE;
    }
    size_t num_bytes = found->second.num_bytes;
    check_margins(found->first, num_bytes);
    memset(address, FREED, num_bytes);
    set_usable(address, num_bytes, false);
    if (!is_pinned) {
        host().own->used_bytes[world().devices[size_t(found->second.device)]] -= room_for(num_bytes);
    }
    memory().live.erase(found);
    memory().kept.push_back({(uintptr_t)address, num_bytes});
    memory().kept_bytes += num_bytes;
    forget_freed();
    return SUCCESS;
}

}
