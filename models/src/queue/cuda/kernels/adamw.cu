#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "wide.cuh"
#endif

// AdamW, element by element, a thread per pack, in the order of operations of the host, and so with its bits.
//
// `m += (1 - b1) (g - m)`, `v = b2 v + (1 - b2) g^2`,
// `p = (1 - lr wd) p - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps)`.

// The numbers of a step, computed in f64 by the host and then rounded: 32 bytes, an argument of the kernel.
struct AdamWNumbers {
    float gradient_scale;
    // `1 - lr wd`
    float keep;
    // `1 - b1`
    float take_first;
    // `b2`
    float keep_second;
    // `1 - b2`
    float take_second;
    // `lr / (1 - b1^t)`
    float step_size;
    // `sqrt(1 - b2^t)`
    float root_correction;
    float eps;
};

static_assert(sizeof(AdamWNumbers) == 32, "the host lays the argument out in the same way");

// One element's step.
DEVICE void step_of_element(AdamWNumbers numbers, float gradient, float& p, float& m, float& v) {
    float g = gradient * numbers.gradient_scale;
    m += numbers.take_first * (g - m);
    v = v * numbers.keep_second + numbers.take_second * g * g;
    float divisor = sqrtf(v) / numbers.root_correction + numbers.eps;
    p = p * numbers.keep - numbers.step_size * m / divisor;
}

extern "C" __global__ void __launch_bounds__(256) adamw(
    AdamWNumbers numbers,
    float* __restrict__ parameters,
    const float* __restrict__ gradients,
    float* __restrict__ first_moment,
    float* __restrict__ second_moment,
    u64 num_elements
) {
    auto place =
        place_of_thread<NUM_PACK_FLOATS>(num_elements, parameters, gradients, first_moment, second_moment);
    Pack<float, NUM_PACK_FLOATS> g = load(gradients, place);
    Pack<float, NUM_PACK_FLOATS> p = load(parameters, place);
    Pack<float, NUM_PACK_FLOATS> m = load(first_moment, place);
    Pack<float, NUM_PACK_FLOATS> v = load(second_moment, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
        step_of_element(numbers, g.at[index], p.at[index], m.at[index], v.at[index]);
    }
    store(parameters, place, p);
    store(first_moment, place, m);
    store(second_moment, place, v);
}
