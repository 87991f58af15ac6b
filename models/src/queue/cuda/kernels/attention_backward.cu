#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "heads.cuh"
#include "attention.cuh"
#endif

// The backward of causal attention: see attention.cuh.

template <u32 SLICES, u32 WARPS, u32 ROWS>
struct AttentionBackward {
    typedef Attention<SLICES, WARPS, ROWS> Common;

    // What a block of the queries' kernel shares, and of the keys'.
    struct SharedByQueries {
        typename Common::OwnRows queries[WARPS];
        typename Common::OwnRows douts[WARPS];
        typename Common::Weights weights[WARPS];
        typename Common::Tile tile;
    };

    struct SharedByKeys {
        typename Common::OwnRows keys[WARPS];
        typename Common::OwnRows values[WARPS];
        typename Common::Weights key_weights[WARPS];
        typename Common::Weights value_weights[WARPS];
        typename Common::Tile tile;
    };

    // `out . dout` of each of the warp's queries: the mean of the probabilities' gradients, weighted with
    // these, dropped or not. Kept for the keys.
    DEVICE void dot_rows(
        const element* out, const element* dout, float* row_dots, u32 first, const HeadPlace& place,
        float* dots
    ) {
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            u32 query = first + row;
            float sum = 0.0f;
            if (query < place.seq_length) {
                u64 start = place.first_out + query * (u64)place.out_stride;
                for (u32 column = lane_index(); column < place.head_size; column += WARP_SIZE) {
                    sum = fmaf(widened(out[start + column]), widened(dout[start + column]), sum);
                }
            }
            dots[row] = warp_sum(sum);
            if (query < place.seq_length && lane_index() == 0) {
                row_dots[place.first_sum + query] = dots[row];
            }
        }
    }

    DEVICE void backward_queries(
        SharedByQueries& shared, const element* qkv, const element* out, const float* log_sum_exp,
        const element* dout,
        element* dqueries, float* row_dots, const DropoutMasks& masks, const HeadPlace& place
    ) {
        u32 warp = warp_index();
        u32 size = place.head_size;
        u64 stride = place.qkv_stride;
        u32 first = place.first_row + warp * ROWS;
        const element* queries = qkv + place.first_queries;
        const element* keys = qkv + place.first_keys;
        const element* values = keys + place.kv_width;
        Common::load_own(shared.queries[warp], queries, stride, first, place.seq_length, size);
        const element* dout_matrix = dout + place.first_out;
        Common::load_own(shared.douts[warp], dout_matrix, place.out_stride, first, place.seq_length, size);
        SequenceKey mask_key = sequence_key(masks, place.sequence);
        float dots[ROWS];
        dot_rows(out, dout, row_dots, first, place, dots);
        typename Common::Sums sums;
        Common::clear(sums);
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
            float dprobabilities[ROWS];
            float scores[ROWS];
            Common::load_tile(shared.tile, values, stride, first_key, place.seq_length, size);
            Common::dot_products(shared.douts[warp], shared.tile, size, dprobabilities);
            Common::load_tile(shared.tile, keys, stride, first_key, place.seq_length, size);
            Common::dot_products(shared.queries[warp], shared.tile, size, scores);
            ATTENTION_UNROLL
            for (u32 row = 0; row < ROWS; row++) {
                u32 query = first + row;
                float dscore = 0.0f;
                if (key <= query && key >= starts[row] && query < place.seq_length) {
                    float p = expf(scores[row] * place.scale - log_sum_exp[place.first_sum + query]);
                    float factor = probability_factor(masks, mask_key, query, place.head, key);
                    dscore = place.scale * p * (factor * dprobabilities[row] - dots[row]);
                }
                shared.weights[warp].tile_rows[lane_index()][row] = dscore;
            }
            __syncwarp();
            Common::add_weighted(shared.weights[warp], shared.tile, sums);
        }
        element* to = dqueries + place.first_out;
        Common::put_rows(sums, to, place.out_stride, first, place.seq_length, size);
    }

    // Exponentials of the lane's query, which sees keys from `start` on, for the keys of the warp, zero where
    // masked.
    DEVICE void probabilities_of_keys(
        float* scores, const float* log_sum_exp, u32 query, u32 start, u32 first, const HeadPlace& place
    ) {
        float log_sum = query < place.seq_length ? log_sum_exp[place.first_sum + query] : 0.0f;
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            bool is_visible = first + row <= query && first + row >= start && query < place.seq_length;
            scores[row] = is_visible ? expf(scores[row] * place.scale - log_sum) : 0.0f;
        }
    }

    // Weights of the lane's query, for the gradients of keys and of values.
    DEVICE void weigh_query(
        const float* probabilities, const float* dprobabilities, const float* row_dots,
        const DropoutMasks& masks, SequenceKey mask_key, u32 query, u32 start, u32 first,
        const HeadPlace& place, typename Common::Weights& key_weights, typename Common::Weights& value_weights
    ) {
        bool is_inside = query < place.seq_length;
        float dot = is_inside ? row_dots[place.first_sum + query] : 0.0f;
        ATTENTION_UNROLL
        for (u32 row = 0; row < ROWS; row++) {
            float factor = probability_factor(masks, mask_key, query, place.head, first + row);
            float dscore = place.scale * probabilities[row] * (factor * dprobabilities[row] - dot);
            bool is_visible = is_inside && first + row <= query && first + row >= start;
            key_weights.tile_rows[lane_index()][row] = is_visible ? dscore : 0.0f;
            value_weights.tile_rows[lane_index()][row] = factor * probabilities[row];
        }
    }

    // Adds what the head of queries at this place gives, up to the query `end`, to the gradients of the warp's
    // keys and values.
    DEVICE void add_head(
        SharedByKeys& shared, typename Common::Sums& dkeys, typename Common::Sums& dvalues,
        const element* qkv, const float* log_sum_exp, const element* dout, const float* row_dots,
        const DropoutMasks& masks, u32 first, u32 end, const HeadPlace& place
    ) {
        u32 warp = warp_index();
        u32 size = place.head_size;
        u64 stride = place.qkv_stride;
        const element* queries = qkv + place.first_queries;
        const element* dout_matrix = dout + place.first_out;
        SequenceKey mask_key = sequence_key(masks, place.sequence);
        u32 first_query = place.first_row / TILE_ROWS * TILE_ROWS;
        for (; first_query < end; first_query += TILE_ROWS) {
            u32 query = first_query + lane_index();
            u32 start = first_key_of_query(place, query);
            float probabilities[ROWS];
            float dprobabilities[ROWS];
            Common::load_tile(shared.tile, queries, stride, first_query, place.seq_length, size);
            Common::dot_products(shared.keys[warp], shared.tile, size, probabilities);
            probabilities_of_keys(probabilities, log_sum_exp, query, start, first, place);
            Common::load_tile(
                shared.tile, dout_matrix, place.out_stride, first_query, place.seq_length, size
            );
            Common::dot_products(shared.values[warp], shared.tile, size, dprobabilities);
            weigh_query(
                probabilities, dprobabilities, row_dots, masks, mask_key, query, start, first, place,
                shared.key_weights[warp], shared.value_weights[warp]
            );
            __syncwarp();
            Common::add_weighted(shared.value_weights[warp], shared.tile, dvalues);
            // Once more, since two tiles at once would not fit for large heads.
            Common::load_tile(shared.tile, queries, stride, first_query, place.seq_length, size);
            Common::add_weighted(shared.key_weights[warp], shared.tile, dkeys);
        }
    }

    DEVICE void backward_keys(
        SharedByKeys& shared, element* qkv, const float* log_sum_exp, const element* dout,
        const float* row_dots, const DropoutMasks& masks, HeadPlace place
    ) {
        u32 warp = warp_index();
        u32 size = place.head_size;
        u64 stride = place.qkv_stride;
        u32 first = place.first_row + warp * ROWS;
        element* keys = qkv + place.first_keys;
        element* values = keys + place.kv_width;
        Common::load_own(shared.keys[warp], keys, stride, first, place.seq_length, size);
        Common::load_own(shared.values[warp], values, stride, first, place.seq_length, size);
        typename Common::Sums dkeys;
        typename Common::Sums dvalues;
        Common::clear(dkeys);
        Common::clear(dvalues);
        u32 end = end_of_queries(place, Common::BLOCK_ROWS);
        for (u32 head = 0; head < place.group_size; head++) {
            add_head(shared, dkeys, dvalues, qkv, log_sum_exp, dout, row_dots, masks, first, end, place);
            go_to_next_head(place);
        }
        Common::put_rows(dkeys, keys, stride, first, place.seq_length, size);
        Common::put_rows(dvalues, values, stride, first, place.seq_length, size);
    }
};

