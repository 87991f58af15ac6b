// Virtual times, where FAKE_GPU_TIMES names a file: each operation lasts as long as its size says, begins when the one before it on its stream,
// the events that its stream has waited for and what the host had waited for have ended, and is written down, with waits for events. So the times
// follow from what waits for what alone, in whatever order operations run here. Calls of the host take no time.
//
// FAKE_GPU_EARLY_WAIT is a fault: for the message of this number that device 0 asks for since times have begun, the stream waits at once that asked for it.
//
// Times begin at 0 when an operation is asked for while the file is not there: who removes it between two steps gets the second from 0.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "settings.h"

namespace fake_gpu {

// A kernel lasts so long for each of its blocks.
inline const uint64_t BLOCK_NS = 1000;
// A copy within a device counts as a block for each so many bytes.
inline const uint64_t BLOCK_BYTES = 4096;
// A product lasts so long, and as long again for each so many multiplications.
inline const uint64_t PRODUCT_NS = 1000, PRODUCT_SIZE = 4096;
// An operation of NCCL lasts so long, and as long again for each so many bytes that a member gets.
inline const uint64_t LINK_NS = 1000, LINK_BYTES = setting("FAKE_GPU_LINK_BYTES", 256);

struct Times {
    const char* const path = getenv("FAKE_GPU_TIMES");
    FILE* file = nullptr;
    // How often times have begun anew, and messages of device 0 since then.
    uint64_t round = 0, num_messages = 0;
};

inline Times& times() {
    static Times* times = new Times;
    return *times;
}

inline bool are_times_virtual() { return times().path != nullptr; }

// Whether times begin anew here.
inline bool begin_times() {
    if (!are_times_virtual() || (times().file && access(times().path, F_OK) == 0)) {
        return false;
    }
    if (times().file) {
        fclose(times().file);
    }
    times().file = fopen(times().path, "w");
    if (!times().file) {
        stop("FAKE_GPU_TIMES: %s cannot be written", times().path);
    }
    times().round++;
    times().num_messages = 0;
    return true;
}

// Whether a message of a device that is asked for now is the one for which a stream waits too early.
inline bool is_early(int device) {
    static const uint64_t early = setting("FAKE_GPU_EARLY_WAIT", 0);
    return are_times_virtual() && device == 0 && ++times().num_messages == early;
}

// When a thread of the host had waited for all that it has waited for.
struct HostTime {
    uint64_t round = 0, ns = 0;
};

inline uint64_t& host_ns() {
    thread_local HostTime time;
    if (time.round != times().round) {
        time = {times().round, 0};
    }
    return time.ns;
}

inline void host_waited_until(uint64_t ns) { host_ns() = std::max(host_ns(), ns); }

// An operation of a stream, or a wait, has these times.
inline void write_times(int device, unsigned stream, uint64_t start_ns, uint64_t end_ns, const char* what) {
    if (are_times_virtual()) {
        fprintf(times().file, "%d %u %llu %llu %s\n", device, stream, (unsigned long long)start_ns,
                (unsigned long long)end_ns, what);
        fflush(times().file);
    }
}

}
