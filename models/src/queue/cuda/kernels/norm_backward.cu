#ifndef __CUDACC_RTC__
#include "column_sums.cuh"
#include "common.cuh"
#include "element.cuh"
#include "norm.cuh"
#include "wide.cuh"
#endif

// Gradients of norms: see `norm.cuh` for names.

// The gradient of one row. Elements that there are not are zeros in `dy`, and so in every sum.
template <bool WIDE>
DEVICE void row_backward(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    RowStatistics row,
    const element* __restrict__ dy,
    float* __restrict__ dx,
    u32 width,
    int has_mean,
    int add
) {
    const u32 READS = WIDE ? 2 : 1;
    ElementPack packs[READS], weights[READS], gradients[READS];
    float sum_g = 0.0f;
    float sum_gn = 0.0f;
    for (u32 first = first_column_of_lane(); first < width; first += READS * WARP_COLUMNS) {
        load_lane_packs<WIDE>(gradients, dy, first, width);
        load_lane_packs<WIDE>(packs, x, first, width);
        load_lane_packs<WIDE>(weights, weight, first, width);
#pragma unroll
        for (u32 place = 0; place < READS * NUM_PACK_ELEMENTS; place++) {
            u32 read = place / NUM_PACK_ELEMENTS;
            u32 index = place % NUM_PACK_ELEMENTS;
            float g = widened(gradients[read].at[index]) * widened(weights[read].at[index]);
            sum_g += g;
            sum_gn += g * (widened(packs[read].at[index]) - row.mean);
        }
    }
    float mean_g = has_mean ? warp_sum(sum_g) / (float)width : 0.0f;
    float mean_gn = warp_sum(sum_gn) * row.scale / (float)width;
    for (u32 first = first_column_of_lane(); first < width; first += WARP_COLUMNS) {
        u32 num = width - first;
        ElementPack gradient = load<WIDE, NUM_PACK_ELEMENTS>(dy + first, num);
        ElementPack pack = load<WIDE, NUM_PACK_ELEMENTS>(x + first, num);
        ElementPack scale = load<WIDE, NUM_PACK_ELEMENTS>(weight + first, num);
        // Zeros, where the gradient is not added to.
        u32 num_before = add ? num : 0;
        auto values = load<WIDE, NUM_PACK_ELEMENTS>(dx + first, num_before);
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            float g = widened(gradient.at[index]) * widened(scale.at[index]);
            float n = (widened(pack.at[index]) - row.mean) * row.scale;
            values.at[index] += row.scale * (g - mean_g - n * mean_gn);
        }
        store<WIDE>(dx + first, values, num);
    }
}

// `dx = scale * (g - mean(g) - n * mean(g * n))` with `g = dy * weight` and `n` the normalised row; without
// `mean(g)` for an RMS norm.
extern "C" __global__ void __launch_bounds__(256) norm_backward_input(
    const element* __restrict__ x,
    const element* __restrict__ weight,
    const float* __restrict__ statistics,
    const element* __restrict__ dy,
    float* __restrict__ dx,
    u64 num_rows,
    u32 width,
    int has_mean,
    int add
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u64 start = row * width;
    RowStatistics of_row = kept_statistics(statistics, row);
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, weight, dy, dx)) {
        row_backward<true>(x + start, weight, of_row, dy + start, dx + start, width, has_mean, add);
    } else {
        row_backward<false>(x + start, weight, of_row, dy + start, dx + start, width, has_mean, add);
    }
}

// A group's sums over its rows for `dweight` and for `dbias`.
struct AffineSums {
    Pack<float, NUM_PACK_ELEMENTS> weight, bias;
};

DEVICE void add_row(AffineSums& sums, ElementPack gradients, ElementPack x, RowStatistics row) {
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
        float gradient = widened(gradients.at[index]);
        float n = (widened(x.at[index]) - row.mean) * row.scale;
        sums.weight.at[index] += gradient * n;
        sums.bias.at[index] += gradient;
    }
}

template <bool WIDE>
DEVICE AffineSums affine_sums_of_group(
    const element* __restrict__ x,
    const float* __restrict__ statistics,
    const element* __restrict__ dy,
    u64 num_rows,
    u32 width
) {
    const u32 READS = WIDE ? 4 : 1;
    ElementPack packs[READS], gradients[READS];
    AffineSums sums = {};
    for (u64 first = row_group_of_thread(); first < num_rows; first += READS * NUM_ROW_GROUPS) {
        load_group_rows<WIDE>(gradients, dy, first, num_rows, width);
        load_group_rows<WIDE>(packs, x, first, num_rows, width);
        RowStatistics of_rows[READS];
#pragma unroll
        for (u32 read = 0; read < READS; read++) {
            u64 row = first + read * NUM_ROW_GROUPS;
            of_rows[read] = row < num_rows ? kept_statistics(statistics, row) : RowStatistics{0.0f, 0.0f};
        }
        // Rows that there are not are zeros, which change no bit.
#pragma unroll
        for (u32 read = 0; read < READS; read++) {
            add_row(sums, gradients[read], packs[read], of_rows[read]);
        }
    }
    return sums;
}

// The sum over rows of `dy * n` for `dweight`, and, where there is a bias, that of `dy` for `dbias`: see
// `column_totals`. The bound of two blocks is that of `bias_backward`.
extern "C" __global__ void __launch_bounds__(256, 2) norm_backward_weight(
    const element* __restrict__ x,
    const float* __restrict__ statistics,
    const element* __restrict__ dy,
    float* __restrict__ dweight,
    float* __restrict__ dbias,
    u64 num_rows,
    u32 width,
    int has_mean,
    int add
) {
    bool is_wide = are_rows_wide<NUM_PACK_ELEMENTS>(width, x, dy);
    AffineSums sums = is_wide ? affine_sums_of_group<true>(x, statistics, dy, num_rows, width)
                              : affine_sums_of_group<false>(x, statistics, dy, num_rows, width);
    float weight_total = column_totals(sums.weight);
    u32 column = column_of_total();
    if (has_total(width)) {
        dweight[column] = written(dweight[column], weight_total, add);
    }
    if (has_mean) {
        float bias_total = column_totals(sums.bias);
        if (has_total(width)) {
            dbias[column] = written(dbias[column], bias_total, add);
        }
    }
}
