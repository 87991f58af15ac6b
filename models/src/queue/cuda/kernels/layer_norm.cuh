#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// Layer normalisation over each row, a warp per row: rows are short, and a warp needs no barrier to add up.
//
// Legend: N rows, C columns; `x, y, dy, dx: [N, C]`, `weight, bias: [C]`, `statistics: [N, 2]`, each row's
// mean and reciprocal standard deviation; a function of one row is given where that row's parts begin. Along
// a row, each lane adds up its packs in order, and then the lanes are added as a tree: an order that depends
// on C alone. `WIDE` says whether packs are read and written as one.
#ifndef PIPEZERO_LAYER_NORM
#define PIPEZERO_LAYER_NORM

// Columns from a lane's pack to its next one.
static const u32 WARP_COLUMNS = WARP_SIZE * NUM_PACK_ELEMENTS;

typedef Pack<element, NUM_PACK_ELEMENTS> ElementPack;

struct RowStatistics {
    float mean, scale;
};

DEVICE u64 row_of_warp() {
    return (u64)blockIdx.x * WARPS_PER_BLOCK + warp_index();
}

// The first column of a lane's first pack.
DEVICE u32 first_column_of_lane() {
    return lane_index() * NUM_PACK_ELEMENTS;
}

// A lane's next packs of a row, which are read together.
template <bool WIDE, u32 READS>
DEVICE void load_lane_packs(
    ElementPack (&packs)[READS],
    const element* __restrict__ row,
    u32 first,
    u32 width
) {
#pragma unroll
    for (u32 read = 0; read < READS; read++) {
        u32 column = first + read * WARP_COLUMNS;
        packs[read] = load<WIDE, NUM_PACK_ELEMENTS>(row + column, num_from(column, width));
    }
}

DEVICE RowStatistics kept_statistics(const float* __restrict__ statistics, u64 row_index) {
    return {statistics[2 * row_index], statistics[2 * row_index + 1]};
}

#endif
