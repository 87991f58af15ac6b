#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "heads.cuh"
#include "attention.cuh"
#include "warp.cuh"
#include "attention_mma.cuh"
#include "attention_mma_tiles.cuh"
#endif

// The backward of causal attention on tensor cores, for keys and values: see attention_mma.cuh. They become
// their gradients in place, since only their own warp reads them. Each sum belongs to one warp, which adds in
// order.
#if !defined(ELEMENT_F32)

// Rows are keys, tiles are queries.
template <u32 WIDTH, u32 TILE_QUERIES>
struct AttentionMmaBackwardKeys {
    typedef AttentionMma<WIDTH> Common;
    typedef typename Common::OwnRows OwnRows;
    typedef typename Common::Sums Sums;

    static const u32 STEPS = TILE_QUERIES / 16;
    // Each thread draws random numbers for one query, and for one group of 16 neighbouring keys.
    static const u32 KEY_GROUPS = MMA_WARPS * WARP_SIZE / TILE_QUERIES;
    static const u32 GROUP_KEYS = MMA_WARP_ROWS / KEY_GROUPS;
    // How many steps are unrolled: more would take more registers than there are for large heads.
    static const u32 STEPS_AT_ONCE = WIDTH <= 64 ? STEPS : 1;

    // What some queries have.
    struct Queries {
        MmaTile<WIDTH, TILE_QUERIES> queries, douts;
        float log_sum_exp[TILE_QUERIES];
        float row_dots[TILE_QUERIES];
        // Where something is dropped: for the keys of each warp in groups, of each query, a bit for each key.
        unsigned char kept[MMA_WARPS][KEY_GROUPS][TILE_QUERIES];
    };

    // In shared memory: one is worked on while the other is copied to.
    struct Slots {
        Queries tiles[2];
    };

    struct Gradients {
        Sums keys, values;
    };

    // Which elements dropout keeps. Keys 16 apart share a counter, and belong to different warps.
    DEVICE void draw_kept(Queries& tile, const DropoutMasks& masks, u32 first, const HeadPlace& place) {
        SequenceKey key = sequence_key(masks, place.sequence);
        u32 group = threadIdx.x / TILE_QUERIES;
        u32 query = threadIdx.x % TILE_QUERIES;
        u32 kept[MMA_WARPS] = {};
        // One after the other, with few registers.
#pragma unroll 1
        for (u32 index = 0; index < GROUP_KEYS; index++) {
            u32 column = group * GROUP_KEYS + index;
            Philox counter = {place.first_row / 4 + column, first + query, place.head, masks.place};
            Philox numbers = philox(key.a, key.b, counter);
            kept[0] |= (numbers.a < masks.threshold ? 0u : 1u) << index;
            kept[1] |= (numbers.b < masks.threshold ? 0u : 1u) << index;
            kept[2] |= (numbers.c < masks.threshold ? 0u : 1u) << index;
            kept[3] |= (numbers.d < masks.threshold ? 0u : 1u) << index;
        }
        ATTENTION_UNROLL
        for (u32 warp = 0; warp < MMA_WARPS; warp++) {
            tile.kept[warp][group][query] = (unsigned char)kept[warp];
        }
    }

    // The tile of the queries from `first` on, by all threads of the block. It is there after their copies
    // and a barrier.
    DEVICE void start_load(
        Queries& tile, const element* qkv, const element* dout, const float* log_sum_exp,
        const float* row_dots, const DropoutMasks& masks, u32 first, const HeadPlace& place
    ) {
        if (masks.threshold != 0) {
            draw_kept(tile, masks, first, place);
        }
        u32 size = place.head_size;
        const element* queries = qkv + place.first_queries;
        tile.queries.start_load(queries, place.qkv_stride, first, place.seq_length, size);
        tile.douts.start_load(dout + place.first_out, place.out_stride, first, place.seq_length, size);
        if (threadIdx.x < TILE_QUERIES) {
            u32 query = first + threadIdx.x;
            bool is_inside = query < place.seq_length;
            u64 from = place.first_sum + query;
            start_copy(&tile.log_sum_exp[threadIdx.x], log_sum_exp + from, is_inside);
            start_copy(&tile.row_dots[threadIdx.x], row_dots + from, is_inside);
        }
        close_copy_group();
    }

    // The bits of 16 queries of the tile, for `drop`.
    DEVICE u32 kept_queries(const Queries& tile, u32 first) {
        u32 kept = 0;
        ATTENTION_UNROLL
        for (u32 index = 0; index < 8; index++) {
            u32 key = lane_row() + index % 4 / 2 * 8;
            u32 query = first + index / 4 * 8 + lane_column() + index % 2;
            u32 bits = tile.kept[warp_index()][key / GROUP_KEYS][query];
            kept |= (bits >> key % GROUP_KEYS & 1) << index;
        }
        return kept;
    }

    // Scores and their probabilities' gradients become probabilities, and the scores' gradients but for the
    // scale. `dprobabilities` are those after dropout.
    DEVICE void differentiate(
        StepProducts& scores, StepProducts& dprobabilities, const Queries& tile, u32 first, float scale
    ) {
        ATTENTION_UNROLL
        for (u32 index = 0; index < 8; index++) {
            u32 query = first + index / 4 * 8 + lane_column() + index % 2;
            float& score = scores.parts[index / 4][index % 4];
            float& dprobability = dprobabilities.parts[index / 4][index % 4];
            score = power_of_two(fmaf(score, scale, -tile.log_sum_exp[query] * LOG2_E));
            dprobability = score * (dprobability - tile.row_dots[query]);
        }
    }

