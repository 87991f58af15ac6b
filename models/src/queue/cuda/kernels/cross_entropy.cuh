#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// What the kernels of cross-entropy have in common.
#ifndef PIPEZERO_CROSS_ENTROPY
#define PIPEZERO_CROSS_ENTROPY

static const u32 IGNORED_TARGET = 0xffffffffu;
static const u32 NUM_STATISTICS = 3;

// Whether the target is one of these columns; its place is `target - first_token`.
DEVICE bool has_target(u32 target, u32 first_token, u32 num_columns) {
    return target != IGNORED_TARGET && target >= first_token && target - first_token < num_columns;
}

#endif
