#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#endif

// Conversions, element by element.

extern "C" __global__ void __launch_bounds__(256)
to_f32(const element* __restrict__ x, float* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = widened(x[index]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
from_f32(const float* __restrict__ x, element* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrowed(x[index]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
bf16_to_f16(const u16* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrow_f16(widen_bf16(x[index]));
    }
}

extern "C" __global__ void __launch_bounds__(256)
f16_to_bf16(const u16* __restrict__ x, u16* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = narrow_bf16(widen_f16(x[index]));
    }
}

// `x` is converted to an element and back.
extern "C" __global__ void __launch_bounds__(256)
round_to_element(float* __restrict__ x, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        x[index] = widened(narrowed(x[index]));
    }
}

// Each row of `x` becomes elements at the beginning of the row's own bytes. A block per row.
//
// Elements of 16 bits are written over numbers that all threads have read: the barrier is between this turn's
// reads and its writes, and what is written is in the first half of what has been read.
extern "C" __global__ void __launch_bounds__(256) narrow_rows(float* x, u32 width) {
    float* row = x + (u64)blockIdx.x * width;
    for (u32 first = 0; first < width; first += BLOCK_SIZE) {
        u32 column = first + threadIdx.x;
        element narrow = narrowed(column < width ? row[column] : 0.0f);
        __syncthreads();
        if (column < width) {
            memcpy((char*)row + column * sizeof(element), &narrow, sizeof narrow);
        }
    }
}
