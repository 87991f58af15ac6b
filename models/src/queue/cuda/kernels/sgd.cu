#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// Stochastic gradient descent, element by element, in the order of operations of the host, and so with its
// bits.

// `p -= lr (g + wd p)`
extern "C" __global__ void __launch_bounds__(256) sgd(
    float gradient_scale,
    float lr,
    float weight_decay,
    float* __restrict__ parameters,
    const float* __restrict__ gradients,
    u64 num_elements
) {
    u64 index = element_index();
    if (index < num_elements) {
        float p = parameters[index];
        parameters[index] = p - lr * (gradients[index] * gradient_scale + weight_decay * p);
    }
}

// `u = momentum u + g + wd p`, `p -= lr u`
extern "C" __global__ void __launch_bounds__(256) sgd_with_momentum(
    float gradient_scale,
    float lr,
    float weight_decay,
    float momentum,
    float* __restrict__ parameters,
    const float* __restrict__ gradients,
    float* __restrict__ state,
    u64 num_elements
) {
    u64 index = element_index();
    if (index < num_elements) {
        float p = parameters[index];
        float u = momentum * state[index] + (gradients[index] * gradient_scale + weight_decay * p);
        parameters[index] = p - lr * u;
        state[index] = u;
    }
}
