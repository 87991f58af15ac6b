#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "element.cuh"
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

// `y = gelu(x)`
extern "C" __global__ void __launch_bounds__(256)
gelu(const element* __restrict__ x, element* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        float value = widened(x[index]);
        y[index] = narrowed(value * gelu_gate(value).gate);
    }
}

// `dy` becomes the gradient of `x`, and `x` becomes `gelu(x)`.
extern "C" __global__ void __launch_bounds__(256)
gelu_backward(element* __restrict__ x, element* __restrict__ dy, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        float value = widened(x[index]);
        GeluGate at = gelu_gate(value);
        float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * value * value);
        float derivative = at.gate + value * at.gate * at.complement * slope;
        dy[index] = narrowed(widened(dy[index]) * derivative);
        x[index] = narrowed(value * at.gate);
    }
}