    // Adds what 16 queries of a tile, from `first` on, give to the gradients of the warp's keys. The tile
    // begins at the query `tile_query`, the keys at `first_key`.
    DEVICE void add_queries(
        Gradients& sums, const OwnRows& keys, const OwnRows& values, const Queries& tile, u32 first,
        u32 tile_query, u32 first_key, const DropoutMasks& masks, float scale, const HeadPlace& place
    ) {
        StepProducts scores[1];
        Common::dot_products(scores, keys, tile.queries, first);
        u32 first_query = tile_query + first;
        if (first_key + 16 > first_query || first_key < first_key_of_all(place, first_query)) {
            hide_queries(scores[0], first_key, first_query, place);
        }
        StepProducts dprobabilities[1];
        Common::dot_products(dprobabilities, values, tile.douts, first);
        u32 kept = 0;
        if (masks.threshold != 0) {
            kept = kept_queries(tile, first);
            drop(dprobabilities[0], kept, masks.scale);
        }
        differentiate(scores[0], dprobabilities[0], tile, first, scale);
        if (masks.threshold != 0) {
            drop(scores[0], kept, masks.scale);
        }
        u32 weights[4];
        round_products(weights, scores[0]);
        Common::add_weighted(sums.values, weights, tile.douts, first);
        round_products(weights, dprobabilities[0]);
        Common::add_weighted(sums.keys, weights, tile.queries, first);
    }

    DEVICE void backward(
        Slots& slots, element* qkv, const float* log_sum_exp, const element* dout, const float* row_dots,
        const DropoutMasks& masks, HeadPlace place
    ) {
        u32 first_key = place.first_row + warp_index() * MMA_WARP_ROWS;
        u32 size = place.head_size;
        u32 length = place.seq_length;
        element* key_matrix = qkv + place.first_keys;
        element* value_matrix = key_matrix + place.kv_width;
        start_load(slots.tiles[0], qkv, dout, log_sum_exp, row_dots, masks, place.first_row, place);
        OwnRows keys, values;
        Common::load_own(keys, key_matrix, place.qkv_stride, first_key, length, size);
        Common::load_own(values, value_matrix, place.qkv_stride, first_key, length, size);
        Gradients sums;
        Common::clear(sums.keys);
        Common::clear(sums.values);
        u32 slot = 0;
        // The tile that comes next, and how many heads of queries are not done.
        u32 next = place.first_row;
        u32 num_heads = place.group_size;
        u32 end = end_of_queries(place, MMA_BLOCK_ROWS);
        while (num_heads > 0) {
            const Queries& tile = slots.tiles[slot];
            u32 first = next;
            slot = 1 - slot;
            next += TILE_QUERIES;
            if (next >= end) {
                next = place.first_row;
                num_heads--;
                go_to_next_head(place);
            }
            wait_for_copies<0>();
            // All threads have their copies, and have left the tile before, whose slot is written next.
            __syncthreads();
            if (num_heads > 0) {
                start_load(slots.tiles[slot], qkv, dout, log_sum_exp, row_dots, masks, next, place);
            }
#pragma unroll STEPS_AT_ONCE
            for (u32 step = 0; step < STEPS; step++) {
                u32 row = 16 * step;
                float scale = place.scale * LOG2_E;
                add_queries(sums, keys, values, tile, row, first, first_key, masks, scale, place);
            }
        }
        float factors[2] = {place.scale, place.scale};
        Common::put_rows(sums.keys, factors, key_matrix, place.qkv_stride, first_key, length, size);
        float ones[2] = {1.0f, 1.0f};
        Common::put_rows(sums.values, ones, value_matrix, place.qkv_stride, first_key, length, size);
    }
};

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_keys_64(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardKeys<64, 64> Keys;
    __shared__ Keys::Slots slots;
    HeadPlace place = key_head_place(sizes, nullptr, MMA_BLOCK_ROWS);
    Keys::backward(slots, qkv, log_sum_exp, dout, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_keys_128(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardKeys<128, 32> Keys;
    __shared__ Keys::Slots slots;
    HeadPlace place = key_head_place(sizes, nullptr, MMA_BLOCK_ROWS);
    Keys::backward(slots, qkv, log_sum_exp, dout, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_keys_64_documents(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardKeys<64, 64> Keys;
    __shared__ Keys::Slots slots;
    HeadPlace place = key_head_place(sizes, document_starts, MMA_BLOCK_ROWS);
    Keys::backward(slots, qkv, log_sum_exp, dout, row_dots, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_backward_keys_128_documents(
    DropoutMasks masks, element* qkv, const float* __restrict__ log_sum_exp, const element* __restrict__ dout,
    const float* __restrict__ row_dots, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    typedef AttentionMmaBackwardKeys<128, 32> Keys;
    __shared__ Keys::Slots slots;
    HeadPlace place = key_head_place(sizes, document_starts, MMA_BLOCK_ROWS);
    Keys::backward(slots, qkv, log_sum_exp, dout, row_dots, masks, place);
}

#endif
