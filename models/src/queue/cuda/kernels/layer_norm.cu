#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "layer_norm.cuh"
#include "wide.cuh"
#endif

// Layer normalisation: see `layer_norm.cuh` for names.

// Added to the variance, as in GPT-2.
static const float LAYER_NORM_EPSILON = 1e-5f;

// All lanes of a warp get the statistics of its row. In two passes, since a sum of squares less the square of
// the mean would cancel.
template <bool WIDE>
DEVICE RowStatistics row_statistics(const element* __restrict__ x, u32 width) {
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
    float mean = warp_sum(sum) / (float)width;
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
    return {mean, 1.0f / sqrtf(variance + LAYER_NORM_EPSILON)};
}

DEVICE void keep_statistics(RowStatistics row, float* __restrict__ statistics, u64 row_index) {
    if (lane_index() == 0) {
        statistics[2 * row_index] = row.mean;
        statistics[2 * row_index + 1] = row.scale;
    }
}

template <bool WIDE>
DEVICE void normalise_row(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    RowStatistics row,
    element* __restrict__ y,
    u32 width
) {
    const u32 READS = WIDE ? 2 : 1;
    ElementPack packs[READS], weights[READS], biases[READS];
    for (u32 first = first_column_of_lane(); first < width; first += READS * WARP_COLUMNS) {
        load_lane_packs<WIDE>(packs, x, first, width);
        load_lane_packs<WIDE>(weights, weight, first, width);
        load_lane_packs<WIDE>(biases, bias, first, width);
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

// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`; keeps the statistics.
extern "C" __global__ void __launch_bounds__(256) layer_norm(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    element* __restrict__ y,
    float* __restrict__ statistics,
    u64 num_rows,
    u32 width
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u64 start = row * width;
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, weight, bias, y)) {
        RowStatistics of_row = row_statistics<true>(x + start, width);
        keep_statistics(of_row, statistics, row);
        normalise_row<true>(x + start, weight, bias, of_row, y + start, width);
    } else {
        RowStatistics of_row = row_statistics<false>(x + start, width);
        keep_statistics(of_row, statistics, row);
        normalise_row<false>(x + start, weight, bias, of_row, y + start, width);
    }
}

// The statistics alone, the same bits as `layer_norm` keeps.
extern "C" __global__ void __launch_bounds__(256) layer_norm_statistics(
    const element* __restrict__ x,
    float* __restrict__ statistics,
    u64 num_rows,
    u32 width
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    const element* start = x + row * width;
    bool is_wide = are_rows_wide<NUM_PACK_ELEMENTS>(width, x);
    RowStatistics of_row = is_wide ? row_statistics<true>(start, width) : row_statistics<false>(start, width);
    keep_statistics(of_row, statistics, row);
}

// `y` once more, from the statistics that were kept: the same bits.
extern "C" __global__ void __launch_bounds__(256) layer_norm_again(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    const float* __restrict__ statistics,
    element* __restrict__ y,
    u64 num_rows,
    u32 width
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u64 start = row * width;
    RowStatistics of_row = kept_statistics(statistics, row);
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, weight, bias, y)) {
        normalise_row<true>(x + start, weight, bias, of_row, y + start, width);
    } else {
        normalise_row<false>(x + start, weight, bias, of_row, y + start, width);
    }
}
