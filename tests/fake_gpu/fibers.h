// The threads of a block as fibers on one thread of the host, in an order that a seed draws.
//
// A fiber goes on until it reaches a barrier, sometimes until an atomic operation. Warps have random
// priorities, drawn anew now and then (Burckhardt and others, ASPLOS 2010): one warp runs as far ahead of the
// others as barriers let it, which finds missing barriers that a fair order hides. Lanes of a warp take turns
// at random.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "random.h"
#include "switch_fiber.h"

namespace fake_gpu {

struct Index3 {
    unsigned x, y, z;

    size_t count() const { return size_t(x) * y * z; }
};

inline const unsigned LANES = 32;
inline const size_t STACK_BYTES = 32 * 1024;
// Stacks are not a power of two apart: their ends, which are what is used, would share few lines of the
// cache.
inline const size_t STACK_DISTANCE = STACK_BYTES + 576;
inline const unsigned NUM_THREADS_MAX = 1024;
inline const uint64_t END_OF_STACK = 0x5ca1ab1e0ddba115;

// A place in a kernel's source.
struct Site {
    const char* file = "";
    int line = 0;
};

// A copy to shared memory that goes on while its thread does.
struct Copy {
    void* to;
    const void* from;
    size_t num_bytes;
    // What is copied; the rest is filled with zeros.
    size_t num_copied;
};

// The copies of a thread that have not arrived.
struct Copies {
    // Those of no group yet, and the groups, oldest first.
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
};

enum class FiberState { Ready, AtBlockBarrier, AtWarpBarrier, Ended };

struct Fiber {
    void* stack_pointer = nullptr;
    char* stack = nullptr;
    Index3 thread{};
    unsigned number = 0;
    FiberState state = FiberState::Ended;
    // Where it waits.
    Site site;
    // For which lanes it waits at a warp's barrier.
    unsigned mask = 0;
    Copies copies;
};

struct Warp {
    std::vector<unsigned> ready;
    // Lanes that there are, those that have not ended, and those that wait at a warp's barrier.
    unsigned existing = 0, live = 0, waiting = 0;
};

// The block that is running. There is one at a time in the whole process.
struct Block {
    const char* kernel = "";
    Index3 grid{}, size{}, index{};
    void (*body)(void*) = nullptr;
    void* arguments = nullptr;
    Random random;
    std::unique_ptr<char[]> stacks;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<unsigned> priorities;
    unsigned num_threads = 0, num_ended = 0;
    Fiber* current = nullptr;
    void* scheduler_stack_pointer = nullptr;
    // What lanes hand each other: before a warp's barrier, and after it, where it stays until all are at
    // their next.
    uint64_t given[NUM_THREADS_MAX], received[NUM_THREADS_MAX];
};

inline Block block;

[[noreturn]] inline void stop_kernel(const char* reason, Site site) {
    fprintf(stderr, "fake GPU: kernel `%s`, block (%u, %u, %u): %s, at %s:%d\n", block.kernel, block.index.x,
            block.index.y, block.index.z, reason, site.file, site.line);
    abort();
}

// Gives the turn to the scheduler.
inline void stop_fiber(FiberState state) {
    block.current->state = state;
    fake_gpu_switch_fiber(&block.current->stack_pointer, block.scheduler_stack_pointer);
}

inline void wait_for_block(Site site) {
    block.current->site = site;
    stop_fiber(FiberState::AtBlockBarrier);
}

inline void wait_for_lanes(unsigned mask, Site site) {
    if (!(mask >> block.current->number % LANES & 1)) {
        stop_kernel("a lane is not in the mask that it waits with", site);
    }
    block.current->site = site;
    block.current->mask = mask;
    stop_fiber(FiberState::AtWarpBarrier);
}

inline void run_fiber() {
    block.body(block.arguments);
    stop_fiber(FiberState::Ended);
    abort();
}

inline void start_fiber(unsigned number) {
    Fiber& fiber = block.fibers[number];
    memcpy(fiber.stack, &END_OF_STACK, sizeof END_OF_STACK);
    fiber.number = number;
    fiber.thread = {number % block.size.x, number / block.size.x % block.size.y,
                    number / (block.size.x * block.size.y)};
    fiber.state = FiberState::Ready;
    fiber.copies.open.clear();
    fiber.copies.groups.clear();
    auto end = (uintptr_t)(fiber.stack + STACK_BYTES) & ~uintptr_t(15);
    // As a call leaves it: no return address, then what the switch returns to, and six registers.
    void** top = (void**)end;
    *--top = nullptr;
    *--top = (void*)run_fiber;
    for (int index = 0; index < 6; index++) {
        *--top = nullptr;
    }
    fiber.stack_pointer = top;
}

inline void draw_priorities() {
    for (size_t left = block.priorities.size(); left > 1; left--) {
        std::swap(block.priorities[left - 1], block.priorities[block.random.below(left)]);
    }
}

inline void start_block() {
    unsigned num_warps = (block.num_threads + LANES - 1) / LANES;
    if (block.fibers.empty()) {
        // Below the first there is room too, so that a thread that uses too much stack can be told so.
        block.stacks.reset(new char[(1 + NUM_THREADS_MAX) * STACK_DISTANCE]);
        block.fibers.resize(NUM_THREADS_MAX);
        for (unsigned number = 0; number < NUM_THREADS_MAX; number++) {
            block.fibers[number].stack = &block.stacks[(1 + number) * STACK_DISTANCE];
        }
    }
    block.num_ended = 0;
    block.warps.resize(num_warps);
    block.priorities.clear();
    for (unsigned index = 0; index < num_warps; index++) {
        block.warps[index].ready.clear();
        block.warps[index].existing = block.warps[index].live = block.warps[index].waiting = 0;
        block.priorities.push_back(index);
    }
    for (unsigned number = 0; number < block.num_threads; number++) {
        start_fiber(number);
        block.warps[number / LANES].ready.push_back(number);
        block.warps[number / LANES].existing |= 1u << number % LANES;
        block.warps[number / LANES].live |= 1u << number % LANES;
    }
    draw_priorities();
}

// Lets the lanes of `mask` go on if all of them that have not ended wait.
inline void release_lanes(unsigned warp_index, unsigned mask) {
    Warp& warp = block.warps[warp_index];
    unsigned members = mask & warp.existing;
    if (members & ~warp.live) {
        // CUDA lets a lane go on without those that have ended, but what these give to it is undefined.
        unsigned waiting = warp_index * LANES + (unsigned)__builtin_ctz(warp.waiting & mask);
        stop_kernel("a lane waits for lanes that have ended", block.fibers[waiting].site);
    }
    if (members & ~warp.waiting) {
        return;
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (members >> lane & 1 && block.fibers[warp_index * LANES + lane].mask != mask) {
            return;
        }
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        if (members >> lane & 1) {
            unsigned number = warp_index * LANES + lane;
            block.received[number] = block.given[number];
            block.fibers[number].state = FiberState::Ready;
            warp.ready.push_back(number);
        }
    }
    warp.waiting &= ~members;
}

// Called when no thread can go on: all must be at the same barrier of the block.
inline void release_block() {
    const Fiber* first = nullptr;
    for (unsigned number = 0; number < block.num_threads; number++) {
        const Fiber& fiber = block.fibers[number];
        if (fiber.state == FiberState::AtWarpBarrier) {
            const char* reason = "lanes of a warp wait for lanes that wait elsewhere or with another mask";
            stop_kernel(reason, fiber.site);
        }
        if (fiber.state == FiberState::AtBlockBarrier && !first) {
            first = &fiber;
        }
    }
    if (block.num_ended != 0) {
        stop_kernel("threads wait at __syncthreads, which others have ended without reaching", first->site);
    }
    for (unsigned number = 0; number < block.num_threads; number++) {
        Site site = block.fibers[number].site;
        if (site.line != first->site.line || strcmp(site.file, first->site.file) != 0) {
            fprintf(stderr, "fake GPU: one barrier is at %s:%d\n", first->site.file, first->site.line);
            stop_kernel("threads of one block wait at different barriers", site);
        }
    }
    for (unsigned number = 0; number < block.num_threads; number++) {
        block.fibers[number].state = FiberState::Ready;
        block.warps[number / LANES].ready.push_back(number);
    }
}

inline void check_stack(const Fiber& fiber) {
    if (memcmp(fiber.stack, &END_OF_STACK, sizeof END_OF_STACK) != 0) {
        stop_kernel("a thread used more than 32 KiB of stack", fiber.site);
    }
}

// CUDA lets a thread end so, but nobody can have read what it copied.
inline void check_copies(const Fiber& fiber) {
    if (!fiber.copies.open.empty()) {
        stop_kernel("a thread ended without waiting for copies, which are of no group", fiber.site);
    }
    for (const auto& group : fiber.copies.groups) {
        if (!group.empty()) {
            stop_kernel("a thread ended without waiting for copies", fiber.site);
        }
    }
}

// A turn of one thread of the warp.
inline void run_lane(unsigned warp_index) {
    Warp& warp = block.warps[warp_index];
    size_t place = block.random.below(warp.ready.size());
    unsigned number = warp.ready[place];
    warp.ready[place] = warp.ready.back();
    warp.ready.pop_back();
    Fiber& fiber = block.fibers[number];
    block.current = &fiber;
    fake_gpu_switch_fiber(&block.scheduler_stack_pointer, fiber.stack_pointer);
    unsigned lane = 1u << number % LANES;
    switch (fiber.state) {
        case FiberState::Ready: warp.ready.push_back(number); break;
        case FiberState::AtBlockBarrier: check_stack(fiber); break;
        case FiberState::AtWarpBarrier:
            warp.waiting |= lane;
            release_lanes(warp_index, fiber.mask);
            break;
        case FiberState::Ended:
            check_stack(fiber);
            check_copies(fiber);
            block.num_ended++;
            warp.live &= ~lane;
            // Others may wait for this lane.
            if (warp.waiting) {
                unsigned waiting = (unsigned)__builtin_ctz(warp.waiting);
                release_lanes(warp_index, block.fibers[warp_index * LANES + waiting].mask);
            }
            break;
    }
}

inline void run_block() {
    start_block();
    while (block.num_ended < block.num_threads) {
        if (block.random.below(4096) == 0) {
            draw_priorities();
        }
        bool has_run = false;
        for (unsigned warp : block.priorities) {
            if (!block.warps[warp].ready.empty()) {
                run_lane(warp);
                has_run = true;
                break;
            }
        }
        if (!has_run) {
            release_block();
        }
    }
}

}
