#ifndef __CUDACC_RTC__
#include "column_sums.cuh"
#include "common.cuh"
#include "element.cuh"
#include "heads.cuh"
#include "norm.cuh"
#include "wide.cuh"
#endif

// RMS norms of each head of queries and keys, a warp per head of a token: see heads.cuh for where they lie and
// norm.cuh for norms. `query_weight, key_weight: [D]` are for all heads of queries and for all of keys.

// The weight of a token's head of this number; none of values.
DEVICE const element* weight_of_head(
    const element* query_weight, const element* key_weight, const AttentionSizes& sizes, u32 head
) {
    if (head < sizes.num_heads) {
        return query_weight;
    }
    return head < sizes.num_heads + sizes.num_kv_heads ? key_weight : nullptr;
}

template <bool WIDE>
DEVICE void copy_row(const element* from, element* to, u32 width) {
    for (u32 first = first_column_of_lane(); first < width; first += WARP_COLUMNS) {
        u32 num = num_from(first, width);
        store<WIDE>(to + first, load<WIDE, NUM_PACK_ELEMENTS>(from + first, num), num);
    }
}

template <bool WIDE>
DEVICE void norm_head(const element* x, const element* weight, element* y, u32 width, float epsilon) {
    if (weight == nullptr) {
        copy_row<WIDE>(x, y, width);
    } else {
        RowStatistics of_head = row_statistics<WIDE>(x, width, epsilon, 0);
        normalise_row<WIDE>(x, weight, nullptr, of_head, y, width, 0);
    }
}

// `y = x / sqrt(mean(x^2) + epsilon) * weight` for every head of queries and keys; values are copied.
extern "C" __global__ void __launch_bounds__(256) head_norm(
    const element* __restrict__ x,
    const element* __restrict__ query_weight,
    const element* __restrict__ key_weight,
    element* __restrict__ y,
    AttentionSizes sizes,
    u64 num_rows,
    float epsilon
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u32 width = sizes.head_size;
    u64 start = row * width;
    const element* weight = weight_of_head(query_weight, key_weight, sizes, row % num_qkv_heads(sizes));
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, query_weight, key_weight, y)) {
        norm_head<true>(x + start, weight, y + start, width, epsilon);
    } else {
        norm_head<false>(x + start, weight, y + start, width, epsilon);
    }
}

// A head becomes its gradient `scale * (g - n * mean(g * n))` with `g = dy * weight` and `n` the normalised
// head. Each lane reads and writes the same packs, so none is written before it was read.
template <bool WIDE>
DEVICE void head_backward(element* x, const element* weight, const element* dy, u32 width, float epsilon) {
    float scale = row_scale<WIDE>(x, 0.0f, width, epsilon);
    float sum_gx = 0.0f;
    for (u32 first = first_column_of_lane(); first < width; first += WARP_COLUMNS) {
        u32 num = num_from(first, width);
        auto gradient = widened(load<WIDE, NUM_PACK_ELEMENTS>(dy + first, num));
        auto factor = widened(load<WIDE, NUM_PACK_ELEMENTS>(weight + first, num));
        auto values = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + first, num));
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            sum_gx += gradient.at[index] * factor.at[index] * values.at[index];
        }
    }
    float mean_gn = warp_sum(sum_gx) * scale / (float)width;
    for (u32 first = first_column_of_lane(); first < width; first += WARP_COLUMNS) {
        u32 num = num_from(first, width);
        auto gradient = widened(load<WIDE, NUM_PACK_ELEMENTS>(dy + first, num));
        auto factor = widened(load<WIDE, NUM_PACK_ELEMENTS>(weight + first, num));
        auto values = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + first, num));
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            float g = gradient.at[index] * factor.at[index];
            values.at[index] = scale * (g - values.at[index] * scale * mean_gn);
        }
        store<WIDE>(x + first, narrowed(values), num);
    }
}

template <bool WIDE>
DEVICE void head_or_value_backward(
    element* x, const element* weight, const element* dy, u32 width, float epsilon
) {
    if (weight == nullptr) {
        copy_row<WIDE>(dy, x, width);
    } else {
        head_backward<WIDE>(x, weight, dy, width, epsilon);
    }
}