typedef AttentionBackward<2, 8, 4> AttentionBackward64;
typedef AttentionBackward<4, 8, 2> AttentionBackward128;
typedef AttentionBackward<8, 4, 1> AttentionBackward256;

extern "C" __global__ void __launch_bounds__(256, 3) attention_backward_queries_64(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = head_place(sizes, document_starts, AttentionBackward64::Common::BLOCK_ROWS);
    __shared__ AttentionBackward64::SharedByQueries shared;
    AttentionBackward64::backward_queries(
        shared, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place
    );
}

extern "C" __global__ void __launch_bounds__(256, 2) attention_backward_keys_64(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = key_head_place(sizes, document_starts, AttentionBackward64::Common::BLOCK_ROWS);
    __shared__ AttentionBackward64::SharedByKeys shared;
    AttentionBackward64::backward_keys(shared, qkv, log_sum_exp, dout, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(256) attention_backward_queries_128(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = head_place(sizes, document_starts, AttentionBackward128::Common::BLOCK_ROWS);
    __shared__ AttentionBackward128::SharedByQueries shared;
    AttentionBackward128::backward_queries(
        shared, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place
    );
}

extern "C" __global__ void __launch_bounds__(256, 2) attention_backward_keys_128(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = key_head_place(sizes, document_starts, AttentionBackward128::Common::BLOCK_ROWS);
    __shared__ AttentionBackward128::SharedByKeys shared;
    AttentionBackward128::backward_keys(shared, qkv, log_sum_exp, dout, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_backward_queries_256(
    DropoutMasks masks, const element* __restrict__ qkv, const element* __restrict__ out,
    const float* __restrict__ log_sum_exp, const element* __restrict__ dout, element* __restrict__ dqueries,
    float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = head_place(sizes, document_starts, AttentionBackward256::Common::BLOCK_ROWS);
    __shared__ AttentionBackward256::SharedByQueries shared;
    AttentionBackward256::backward_queries(
        shared, qkv, out, log_sum_exp, dout, dqueries, row_dots, masks, place
    );
}

extern "C" __global__ void __launch_bounds__(128) attention_backward_keys_256(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    HeadPlace place = key_head_place(sizes, document_starts, AttentionBackward256::Common::BLOCK_ROWS);
    __shared__ AttentionBackward256::SharedByKeys shared;
    AttentionBackward256::backward_keys(shared, qkv, log_sum_exp, dout, row_dots, masks, place);
}

// The gradients of queries take their place in `qkv`, with a thread per element of `dqueries: [N, C]`.
extern "C" __global__ void __launch_bounds__(256)
attention_put_queries(
    const element* __restrict__ dqueries, element* __restrict__ qkv, AttentionSizes sizes, u64 num_elements
) {
    u64 index = element_index();
    u64 width = sizes.num_heads * sizes.head_size;
    u64 stride = num_qkv_heads(sizes) * sizes.head_size;
    if (index < num_elements) {
        qkv[index / width * stride + index % width] = dqueries[index];
    }
}
