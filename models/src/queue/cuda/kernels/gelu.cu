#ifndef __CUDACC_RTC__
#include "common.cuh"
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
gelu(const float* __restrict__ x, float* __restrict__ y, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        y[index] = x[index] * gelu_gate(x[index]).gate;
    }
}

// `dy` becomes the gradient of `x`, and `x` becomes `gelu(x)`.
extern "C" __global__ void __launch_bounds__(256)
gelu_backward(float* __restrict__ x, float* __restrict__ dy, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        float value = x[index];
        GeluGate at = gelu_gate(value);
        float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * value * value);
        dy[index] *= at.gate + value * at.gate * at.complement * slope;
        x[index] = value * at.gate;
    }
}
