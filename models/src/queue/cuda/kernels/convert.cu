#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// Conversions, element by element: a thread per pack of elements.

extern "C" __global__ void __launch_bounds__(256)
to_f32(const element* __restrict__ x, float* __restrict__ y, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_ELEMENTS>(num_elements, x, y);
    store(y, place, widened(load(x, place)));
}

extern "C" __global__ void __launch_bounds__(256)
from_f32(const float* __restrict__ x, element* __restrict__ y, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_ELEMENTS>(num_elements, x, y);
    store(y, place, narrowed(load(x, place)));
}

// Elements of a pack of 16 bits each, whatever the program's are.
static const u32 NUM_PACK_HALVES = WIDE_BYTES / sizeof(u16);

extern "C" __global__ void __launch_bounds__(256)
bf16_to_f16(const u16* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_HALVES>(num_elements, x, y);
    Pack<u16, NUM_PACK_HALVES> pack = load(x, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_HALVES; index++) {
        pack.at[index] = narrow_f16(widen_bf16(pack.at[index]));
    }
    store(y, place, pack);
}

extern "C" __global__ void __launch_bounds__(256)
f16_to_bf16(const u16* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_HALVES>(num_elements, x, y);
    Pack<u16, NUM_PACK_HALVES> pack = load(x, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_HALVES; index++) {
        pack.at[index] = narrow_bf16(widen_f16(pack.at[index]));
    }
    store(y, place, pack);
}

// `x` is converted to an element and back.
extern "C" __global__ void __launch_bounds__(256)
round_to_element(float* __restrict__ x, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_ELEMENTS>(num_elements, x);
    store(x, place, widened(narrowed(load(x, place))));
}

// Each row of `x` becomes elements at the beginning of the row's own bytes. A block per row; a thread takes
// four numbers at a time.
//
// Elements of 16 bits are written over numbers that all threads have read: the barrier is between this turn's
// reads and its writes, and what is written is in the first half of what has been read.
extern "C" __global__ void __launch_bounds__(256) narrow_rows(float* x, u32 width) {
    float* row = x + (u64)blockIdx.x * width;
    for (u32 first = 0; first < width; first += BLOCK_SIZE * NUM_PACK_FLOATS) {
        u32 column = first + threadIdx.x * NUM_PACK_FLOATS;
        auto place = place_at<NUM_PACK_FLOATS>(column, width, are_aligned(row));
        Pack<element, NUM_PACK_FLOATS> narrow = narrowed(load(row, place));
        __syncthreads();
        store((element*)row, place, narrow);
    }
}
