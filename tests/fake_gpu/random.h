// Numbers that decide in which order things are done, the same for the same seed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fake_gpu {

// Marsaglia's xorshift of 64 bits (Journal of Statistical Software 8, 2003).
struct Random {
    uint64_t state = 88172645463325252u;

    void set_seed(uint64_t seed) {
        state = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
        for (int index = 0; index < 8; index++) {
            next();
        }
    }

    uint64_t next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    }

    // Below a limit of less than 2^32.
    size_t below(size_t limit) { return (next() >> 32) * limit >> 32; }
};

}
