#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// SwiGLU: `silu(gate) * up` with `silu(x) = x sigmoid(x)`. A block per row.
//
// Legend: N rows; F columns of each of gate and up, one behind the other in a row of `x: [N, 2 F]`; `y, dy:
// [N, F]`.

// Columns from a thread's pack to its next one.
static const u32 BLOCK_COLUMNS = BLOCK_SIZE * NUM_PACK_ELEMENTS;

// `sigmoid(x)` and one less it, the latter without the cancellation of a subtraction.
struct SiluGate {
    float sigmoid, complement;
};

DEVICE SiluGate silu_gate(float x) {
    float exponential = bounded_exp(-x);
    float sigmoid = 1.0f / (1.0f + exponential);
    return {sigmoid, exponential * sigmoid};
}

// A row of `y`.
template <bool WIDE>
DEVICE void gate_row(const element* __restrict__ x, element* __restrict__ y, u32 width) {
    for (u32 first = threadIdx.x * NUM_PACK_ELEMENTS; first < width; first += BLOCK_COLUMNS) {
        u32 num = num_from(first, width);
        auto values = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + first, num));
        auto ups = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + width + first, num));
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            float gate = values.at[index];
            values.at[index] = gate * silu_gate(gate).sigmoid * ups.at[index];
        }
        store<WIDE>(y + first, narrowed(values), num);
    }
}

// A row of `x` becomes its gradient, and one of `dy` becomes `swiglu(x)`.
template <bool WIDE>
DEVICE void gate_row_backward(element* __restrict__ x, element* __restrict__ dy, u32 width) {
    for (u32 first = threadIdx.x * NUM_PACK_ELEMENTS; first < width; first += BLOCK_COLUMNS) {
        u32 num = num_from(first, width);
        auto values = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + first, num));
        auto ups = widened(load<WIDE, NUM_PACK_ELEMENTS>(x + width + first, num));
        auto gradients = widened(load<WIDE, NUM_PACK_ELEMENTS>(dy + first, num));
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
            float gate = values.at[index];
            float up = ups.at[index];
            float gradient = gradients.at[index];
            SiluGate at = silu_gate(gate);
            float silu = gate * at.sigmoid;
            values.at[index] = gradient * up * at.sigmoid * (1.0f + gate * at.complement);
            ups.at[index] = gradient * silu;
            gradients.at[index] = silu * up;
        }
        store<WIDE>(x + first, narrowed(values), num);
        store<WIDE>(x + width + first, narrowed(ups), num);
        store<WIDE>(dy + first, narrowed(gradients), num);
    }
}

// `y = silu(gate) * up`.
extern "C" __global__ void __launch_bounds__(256)
swiglu(const element* __restrict__ x, element* __restrict__ y, u32 width) {
    const element* from = x + (u64)blockIdx.x * 2 * width;
    element* to = y + (u64)blockIdx.x * width;
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, y)) {
        gate_row<true>(from, to, width);
    } else {
        gate_row<false>(from, to, width);
    }
}

// `x` becomes its gradient, and `dy` becomes `swiglu(x)`.
extern "C" __global__ void __launch_bounds__(256)
swiglu_backward(element* __restrict__ x, element* __restrict__ dy, u32 width) {
    element* values = x + (u64)blockIdx.x * 2 * width;
    element* gradients = dy + (u64)blockIdx.x * width;
    if (are_rows_wide<NUM_PACK_ELEMENTS>(width, x, dy)) {
        gate_row_backward<true>(values, gradients, width);
    } else {
        gate_row_backward<false>(values, gradients, width);
    }
}
