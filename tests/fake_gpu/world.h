// What all of the driver shares: results, the devices, and the lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "host.h"
#include "random.h"
#include "settings.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace fake_gpu {

// CUresult, as cuda.h of CUDA 13 numbers it.
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_TIMEOUT = 702,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    UNKNOWN = 999,
};

struct World {
    // Held by every call, and while an operation runs; not while a function of the host runs.
    std::mutex mutex;
    // Told when something was put on a stream or has run.
    std::condition_variable changed;
    Random random;
    std::atomic<bool> is_initialized = false;
    std::atomic<uint64_t> num_calls = 0, fail_at = 0;
    // The host's numbers of them.
    const std::vector<int> devices = visible_devices();
    const int num_devices = int(devices.size());
    const uint64_t memory_bytes = setting("FAKE_GPU_MEMORY_BYTES", uint64_t(8) << 30);

    World() {
        random.set_seed(setting("FAKE_GPU_SEED", 1));
        fail_at = setting("FAKE_GPU_FAIL_AT", 0);
    }
};

// Never destroyed: threads may still call while the process ends.
inline World& world() {
    static World* world = new World;
    return *world;
}

// A context is a device's primary one: there are no others.
struct Context {
    int device;
};

inline thread_local Context* current_context = nullptr;
inline thread_local bool is_in_host_function = false;

inline Context* context_of(int device) {
    static Context* contexts = [] {
        auto* contexts = new Context[size_t(world().num_devices)];
        for (int device = 0; device < world().num_devices; device++) {
            contexts[device].device = device;
        }
        return contexts;
    }();
    return &contexts[device];
}

inline bool is_chosen_to_fail() {
    return ++world().num_calls == world().fail_at;
}

enum class Needs { Nothing, Driver, Context };

// What every call begins with: whether it may be made here and now. The lock is not held.
inline Result begin(Needs needs) {
    if (is_chosen_to_fail()) {
        return UNKNOWN;
    }
    if (is_in_host_function) {
        return NOT_PERMITTED;
    }
    if (needs != Needs::Nothing && !world().is_initialized) {
        return NOT_INITIALIZED;
    }
    return needs == Needs::Context && !current_context ? INVALID_CONTEXT : SUCCESS;
}

using Lock = std::unique_lock<std::mutex>;

inline Lock lock_world() { return Lock(world().mutex); }

}