// `x` becomes its gradient, given that of `y`; that of values is copied.
extern "C" __global__ void __launch_bounds__(256) head_norm_backward_input(
    element* x,
    const element* __restrict__ query_weight,
    const element* __restrict__ key_weight,
    const element* __restrict__ dy,
    AttentionSizes sizes,
    u64 num_rows,
    float epsilon
) {
    u64 row = row_of_warp();
    if (row >= num_rows) {
        return;
    }
    u32 width = sizes.head_size;
    u64 start = row * width;
    const element* weight = weight_of_head(query_weight, key_weight, sizes, row % num_qkv_heads(sizes));
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, query_weight, key_weight, dy)) {
        head_or_value_backward<true>(x + start, weight, dy + start, width, epsilon);
    } else {
        head_or_value_backward<false>(x + start, weight, dy + start, width, epsilon);
    }
}

static_assert(NUM_BLOCK_PACKS == 2, "two neighbouring lanes have the same row");

// The scale of a head that two neighbouring lanes share: each adds up every second of its packs. All lanes of
// the warp must call it, with a width of 0 where there is no such head: the scale is 0 then.
template <bool WIDE>
DEVICE float shared_scale(const element* x, u32 width, float epsilon) {
    float squares = 0.0f;
    u32 first = threadIdx.x % NUM_BLOCK_PACKS * NUM_PACK_ELEMENTS;
#pragma unroll 4
    for (; first < width; first += NUM_BLOCK_COLUMNS) {
        auto values = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + first, num_from(first, width)));
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            squares += values.at[index] * values.at[index];
        }
    }
    squares += __shfl_xor_sync(WHOLE_WARP, squares, 1);
    return width == 0 ? 0.0f : 1.0f / sqrtf(squares / (float)width + epsilon);
}

// What a group of threads adds up, for the columns of its thread's pack: over its tokens, and of each over
// `num_heads` heads.
template <bool WIDE>
DEVICE Pack<float, NUM_PACK_ELEMENTS> head_sums_of_group(
    const element* x, const element* dy, u32 num_heads, u64 token_width, u64 num_tokens, u32 width,
    float epsilon
) {
    Pack<float, NUM_PACK_ELEMENTS> sums = {};
    u32 first = first_column_of_thread();
    // All threads of a warp take as many turns.
    for (u64 turn = 0; turn < num_tokens; turn += NUM_ROW_GROUPS) {
        u64 token = turn + row_group_of_thread();
        // Tokens that there are not are zeros, which change no bit.
        u32 width_there = token < num_tokens ? width : 0;
        for (u32 head = 0; head < num_heads; head++) {
            u64 start = token * token_width + head * width;
            float scale = shared_scale<WIDE>(x + start, width_there, epsilon);
            u32 num = num_from(first, width_there);
            auto values = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + start + first, num));
            auto gradients = widened(load<WIDE, NUM_PACK_ELEMENTS>(dy + start + first, num));
#pragma unroll
            for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
                sums.at[index] += gradients.at[index] * (values.at[index] * scale);
            }
        }
    }
    return sums;
}

// The sum over tokens and heads of `dy` times the normalised head, for the weight of heads of queries or of
// those of keys: `num_heads` heads of each token, whose rows are `[H + 2 G, D]`, from where `x` and `dy`
// point. See `column_totals`: groups of threads have tokens for rows.
extern "C" __global__ void __launch_bounds__(256, 2) head_norm_backward_weight(
    const element* __restrict__ x,
    const element* __restrict__ dy,
    float* __restrict__ dweight,
    AttentionSizes sizes,
    u32 num_heads,
    u64 num_tokens,
    float epsilon,
    int add
) {
    u32 width = sizes.head_size;
    u64 token_width = num_qkv_heads(sizes) * width;
    bool is_wide = are_rows_wide<NUM_PACK_ELEMENTS>(width, x, dy);
    auto sums = is_wide
        ? head_sums_of_group<true>(x, dy, num_heads, token_width, num_tokens, width, epsilon)
        : head_sums_of_group<false>(x, dy, num_heads, token_width, num_tokens, width, epsilon);
    float total = column_totals(sums);
    if (has_total(width)) {
        dweight[column_of_total()] = written(dweight[column_of_total()], total, add);
    }
}
