#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// Norms of each row, a warp per row: rows are short, and a warp needs no barrier to add up. A layer norm is
// around the row's mean and has a bias; an RMS norm is around zero and has none. Kernels are told by
// `has_mean`.
//
// Legend: N rows, C columns; `x, y, dy, dx: [N, C]`, `weight, bias: [C]`, `statistics: [N, 2]`, each row's
// mean and reciprocal standard deviation; a function of one row is given where that row's parts begin. Along
// a row, each lane adds up its packs in order, and then the lanes are added as a tree: an order that depends
// on C alone. `WIDE` says whether packs are read and written as one.
#ifndef PIPEZERO_NORM
#define PIPEZERO_NORM

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

// All lanes of a warp get the mean of its row.
template <bool WIDE>
DEVICE float row_mean(const element* x, u32 width) {
    const u32 READS = WIDE ? 4 : 1;
    ElementPack packs[READS];
    float sum = 0.0f;
    for (u32 first = first_column_of_lane(); first < width; first += READS * WARP_COLUMNS) {
        load_lane_packs<WIDE>(packs, x, first, width);
#pragma unroll
        for (u32 place = 0; place < READS * NUM_PACK_ELEMENTS; place++) {
            sum += widened(packs[place / NUM_PACK_ELEMENTS].at[place % NUM_PACK_ELEMENTS]);
        }
    }
    return warp_sum(sum) / (float)width;
}

// What the elements of the warp's row are multiplied by, once the mean is taken off: the reciprocal of their
// deviation from it. In a pass of its own, since a sum of squares less the square of the mean would cancel.
template <bool WIDE>
DEVICE float row_scale(const element* x, float mean, u32 width, float epsilon) {
    const u32 READS = WIDE ? 4 : 1;
    ElementPack packs[READS];
    float squares = 0.0f;
    for (u32 first = first_column_of_lane(); first < width; first += READS * WARP_COLUMNS) {
        load_lane_packs<WIDE>(packs, x, first, width);
#pragma unroll
        for (u32 place = 0; place < READS * NUM_PACK_ELEMENTS; place++) {
            u32 num = num_from(first + place / NUM_PACK_ELEMENTS * WARP_COLUMNS, width);
            u32 index = place % NUM_PACK_ELEMENTS;
            float distance = widened(packs[place / NUM_PACK_ELEMENTS].at[index]) - mean;
            squares += is_there<WIDE>(index, num) ? distance * distance : 0.0f;
        }
    }
    float variance = warp_sum(squares) / (float)width;
    return 1.0f / sqrtf(variance + epsilon);
}

template <bool WIDE>
DEVICE RowStatistics row_statistics(const element* x, u32 width, float epsilon, int has_mean) {
    float mean = has_mean ? row_mean<WIDE>(x, width) : 0.0f;
    return {mean, row_scale<WIDE>(x, mean, width, epsilon)};
}

// There are as many biases as the row has columns, or none.
template <bool WIDE>
DEVICE void normalise_row(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    RowStatistics row,
    element* __restrict__ y,
    u32 width,
    u32 num_biases
) {
    const u32 READS = WIDE ? 2 : 1;
    ElementPack packs[READS], weights[READS], biases[READS];
    for (u32 first = first_column_of_lane(); first < width; first += READS * WARP_COLUMNS) {
        load_lane_packs<WIDE>(packs, x, first, width);
        load_lane_packs<WIDE>(weights, weight, first, width);
        load_lane_packs<WIDE>(biases, bias, first, num_biases);
#pragma unroll
        for (u32 read = 0; read < READS; read++) {
#pragma unroll
            for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
                float n = (widened(packs[read].at[index]) - row.mean) * row.scale;
                float scaled = n * widened(weights[read].at[index]);
                packs[read].at[index] = narrowed(scaled + widened(biases[read].at[index]));
            }
            u32 column = first + read * WARP_COLUMNS;
            store<WIDE>(y + column, packs[read], num_from(column, width));
        }
    }
}

#endif
