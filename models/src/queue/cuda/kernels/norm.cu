#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "norm.cuh"
#include "wide.cuh"
#endif

// Norms of rows: see `norm.cuh` for names.

DEVICE void keep_statistics(RowStatistics row, float* __restrict__ statistics, u64 row_index) {
    if (lane_index() == 0) {
        statistics[2 * row_index] = row.mean;
        statistics[2 * row_index + 1] = row.scale;
    }
}

// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`; keeps the statistics.
extern "C" __global__ void __launch_bounds__(256) norm_forward(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    element* __restrict__ y,
    float* __restrict__ statistics,
    u64 num_rows,
    u32 width,
    float epsilon,
    int has_mean
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u64 start = row * width;
    u32 num_biases = has_mean ? width : 0;
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, weight, bias, y)) {
        RowStatistics of_row = row_statistics<true>(x + start, width, epsilon, has_mean);
        keep_statistics(of_row, statistics, row);
        normalise_row<true>(x + start, weight, bias, of_row, y + start, width, num_biases);
    } else {
        RowStatistics of_row = row_statistics<false>(x + start, width, epsilon, has_mean);
        keep_statistics(of_row, statistics, row);
        normalise_row<false>(x + start, weight, bias, of_row, y + start, width, num_biases);
    }
}

// The statistics alone, the same bits as `norm_forward` keeps.
extern "C" __global__ void __launch_bounds__(256) norm_statistics(
    const element* __restrict__ x,
    float* __restrict__ statistics,
    u64 num_rows,
    u32 width,
    float epsilon,
    int has_mean
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    const element* start = x + row * width;
    bool is_wide = are_rows_wide<NUM_PACK_ELEMENTS>(width, x);
    RowStatistics of_row = is_wide ? row_statistics<true>(start, width, epsilon, has_mean)
                                   : row_statistics<false>(start, width, epsilon, has_mean);
    keep_statistics(of_row, statistics, row);
}

// `y` once more, from the statistics that were kept: the same bits.
extern "C" __global__ void __launch_bounds__(256) norm_again(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    const float* __restrict__ statistics,
    element* __restrict__ y,
    u64 num_rows,
    u32 width,
    int has_mean
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u64 start = row * width;
    u32 num_biases = has_mean ? width : 0;
    RowStatistics of_row = kept_statistics(statistics, row);
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, weight, bias, y)) {
        normalise_row<true>(x + start, weight, bias, of_row, y + start, width, num_biases);
    } else {
        normalise_row<false>(x + start, weight, bias, of_row, y + start, width, num_biases);
    }
}
