#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// Sums of gradients, element by element.

// `sum += term`
extern "C" __global__ void __launch_bounds__(256)
add(const float* __restrict__ term, float* __restrict__ sum, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        sum[index] += term[index];
    }
}

// What is added up, in order, one of them being the output: an argument of the kernel.
static const u32 NUM_SUM_TERMS_MAX = 64;
struct SumTerms {
    const float* terms[NUM_SUM_TERMS_MAX];
    u64 num_terms;
};

static_assert(sizeof(SumTerms) == 8 * 65, "the host lays the argument out in the same way");

// `out = terms[0] + terms[1] + ...`, in this order.
extern "C" __global__ void __launch_bounds__(256) sum_in_order(SumTerms terms, float* out, u64 num_elements) {
    u64 index = element_index();
    if (index < num_elements) {
        float sum = terms.terms[0][index];
        for (u32 term = 1; term < terms.num_terms; term++) {
            sum += terms.terms[term][index];
        }
        out[index] = sum;
    }
}
