#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// Layer normalisation over each row, a block per row.
//
// Legend: N rows, C columns; `x, y, dy, dx: [N, C]`, `weight, bias: [C]`, `statistics: [N, 2]`, each row's
// mean and reciprocal standard deviation. Sums along a row are in an order that depends on C alone.

// Added to the variance, as in GPT-2.
static const float LAYER_NORM_EPSILON = 1e-5f;

struct RowStatistics {
    float mean, scale;
};

// All threads of a block get the statistics of its row. In two passes, since a sum of squares less the square
// of the mean would cancel.
DEVICE RowStatistics row_statistics(const element* __restrict__ x, u32 width) {
    float sum = 0.0f;
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        sum += widened(x[column]);
    }
    float mean = block_sum(sum) / (float)width;
    float squares = 0.0f;
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        float distance = widened(x[column]) - mean;
        squares += distance * distance;
    }
    float variance = block_sum(squares) / (float)width;
    return {mean, 1.0f / sqrtf(variance + LAYER_NORM_EPSILON)};
}

DEVICE void keep_statistics(RowStatistics row, float* __restrict__ statistics) {
    if (threadIdx.x == 0) {
        statistics[2 * (u64)blockIdx.x] = row.mean;
        statistics[2 * (u64)blockIdx.x + 1] = row.scale;
    }
}

DEVICE RowStatistics kept_statistics(const float* __restrict__ statistics, u64 row) {
    return {statistics[2 * row], statistics[2 * row + 1]};
}

DEVICE void normalise_row(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    RowStatistics row,
    element* __restrict__ y,
    u32 width
) {
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        float n = (widened(x[column]) - row.mean) * row.scale;
        y[column] = narrowed(n * widened(weight[column]) + widened(bias[column]));
    }
}

// `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`; keeps the statistics.
extern "C" __global__ void __launch_bounds__(256) layer_norm(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    element* __restrict__ y,
    float* __restrict__ statistics,
    u32 width
) {
    u64 start = (u64)blockIdx.x * width;
    RowStatistics row = row_statistics(x + start, width);
    keep_statistics(row, statistics);
    normalise_row(x + start, weight, bias, row, y + start, width);
}

// The statistics alone, the same bits as `layer_norm` keeps.
extern "C" __global__ void __launch_bounds__(256)
layer_norm_statistics(const element* __restrict__ x, float* __restrict__ statistics, u32 width) {
    keep_statistics(row_statistics(x + (u64)blockIdx.x * width, width), statistics);
}

// `y` once more, from the statistics that were kept: the same bits.
extern "C" __global__ void __launch_bounds__(256) layer_norm_again(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const element* __restrict__ bias,
    const float* __restrict__ statistics,
    element* __restrict__ y,
    u32 width
) {
    u64 start = (u64)blockIdx.x * width;
    normalise_row(x + start, weight, bias, kept_statistics(statistics, blockIdx.x), y + start, width);
}

// `dx = scale * (g - mean(g) - n * mean(g * n))` with `g = dy * weight` and `n` the normalised row.
extern "C" __global__ void __launch_bounds__(256) layer_norm_backward_input(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const float* __restrict__ statistics,
    const element* __restrict__ dy,
    float* __restrict__ dx,
    u32 width,
    int add
) {
    RowStatistics row = kept_statistics(statistics, blockIdx.x);
    u64 start = (u64)blockIdx.x * width;
    float sum_g = 0.0f;
    float sum_gn = 0.0f;
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        float g = widened(dy[start + column]) * widened(weight[column]);
        sum_g += g;
        sum_gn += g * (widened(x[start + column]) - row.mean);
    }
    float mean_g = block_sum(sum_g) / (float)width;
    float mean_gn = block_sum(sum_gn) * row.scale / (float)width;
    for (u32 column = threadIdx.x; column < width; column += BLOCK_SIZE) {
        float g = widened(dy[start + column]) * widened(weight[column]);
        float n = (widened(x[start + column]) - row.mean) * row.scale;
        float value = row.scale * (g - mean_g - n * mean_gn);
        dx[start + column] = written(dx[start + column], value, add);
    }
}

// The sum over rows of `dy * n` for `dweight`, and that of `dy` for `dbias`: see `column_total`.
extern "C" __global__ void __launch_bounds__(256) layer_norm_backward_weight(
    const element* __restrict__ x,
    const float* __restrict__ statistics,
    const element* __restrict__ dy,
    float* __restrict__ dweight,
    float* __restrict__ dbias,
    u64 num_rows,
    u32 width,
    int add
) {
    u32 column = column_of_thread();
    float weight_sum = 0.0f;
    float bias_sum = 0.0f;
    if (column < width) {
#pragma unroll 4
        for (u64 row = row_group_of_thread(); row < num_rows; row += NUM_ROW_GROUPS) {
            RowStatistics of_row = kept_statistics(statistics, row);
            float gradient = widened(dy[row * width + column]);
            float n = (widened(x[row * width + column]) - of_row.mean) * of_row.scale;
            weight_sum += gradient * n;
            bias_sum += gradient;
        }
    }
    weight_sum = column_total(weight_sum);
    bias_sum = column_total(bias_sum);
    if (row_group_of_thread() == 0 && column < width) {
        dweight[column] = written(dweight[column], weight_sum, add);
        dbias[column] = written(dbias[column], bias_sum, add);
    }
}
