#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
#include "wide.cuh"
#endif

// GELU in its tanh form: `x (1 + tanh u) / 2 = x sigmoid(2u)` with `u = sqrt(2/pi) (x + 0.044715 x^3)`, one
// exponential and no cancellation where tanh nears -1.

// `2 sqrt(2/pi)`
static const float GELU_SCALE = 1.595769f;
static const float GELU_CUBE = 0.044715f;

// `sigmoid(2u)` and one less it, the latter without the cancellation of a subtraction.
struct GeluGate {
    float gate, complement;
};

DEVICE GeluGate gelu_gate(float x) {
    // Bounded, since an infinity times the gate of zero would be NaN.
    float exponential = bounded_exp(-GELU_SCALE * (x + GELU_CUBE * x * x * x));
    float gate = 1.0f / (1.0f + exponential);
    return {gate, exponential * gate};
}

// `y = gelu(x)`, with a thread per pack. `y` may be `x`.
extern "C" __global__ void __launch_bounds__(256) gelu(const element* x, element* y, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_ELEMENTS>(num_elements, x, y);
    Pack<float, NUM_PACK_ELEMENTS> values = widened(load(x, place));
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
        values.at[index] = values.at[index] * gelu_gate(values.at[index]).gate;
    }
    store(y, place, narrowed(values));
}

// `dy` becomes the gradient of `x`, and `x` becomes `gelu(x)`.
extern "C" __global__ void __launch_bounds__(256)
gelu_backward(element* __restrict__ x, element* __restrict__ dy, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_ELEMENTS>(num_elements, x, dy);
    Pack<element, NUM_PACK_ELEMENTS> values = load(x, place);
    Pack<element, NUM_PACK_ELEMENTS> gradients = load(dy, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_ELEMENTS; index++) {
        float value = widened(values.at[index]);
        GeluGate at = gelu_gate(value);
        float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * value * value);
        float derivative = at.gate + value * at.gate * at.complement * slope;
        gradients.at[index] = narrowed(widened(gradients.at[index]) * derivative);
        values.at[index] = narrowed(value * at.gate);
    }
    store(dy, place, gradients);
    store(x, place, values);
}
