#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "wide.cuh"
#endif

// Stochastic gradient descent, element by element, a thread per pack, in the order of operations of the host,
// and so with its bits.

// `p -= lr (g + wd p)`
extern "C" __global__ void __launch_bounds__(256) sgd(
    float gradient_scale,
    float lr,
    float weight_decay,
    float* __restrict__ parameters,
    const float* __restrict__ gradients,
    u64 num_elements
) {
    auto place = place_of_thread<NUM_PACK_FLOATS>(num_elements, parameters, gradients);
    Pack<float, NUM_PACK_FLOATS> p = load(parameters, place);
    Pack<float, NUM_PACK_FLOATS> g = load(gradients, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
        float gradient = g.at[index] * gradient_scale + weight_decay * p.at[index];
        p.at[index] = p.at[index] - lr * gradient;
    }
    store(parameters, place, p);
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
    auto place = place_of_thread<NUM_PACK_FLOATS>(num_elements, parameters, gradients, state);
    Pack<float, NUM_PACK_FLOATS> p = load(parameters, place);
    Pack<float, NUM_PACK_FLOATS> g = load(gradients, place);
    Pack<float, NUM_PACK_FLOATS> u = load(state, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
        float gradient = g.at[index] * gradient_scale + weight_decay * p.at[index];
        u.at[index] = momentum * u.at[index] + gradient;
        p.at[index] = p.at[index] - lr * u.at[index];
    }
    store(parameters, place, p);
    store(state, place, u);
}
