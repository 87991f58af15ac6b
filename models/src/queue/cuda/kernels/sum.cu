#ifndef __CUDACC_RTC__
#include "common.cuh"
#include "wide.cuh"
#endif

// Sums of gradients, element by element: a thread per pack.

// `sum += term`
extern "C" __global__ void __launch_bounds__(256)
add(const float* __restrict__ term, float* __restrict__ sum, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_FLOATS>(num_elements, term, sum);
    Pack<float, NUM_PACK_FLOATS> terms = load(term, place);
    Pack<float, NUM_PACK_FLOATS> sums = load(sum, place);
#pragma unroll
    for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
        sums.at[index] += terms.at[index];
    }
    store(sum, place, sums);
}

// What is added up, in order, one of them being the output: an argument of the kernel.
static const u32 NUM_SUM_TERMS_MAX = 64;
struct SumTerms {
    const float* terms[NUM_SUM_TERMS_MAX];
    u64 num_terms;
};

static_assert(sizeof(SumTerms) == 8 * 65, "the host lays the argument out in the same way");

// A thread's pack of each term, in order. A few are read before they are needed.
template <bool WIDE>
DEVICE Pack<float, NUM_PACK_FLOATS> sum_of_terms(const SumTerms& terms, Place<NUM_PACK_FLOATS> place) {
    auto sums = load<WIDE, NUM_PACK_FLOATS>(terms.terms[0] + place.first, place.num);
#pragma unroll 4
    for (u32 term = 1; term < terms.num_terms; term++) {
        auto pack = load<WIDE, NUM_PACK_FLOATS>(terms.terms[term] + place.first, place.num);
#pragma unroll
        for (u32 index = 0; index < NUM_PACK_FLOATS; index++) {
            sums.at[index] += pack.at[index];
        }
    }
    return sums;
}

// `out = terms[0] + terms[1] + ...`, in this order.
extern "C" __global__ void __launch_bounds__(256) sum_in_order(SumTerms terms, float* out, u64 num_elements) {
    auto place = place_of_thread<NUM_PACK_FLOATS>(num_elements, out);
    for (u32 term = 0; term < terms.num_terms; term++) {
        place.is_wide = place.is_wide && are_aligned(terms.terms[term]);
    }
    store(out, place, place.is_wide ? sum_of_terms<true>(terms, place) : sum_of_terms<false>(terms, place));
}
