#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "heads.cuh"
#include "attention.cuh"
#include "warp.cuh"
#include "attention_mma.cuh"
#include "attention_mma_tiles.cuh"
#endif

// The backward of causal attention on tensor cores, for queries: see attention_mma.cuh. They have a pass of
// their own, so that each sum belongs to one warp, which adds in order, and nothing is added atomically.
#if !defined(ELEMENT_F32)

// Rows are queries, tiles are values and keys in turn.
template <u32 WIDTH, u32 SLOTS>
struct AttentionMmaBackwardQueries {
    typedef AttentionMma<WIDTH> Common;
    typedef TileStream<WIDTH, SLOTS> Stream;
    typedef typename Stream::Slots Slots;
    typedef typename Common::OwnRows OwnRows;

    // What the lane knows of its two queries.
    struct Rows {
        // Of scaled scores, to base 2.
        float log_sum_exp[2];
        float dots[2];
    };

    // `out . dout` of each query: the mean of the probabilities' gradients, weighted with these, dropped or
    // not. Kept for the keys.
    DEVICE void dot_rows(
        Rows& rows, const element* out, const OwnRows& douts, float* row_dots, u32 first,
        const HeadPlace& place
    ) {
        OwnRows outs;
        const element* matrix = out + place.first_out;
        Common::load_own(outs, matrix, place.out_stride, first, place.seq_length, place.head_size);
        ATTENTION_UNROLL
        for (u32 half = 0; half < 2; half++) {
            float sum = 0.0f;
            ATTENTION_UNROLL
            for (u32 index = 0; index < 2 * Common::DEPTH_STEPS; index++) {
                u32 pair = outs.lefts[index / 2][index % 2 * 2 + half];
                u32 dpair = douts.lefts[index / 2][index % 2 * 2 + half];
                sum = fmaf(first_of_pair(pair), first_of_pair(dpair), sum);
                sum = fmaf(second_of_pair(pair), second_of_pair(dpair), sum);
            }
            rows.dots[half] = row_sum(sum);
            u32 query = first + lane_row() + 8 * half;
            if (query < place.seq_length && lane_column() == 0) {
                row_dots[place.first_sum + query] = rows.dots[half];
            }
        }
    }

    DEVICE void load_log_sum_exp(Rows& rows, const float* log_sum_exp, u32 first, const HeadPlace& place) {
        ATTENTION_UNROLL
        for (u32 half = 0; half < 2; half++) {
            u32 query = first + lane_row() + 8 * half;
            bool is_inside = query < place.seq_length;
            rows.log_sum_exp[half] = is_inside ? log_sum_exp[place.first_sum + query] * LOG2_E : 0.0f;
        }
    }

    // Scores and their probabilities' gradients become the scores' gradients, but for the scale.
    DEVICE void differentiate(
        StepProducts& scores, const StepProducts& dprobabilities, const Rows& rows, float scale
    ) {
        ATTENTION_UNROLL
        for (u32 index = 0; index < 8; index++) {
            float& score = scores.parts[index / 4][index % 4];
            u32 half = index % 4 / 2;
            float probability = power_of_two(fmaf(score, scale, -rows.log_sum_exp[half]));
            score = probability * (dprobabilities.parts[index / 4][index % 4] - rows.dots[half]);
        }
    }

    DEVICE void backward(
        Slots& slots, const element* qkv, const element* out, const float* log_sum_exp, const element* dout,
        element* dqueries, float* row_dots, const DropoutMasks& masks, const HeadPlace& place
    ) {
        u32 first = place.first_row + warp_index() * MMA_WARP_ROWS;
        u32 size = place.head_size;
        u32 length = place.seq_length;
        const element* key_matrix = qkv + place.first_keys;
        const element* value_matrix = key_matrix + place.kv_width;
        Stream stream = {slots.tiles, value_matrix, key_matrix, place.qkv_stride, length, size};
        u32 num_keys = min(place.first_row + MMA_BLOCK_ROWS, length);
        u32 first_key = first_key_of_block(place) / MMA_TILE_KEYS * MMA_TILE_KEYS;
        stream.first_row = first_key;
        stream.num_tiles = 2 * ((num_keys - first_key + MMA_TILE_KEYS - 1) / MMA_TILE_KEYS);
        stream.begin();
        OwnRows queries, douts;
        Common::load_own(queries, qkv + place.first_queries, place.qkv_stride, first, length, size);
        Common::load_own(douts, dout + place.first_out, place.out_stride, first, length, size);
        Rows rows;
        dot_rows(rows, out, douts, row_dots, first, place);
        load_log_sum_exp(rows, log_sum_exp, first, place);
        typename Common::Sums sums;
        Common::clear(sums);
        u32 starts[2] = {first_key_of_lane(place, first, 0), first_key_of_lane(place, first, 1)};
        u32 last_start = first_key_of_all(place, first);
        for (; first_key < num_keys; first_key += MMA_TILE_KEYS) {
            // Before the products, while fewer registers are in use.
            u32 kept = masks.threshold == 0 ? 0 : kept_keys(masks, place, first, first_key);
            StepProducts dprobabilities[MMA_STEPS];
            Common::dot_products(dprobabilities, douts, stream.next(), 0);
            const typename Stream::Tile& keys = stream.next();
            ATTENTION_UNROLL
            for (u32 step = 0; step < MMA_STEPS; step++) {
                if (masks.threshold != 0) {
                    drop(dprobabilities[step], kept >> 8 * step, masks.scale);
                }
                StepProducts scores[1];
                Common::dot_products(scores, queries, keys, 16 * step);
                if (first_key + 16 * step + 16 > first || first_key + 16 * step < last_start) {
                    hide_keys(scores[0], first, starts, first_key + 16 * step);
                }
                differentiate(scores[0], dprobabilities[step], rows, place.scale * LOG2_E);
                u32 weights[4];
                round_products(weights, scores[0]);
                Common::add_weighted(sums, weights, keys, 16 * step);
            }
        }
        float factors[2] = {place.scale, place.scale};
        Common::put_rows(sums, factors, dqueries + place.first_out, place.out_stride, first, length, size);
    }
};

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_queries_64(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardQueries<64, 4> Queries;
    __shared__ Queries::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, nullptr, MMA_BLOCK_ROWS));
    Queries::backward(slots, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_queries_128(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardQueries<128, 3> Queries;
    __shared__ Queries::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, nullptr, MMA_BLOCK_ROWS));
    Queries::backward(slots, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_queries_64_documents(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardQueries<64, 4> Queries;
    __shared__ Queries::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, document_starts, MMA_BLOCK_ROWS));
    Queries::backward(slots, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_queries_128_documents(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardQueries<128, 3> Queries;
    __shared__ Queries::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, document_starts, MMA_BLOCK_ROWS));
    Queries::backward(slots, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place);
}

#endif
