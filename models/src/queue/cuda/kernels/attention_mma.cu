#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "heads.cuh"
#include "attention.cuh"
#include "warp.cuh"
#include "attention_mma.cuh"
#include "attention_mma_tiles.cuh"
#endif

// The forward of causal attention on tensor cores: see attention_mma.cuh.
#if !defined(ELEMENT_F32)

template <u32 WIDTH, u32 SLOTS>
struct AttentionMmaForward {
    typedef AttentionMma<WIDTH> Common;
    typedef TileStream<WIDTH, SLOTS> Stream;
    typedef typename Stream::Slots Slots;

    // The softmax of each of the lane's two queries over the keys that were seen.
    struct Softmax {
        // The largest score, not yet scaled.
        float max[2];
        // The exponentials of the lane's keys.
        float sum[2];
    };

    // Goes on with the softmax by a tile's keys: scores become exponentials, and what was summed before is
    // multiplied by what the new largest score makes of it (Milakov and Gimelshein, arXiv:1805.02867).
    DEVICE void go_on(
        Softmax& softmax, typename Common::Sums& sums, StepProducts (&scores)[MMA_STEPS], float scale
    ) {
        ATTENTION_UNROLL
        for (u32 half = 0; half < 2; half++) {
            // Finite as long as none was seen, so that its difference to itself is zero.
            float max = softmax.max[half];
            ATTENTION_UNROLL
            for (u32 part = 0; part < 2 * MMA_STEPS; part++) {
                const float* pair = scores[part / 2].parts[part % 2] + 2 * half;
                max = fmaxf(max, fmaxf(pair[0], pair[1]));
            }
            max = row_max(max);
            float shrink = power_of_two((softmax.max[half] - max) * scale);
            float scaled_max = max * scale;
            float sum = 0.0f;
            ATTENTION_UNROLL
            for (u32 part = 0; part < 2 * MMA_STEPS; part++) {
                float* pair = scores[part / 2].parts[part % 2] + 2 * half;
                pair[0] = power_of_two(fmaf(pair[0], scale, -scaled_max));
                pair[1] = power_of_two(fmaf(pair[1], scale, -scaled_max));
                sum += pair[0] + pair[1];
            }
            softmax.max[half] = max;
            softmax.sum[half] = fmaf(softmax.sum[half], shrink, sum);
            ATTENTION_UNROLL
            for (u32 part = 0; part < WIDTH / 8; part++) {
                sums.parts[part][2 * half] *= shrink;
                sums.parts[part][2 * half + 1] *= shrink;
            }
        }
    }

    DEVICE void forward(
        Slots& slots, const element* qkv, element* out, float* log_sum_exp, const DropoutMasks& masks,
        const HeadPlace& place
    ) {
        u32 first = place.first_row + warp_index() * MMA_WARP_ROWS;
        const element* keys = qkv + place.first_keys;
        const element* values = keys + place.kv_width;
        Stream stream = {slots.tiles, keys, values, place.qkv_stride, place.seq_length, place.head_size};
        u32 num_keys = min(place.first_row + MMA_BLOCK_ROWS, place.seq_length);
        u32 first_key = first_key_of_block(place) / MMA_TILE_KEYS * MMA_TILE_KEYS;
        stream.first_row = first_key;
        stream.num_tiles = 2 * ((num_keys - first_key + MMA_TILE_KEYS - 1) / MMA_TILE_KEYS);
        stream.begin();
        typename Common::OwnRows queries;
        const element* matrix = qkv + place.first_queries;
        Common::load_own(queries, matrix, place.qkv_stride, first, place.seq_length, place.head_size);
        typename Common::Sums sums;
        Common::clear(sums);
        Softmax softmax = {{lowest_finite(), lowest_finite()}, {0.0f, 0.0f}};
        u32 starts[2] = {first_key_of_lane(place, first, 0), first_key_of_lane(place, first, 1)};
        u32 last_start = first_key_of_all(place, first);
        for (; first_key < num_keys; first_key += MMA_TILE_KEYS) {
            StepProducts scores[MMA_STEPS];
            Common::dot_products(scores, queries, stream.next(), 0);
            if (first_key + MMA_TILE_KEYS > first || first_key < last_start) {
                ATTENTION_UNROLL
                for (u32 step = 0; step < MMA_STEPS; step++) {
                    hide_keys(scores[step], first, starts, first_key + 16 * step);
                }
            }
            go_on(softmax, sums, scores, place.scale * LOG2_E);
            if (masks.threshold != 0) {
                u32 kept = kept_keys(masks, place, first, first_key);
                ATTENTION_UNROLL
                for (u32 step = 0; step < MMA_STEPS; step++) {
                    drop(scores[step], kept >> 8 * step, masks.scale);
                }
            }
            const typename Stream::Tile& value_tile = stream.next();
            ATTENTION_UNROLL
            for (u32 step = 0; step < MMA_STEPS; step++) {
                u32 weights[4];
                round_products(weights, scores[step]);
                Common::add_weighted(sums, weights, value_tile, 16 * step);
            }
        }
        finish(softmax, sums, out, log_sum_exp, first, place);
    }

    // Writes the outputs and the logarithms of the sums.
    DEVICE void finish(
        const Softmax& softmax, const typename Common::Sums& sums, element* out, float* log_sum_exp,
        u32 first, const HeadPlace& place
    ) {
        float factors[2];
        ATTENTION_UNROLL
        for (u32 half = 0; half < 2; half++) {
            float total = row_sum(softmax.sum[half]);
            factors[half] = 1.0f / total;
            u32 query = first + lane_row() + 8 * half;
            if (query < place.seq_length && lane_column() == 0) {
                log_sum_exp[place.first_sum + query] = fmaf(softmax.max[half], place.scale, logf(total));
            }
        }
        element* to = out + place.first_out;
        Common::put_rows(sums, factors, to, place.out_stride, first, place.seq_length, place.head_size);
    }
};

// More slots would be more than 48 KiB.
typedef AttentionMmaForward<64, 4> AttentionMmaForward64;
typedef AttentionMmaForward<128, 3> AttentionMmaForward128;

extern "C" __global__ void __launch_bounds__(128) attention_mma_64(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__, AttentionSizes sizes
) {
    __shared__ AttentionMmaForward64::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, nullptr, MMA_BLOCK_ROWS));
    AttentionMmaForward64::forward(slots, qkv, out, log_sum_exp, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_128(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__, AttentionSizes sizes
) {
    __shared__ AttentionMmaForward128::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, nullptr, MMA_BLOCK_ROWS));
    AttentionMmaForward128::forward(slots, qkv, out, log_sum_exp, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_64_documents(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    __shared__ AttentionMmaForward64::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, document_starts, MMA_BLOCK_ROWS));
    AttentionMmaForward64::forward(slots, qkv, out, log_sum_exp, masks, place);
}

extern "C" __global__ void __launch_bounds__(128) attention_mma_128_documents(
    DropoutMasks masks, const element* __restrict__ qkv, element* __restrict__ out,
    float* __restrict__ log_sum_exp, const u32* __restrict__ document_starts, AttentionSizes sizes
) {
    __shared__ AttentionMmaForward128::Slots slots;
    HeadPlace place = longest_first(head_place(sizes, document_starts, MMA_BLOCK_ROWS));
    AttentionMmaForward128::forward(slots, qkv, out, log_sum_exp, masks, place);
}

#endif
