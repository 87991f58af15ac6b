#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// AdamW, element by element, in the order of operations of the host, and so with its bits.
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

extern "C" __global__ void __launch_bounds__(256) adamw(
    AdamWNumbers numbers,
    float* __restrict__ parameters,
    const float* __restrict__ gradients,
    float* __restrict__ first_moment,
    float* __restrict__ second_moment,
    u64 num_elements
) {
    u64 index = element_index();
    if (index >= num_elements) {
        return;
    }
    float g = gradients[index] * numbers.gradient_scale;
    float m = first_moment[index];
    m += numbers.take_first * (g - m);
    float v = second_moment[index] * numbers.keep_second + numbers.take_second * g * g;
    float divisor = sqrtf(v) / numbers.root_correction + numbers.eps;
    parameters[index] = parameters[index] * numbers.keep - numbers.step_size * m / divisor;
    first_moment[index] = m;
    second_moment[index] = v;
}
