#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "heads.cuh"
#include "attention.cuh"
#endif

// The forward of causal attention: see attention.cuh.

template <u32 SLICES, u32 WARPS, u32 ROWS>
struct AttentionForward {
    typedef Attention<SLICES, WARPS, ROWS> Common;

    // The softmax of each of the warp's queries over the keys that were seen.
    struct Softmax {
        // The largest score, not yet scaled.
        float max[ROWS];
        // The exponentials of the lane's keys.
        float sum[ROWS];
    };

    // What a block shares: its kernel declares it.
    struct Shared {
        typename Common::OwnRows queries[WARPS];
        typename Common::Weights weights[WARPS];
        typename Common::Tile tile;
    };

    // Goes on with the softmax by the lane's key: scores become exponentials, and what was summed before is
    // multiplied by what the new largest score makes of it (Milakov and Gimelshein, arXiv:1805.02867).
    DEVICE void go_on(
        Softmax& softmax, typename Common::Sums& sums, float* scores, u32 first_query, const u32* starts,
        u32 key, float scale
    ) {
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            bool is_visible = key <= first_query + row && key >= starts[row];
            // Finite as long as none was seen, so that its difference to itself is zero.
            float max = fmaxf(softmax.max[row], warp_max(is_visible ? scores[row] : negative_infinity()));
            float shrink = expf((softmax.max[row] - max) * scale);
            scores[row] = is_visible ? expf((scores[row] - max) * scale) : 0.0f;
            softmax.sum[row] = softmax.sum[row] * shrink + scores[row];
            softmax.max[row] = max;
            ATTENTION_UNROLL
            for (u32 slice = 0; slice < SLICES; slice++) {
                sums.values[row][slice] *= shrink;
            }
        }
    }

    DEVICE void forward(
        Shared& shared, const element* qkv, element* out, float* log_sum_exp, const DropoutMasks& masks,
        const HeadPlace& place
    ) {
        u32 warp = warp_index();
        u32 size = place.head_size;
        u64 stride = place.qkv_stride;
        u32 first = place.first_row + warp * ROWS;
        const element* queries = qkv + place.first_queries;
        const element* keys = qkv + place.first_keys;
        const element* values = keys + place.kv_width;
        Common::load_own(shared.queries[warp], queries, stride, first, place.seq_length, size);
        SequenceKey mask_key = sequence_key(masks, place.sequence);
        typename Common::Sums sums;
        Common::clear(sums);
        Softmax softmax;
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            softmax.max[row] = lowest_finite();
            softmax.sum[row] = 0.0f;
        }
        // The first key that each query sees.
        u32 starts[ROWS] = {};
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            starts[row] = first_key_of_query(place, first + row);
        }
        u32 end = place.first_row + Common::BLOCK_ROWS;
        u32 first_key = first_key_of_block(place) / TILE_ROWS * TILE_ROWS;
        for (; first_key < end && first_key < place.seq_length; first_key += TILE_ROWS) {
            u32 key = first_key + lane_index();
            float scores[ROWS];
            Common::load_tile(shared.tile, keys, stride, first_key, place.seq_length, size);
            Common::dot_products(shared.queries[warp], shared.tile, size, scores);
            go_on(softmax, sums, scores, first, starts, key, place.scale);
            ATTENTION_UNROLL
            for (u32 row = 0; row < ROWS; row++) {
                float factor = probability_factor(masks, mask_key, first + row, place.head, key);
                shared.weights[warp].tile_rows[lane_index()][row] = scores[row] * factor;
            }
            Common::load_tile(shared.tile, values, stride, first_key, place.seq_length, size);
            Common::add_weighted(shared.weights[warp], shared.tile, sums);
        }
        finish(softmax, sums, out, log_sum_exp, first, place);
    }

    // Writes the outputs and the logarithms of the sums.
    DEVICE void finish(
        const Softmax& softmax, const typename Common::Sums& sums, element* out, float* log_sum_exp,
        u32 first, const HeadPlace& place
    ) {
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            float total = warp_sum(softmax.sum[row]);
            u32 query = first + row;
            if (query < place.seq_length) {
                element* to = out + place.first_out + query * (u64)place.out_stride;
                Common::put_row(sums.values[row], 1.0f / total, to, place.head_size);
                if (lane_index() == 0) {
                    log_sum_exp[place.first_sum + query] = softmax.max[row] * place.scale + logf(total);
                }
            }
        }
    }
};

typedef AttentionForward<2, 8, 4> AttentionForward64;
typedef AttentionForward<4, 8, 2> AttentionForward128;
typedef AttentionForward<8, 4, 1> AttentionForward256;

extern "C" __global__ void __launch_bounds__(256) attention_64(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = head_place(sizes, document_starts, AttentionForward64::Common::BLOCK_ROWS);
    __shared__ AttentionForward64::Shared shared;
    AttentionForward64::forward(shared, qkv, out, log_sum_exp, masks, place);
}

extern "C" __global__ void __launch_bounds__(256) attention_128(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = head_place(sizes, document_starts, AttentionForward128::Common::BLOCK_ROWS);
    __shared__ AttentionForward128::Shared shared;
    AttentionForward128::forward(shared, qkv, out, log_sum_exp, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_256(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = head_place(sizes, document_starts, AttentionForward256::Common::BLOCK_ROWS);
    __shared__ AttentionForward256::Shared shared;
    AttentionForward256::forward(shared, qkv, out, log_sum_exp, masks, place);
}
