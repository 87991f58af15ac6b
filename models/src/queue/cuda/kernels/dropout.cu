#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// Dropout: elements become 0 where the mask says so, the others are multiplied by its scale. A block per row.
//
// Legend: B sequences, T tokens each, N = B T, C columns; `x, y: [N, C]`. `masks.seq_length` is T.
// The masks are the host's, bit for bit: see `kernels/dropout.rs` for the counters.

// Calls `f(column, factor)` for every column of the block's row. Each thread takes a counter at a time, whose
// four numbers are those of columns 16 apart.
template <class F>
DEVICE void for_masked_columns(const DropoutMasks& masks, u32 width, F f) {
    u32 position = blockIdx.x % masks.seq_length;
    SequenceKey key = sequence_key(masks, blockIdx.x / masks.seq_length);
    u32 num_counters = (width + 63) / 64 * 16;
    for (u32 counter = threadIdx.x; counter < num_counters; counter += BLOCK_SIZE) {
        Philox numbers = philox(key.a, key.b, {counter, position, 0, masks.place});
        u32 first = 64 * (counter / 16) + counter % 16;
        u32 all[4] = {numbers.a, numbers.b, numbers.c, numbers.d};
#pragma unroll
        for (u32 number = 0; number < 4; number++) {
            u32 column = first + 16 * number;
            if (column < width) {
                f(column, mask_factor(masks, all[number]));
            }
        }
    }
}

// `x *= mask`
extern "C" __global__ void __launch_bounds__(256)
dropout(DropoutMasks masks, element* __restrict__ x, u32 width) {
    element* row = x + (u64)blockIdx.x * width;
    for_masked_columns(masks, width, [&](u32 column, float factor) {
        row[column] = narrowed(widened(row[column]) * factor);
    });
}

// `y = x + mask * y`
extern "C" __global__ void __launch_bounds__(256)
dropout_add_residual(DropoutMasks masks, const element* __restrict__ x, element* __restrict__ y, u32 width) {
    u64 start = (u64)blockIdx.x * width;
    for_masked_columns(masks, width, [&](u32 column, float factor) {
        u64 place = start + column;
        y[place] = narrowed(widened(y[place]) * factor + widened(x[place]));
    });
}
