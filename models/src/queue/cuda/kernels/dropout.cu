#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// Dropout: elements become 0 where the mask says so, the others are multiplied by its scale. A block per row.
//
// Legend: B sequences, T tokens each, N = B T, C columns; `x, y: [N, C]`. `masks.seq_length` is T.
// The masks are the host's, bit for bit: see `kernels/dropout.rs` for the counters.

// Columns that a warp takes at a time, a pack for each lane: a multiple of 64, so that no counter's columns lie
// in two warps.
static const u32 NUM_WARP_COLUMNS = WARP_SIZE * NUM_PACK_ELEMENTS;
// A counter has four numbers, those of columns 16 apart.
static const u32 NUM_COUNTER_NUMBERS = 4;
static const u32 NUM_LANE_COUNTERS = NUM_PACK_ELEMENTS / NUM_COUNTER_NUMBERS;

static_assert(NUM_WARP_COLUMNS % 64 == 0, "a warp has whole counters");
static_assert(16 % NUM_PACK_ELEMENTS == 0, "the elements of a pack have the same number of their counters");

// A lane's pack, where the warp's columns begin with `first`.
DEVICE Place<NUM_PACK_ELEMENTS> place_in_row(u32 first, u32 width, bool is_aligned) {
    return place_at<NUM_PACK_ELEMENTS>(first + lane_index() * NUM_PACK_ELEMENTS, width, is_aligned);
}

// Which elements of a lane's pack are dropped, the first in the lowest bit; the warp's first column is
// `first`. The lanes share out the counters and tell each other what is dropped, so that every random number
// is used and no lane computes one twice. Rejected: each lane computes all counters of the columns of four
// packs: a quarter of the threads would have work, with too many registers each.
DEVICE u32 dropped_elements(const DropoutMasks& masks, SequenceKey key, u32 first) {
    u32 position = blockIdx.x % masks.seq_length;
    u32 column = lane_index() * NUM_PACK_ELEMENTS;
    u32 own_number = column / 16 % NUM_COUNTER_NUMBERS;
    u32 own_counter = column / 64 * 16 + column % 16;
    u32 dropped = 0;
#pragma unroll
    for (u32 place = 0; place < NUM_LANE_COUNTERS; place++) {
        u32 counter = first / NUM_COUNTER_NUMBERS + place * WARP_SIZE + lane_index();
        Philox numbers = philox(key.a, key.b, {counter, position, 0, masks.place});
        u32 all[NUM_COUNTER_NUMBERS] = {numbers.a, numbers.b, numbers.c, numbers.d};
#pragma unroll
        for (u32 number = 0; number < NUM_COUNTER_NUMBERS; number++) {
            u32 of_lanes = __ballot_sync(WHOLE_WARP, is_dropped(masks, all[number]));
            if (number == own_number && place == own_counter / WARP_SIZE) {
                dropped = of_lanes >> own_counter % WARP_SIZE;
            }
        }
    }
    return dropped;
}

// What an element of a lane's pack is multiplied by.
DEVICE float mask_factor(const DropoutMasks& masks, u32 dropped, u32 index) {
    return dropped >> index & 1 ? 0.0f : masks.scale;
}

// `x *= mask`
extern "C" __global__ void __launch_bounds__(256)
dropout(DropoutMasks masks, element* __restrict__ x, u32 width) {
    element* row = x + (u64)blockIdx.x * width;
    SequenceKey key = sequence_key(masks, blockIdx.x / masks.seq_length);
    u32 first = warp_index() * NUM_WARP_COLUMNS;
    for (; first < width; first += WARPS_PER_BLOCK * NUM_WARP_COLUMNS) {
        auto place = place_in_row(first, width, are_aligned(row));
        Pack<element, NUM_PACK_ELEMENTS> values = load(row, place);
        u32 dropped = dropped_elements(masks, key, first);
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            float factor = mask_factor(masks, dropped, index);
            values.at[index] = narrowed(widened(values.at[index]) * factor);
        }
        store(row, place, values);
    }
}

// `y = x + mask * y`
extern "C" __global__ void __launch_bounds__(256)
dropout_add_residual(DropoutMasks masks, const element* __restrict__ x, element* __restrict__ y, u32 width) {
    const element* residual_row = x + (u64)blockIdx.x * width;
    element* row = y + (u64)blockIdx.x * width;
    SequenceKey key = sequence_key(masks, blockIdx.x / masks.seq_length);
    u32 first = warp_index() * NUM_WARP_COLUMNS;
    for (; first < width; first += WARPS_PER_BLOCK * NUM_WARP_COLUMNS) {
        auto place = place_in_row(first, width, are_aligned(residual_row, row));
        Pack<element, NUM_PACK_ELEMENTS> values = load(row, place);
        Pack<element, NUM_PACK_ELEMENTS> residuals = load(residual_row, place);
        u32 dropped = dropped_elements(masks, key, first);
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            float masked = widened(values.at[index]) * mask_factor(masks, dropped, index);
            values.at[index] = narrowed(masked + widened(residuals.at[index]));
        }
        store(row, place, values);
    }
}
